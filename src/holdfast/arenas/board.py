"""Pictures of an episode: the cameras tiled, and beside them the rubric so far."""

from __future__ import annotations

import textwrap
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from holdfast import rubric
from holdfast.core.records import Reached, Task

type RGB = tuple[int, int, int]

PANEL = 320
_LEAST = 200  # pixels of height below which an image is enlarged
_MARGIN = 20
_CODEC_LOSS = 8  # by which a video may change a colour
_BLANK = 0.75  # share of paper in a row from which it is a margin; beside an image a video may blur the rest
_PAPER, _INK, _FAINT = (250, 250, 248), (32, 34, 38), (150, 153, 158)
_GREEN, _RED, _LINE = (24, 140, 66), (200, 40, 40), (222, 222, 218)


def board(task: Task, images: dict[str, np.ndarray], reached: Reached | None, seconds: float) -> np.ndarray:
    """One picture: the images in two columns, each with its camera's name, and the rubric so far.

    Args:
        task: The task, with its rubric.
        images: By camera, all of one size; a picture that is not from a camera has the name "".
        reached: What was reached so far; None if the episode is not scored.
        seconds: Since the episode began.
    """
    images = {camera: _enlarged(image) for camera, image in images.items()}
    tiles = _tiles(images)
    height = max(tiles.shape[0] + tiles.shape[0] % 2, 360)  # codecs need even sizes
    width = tiles.shape[1] + PANEL
    picture = Image.new("RGB", (width + width % 2, height), _PAPER)
    picture.paste(Image.fromarray(tiles), (0, (height - tiles.shape[0]) // 2))
    draw = ImageDraw.Draw(picture)
    for i, camera in enumerate(images):
        tall, wide, _ = images[camera].shape
        x, y = (i % 2) * wide, (height - tiles.shape[0]) // 2 + (i // 2) * tall
        draw.text(
            (x + 6, y + 4), camera.replace("_", " "), (255, 255, 255), _font(13), stroke_width=1, stroke_fill=_INK
        )
    _panel(draw, tiles.shape[1] + _MARGIN, height, task, reached, seconds)
    return np.asarray(picture)


def without_rubric(picture: np.ndarray) -> np.ndarray:
    """The images of a picture of `board`, which a video may have changed a little, without the rubric beside them."""
    images = picture[:, :-PANEL]
    blank = (np.abs(images.astype(int) - _PAPER) <= _CODEC_LOSS).all(axis=2)
    rows = np.flatnonzero(blank.sum(axis=1) < _BLANK * blank.shape[1])
    return images[rows[0] : rows[-1] + 1] if len(rows) else picture


def _enlarged(image: np.ndarray) -> np.ndarray:
    factor = -(-_LEAST // image.shape[0])
    size = (factor * image.shape[1], factor * image.shape[0])
    return image if factor == 1 else np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC))


def _tiles(images: dict[str, np.ndarray]) -> np.ndarray:
    views = list(images.values())
    if len(views) > 1 and len(views) % 2:
        views.append(np.zeros_like(views[0]))
    return np.vstack([np.hstack(views[i : i + 2]) for i in range(0, len(views), 2)])


def _panel(draw: ImageDraw.ImageDraw, x: int, height: int, task: Task, reached: Reached | None, seconds: float) -> None:
    wide = PANEL - 2 * _MARGIN
    y = _text(draw, x, _MARGIN - 4, task.title, _INK, 21)
    y = _text(draw, x, y + 2, task.instruction, _FAINT, 14) + 10
    draw.line((x, y, x + wide, y), _LINE)
    y += 12
    if reached is not None:
        _rubric(draw, x, y, task, reached)
        score = rubric.score_reached(task, reached)
        draw.text((x, height - 62), f"{score:.0f}", _GREEN if score >= 100 else _INK, _font(40))
        draw.text((x + draw.textlength(f"{score:.0f}", _font(40)) + 10, height - 44), "of 100", _FAINT, _font(15))
    draw.text((x + wide, height - 44), f"{seconds:.1f} s", _FAINT, _font(15), anchor="ra")


def _rubric(draw: ImageDraw.ImageDraw, x: int, y: int, task: Task, reached: Reached) -> None:
    if not task.milestones:
        _row(draw, x, y, "success", _GREEN if reached.final else None, "")
        return
    counted = rubric.awarded(task, reached.milestones, reached.final)
    for milestone in task.milestones:
        lit = milestone.name in counted
        y = _row(draw, x, y, milestone.name, _GREEN if lit else None, "+ 1" if lit else "")
    y += 10
    for penalty in task.penalties:
        given = min(reached.penalties.get(penalty.name, 0), penalty.most)
        y = _row(draw, x, y, penalty.name, _RED if given else None, f"- {given * penalty.value:g}" if given else "")


def _row(draw: ImageDraw.ImageDraw, x: int, y: int, name: str, lit: RGB | None, note: str) -> int:
    """A line of the rubric: an empty ring, or a disc in the colour of what happened and the points it brings."""
    draw.ellipse((x, y + 2, x + 13, y + 15), fill=lit, outline=lit or _FAINT, width=1)
    draw.text((x + 24, y), name.replace("_", " "), lit or _INK, _font(15))
    draw.text((x + PANEL - 2 * _MARGIN, y + 1), note, lit or _FAINT, _font(13), anchor="ra")
    return y + 25


def _text(draw: ImageDraw.ImageDraw, x: int, y: int, text: str, colour: RGB, size: int) -> int:
    """Wrapped text; returns where it ends."""
    for line in textwrap.wrap(text, int(2.05 * (PANEL - 2 * _MARGIN) / size)):
        draw.text((x, y), line, colour, _font(size))
        y += int(1.3 * size)
    return y


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)

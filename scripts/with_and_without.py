"""Draw README's animation: one layout, tried by the policies of two runs, side by side.

Usage: python scripts/with_and_without.py runs/quickstart/sequential runs/quickstart/er --out docs/pictures/replay.webp
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import holdfast
from holdfast import arenas
from holdfast.arenas.learned import LearnedPolicy
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.policies.pilot import Pilot
from holdfast.twin.env import CellEnv
from holdfast.twin.look import VISITOR
from holdfast.twin.portrait import Quality

SIZE, BAR = (300, 400), 34  # of one view, and of the bar above it with its label (pixels)
QUALITY = Quality(passes=8, shadow_pixels=768)
EVERY, SPEED = 3, 2  # control steps between pictures, times real time
AFTER = 8  # pictures after the attempt with replay has ended
PAPER, INK, FAINT, GREEN = (250, 250, 248), (32, 34, 38), (130, 133, 138), (24, 140, 66)

type Moment = tuple[np.ndarray, float]  # a picture and the score so far


def main() -> None:
    """Try the layout with both policies and write the animation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs=2, help="the run without replay, then the one with it")
    parser.add_argument("--stage", type=int, default=2, help="after which stage (2)")
    parser.add_argument("--task", default="stack_bowls", help="a task of an earlier stage (stack_bowls)")
    parser.add_argument("--seed", type=int, default=0, help="of the layout (0)")
    parser.add_argument("--out", type=Path, required=True, help="a .webp file")
    args = parser.parse_args()
    without, replayed = (attempt(run, args.stage, args.task, args.seed) for run in args.runs)
    right = list(replayed)
    left = list(islice(without, len(right) + AFTER))
    right += right[-1:] * (len(left) - len(right))
    print(f"scores {left[-1][1]:.0f} without, {right[-1][1]:.0f} with replay, when the animation ends")
    frames = [side_by_side(*pair) for pair in zip(left, right, strict=False)]
    rate = SPEED * arenas.load("twin").rate // EVERY
    times = [1000 // rate] * (len(frames) - 1) + [2000]
    frames[0].save(args.out, save_all=True, append_images=frames[1:], duration=times, loop=0, quality=60)
    print(f"wrote {args.out}: {len(frames)} pictures, {args.out.stat().st_size / 1e6:.2f} MB")


def attempt(run: Path, stage: int, task: str, seed: int) -> Iterator[Moment]:
    """The moments of an attempt, as `holdfast evaluate` runs it."""
    arena = arenas.load("twin")
    episode = ScoredEpisode(arena, arena.task(task))
    episode.begin(seed, arena.default_level)
    folder = holdfast.load(run).stage(stage).folder.parent
    policy = LearnedPolicy(episode, Pilot(folder, arena.action, horizon=8), seed)
    assert isinstance(episode.environment, CellEnv)
    while True:
        if episode.steps % EVERY == 0:
            yield episode.environment.show(SIZE, (VISITOR,), QUALITY)[VISITOR], episode.score
        if episode.over or (action := policy.act()) is None:
            break
        episode.step(action)
    yield episode.environment.show(SIZE, (VISITOR,), QUALITY)[VISITOR], episode.score
    episode.close()


def side_by_side(left: Moment, right: Moment) -> Image.Image:
    """One picture of the animation."""
    height, width = SIZE
    picture = Image.new("RGB", (2 * width + 4, height + BAR), PAPER)
    draw = ImageDraw.Draw(picture)
    for x, label, (view, score) in ((0, "without replay", left), (width + 4, "with replay", right)):
        picture.paste(Image.fromarray(view), (x, BAR))
        draw.text((x + 10, 7), label, INK, ImageFont.load_default(17))
        text = f"{score:.0f} of 100"
        draw.text((x + width - 10, 7), text, GREEN if score >= 100 else FAINT, ImageFont.load_default(17), anchor="ra")
    return picture


if __name__ == "__main__":
    main()

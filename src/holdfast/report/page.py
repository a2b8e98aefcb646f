"""Writes numbers, figures and videos into one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from holdfast.core.checked_folder import check_no_link
from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import finite
from holdfast.report.drawing import COLOUR_COUNT
from holdfast.report.figures import draw
from holdfast.report.gather import RunResults, gather
from holdfast.report.summary import summary
from holdfast.report.videos import BUDGET, Clip, clips, picture_uri, strip_drawings, strips, together
from holdfast.runs.paths import RunPaths

_HERE = Path(__file__).parent / "template"
_SECTIONS = {
    "results": "Results",
    "matrices": "Matrices",
    "traces": "Stages",
    "milestones": "Milestones",
    "penalties": "Penalties",
    "heldout": "Held-out",
    "strips": "Attempts",
    "videos": "Videos",
    "replayed": "Replay",
    "losses": "Losses",
    "range_checks": "Normalization",
}
_ALWAYS = ("results", "matrices")
_FIGURES = "figures"


def write(paths: Sequence[Path], output: Path | None = None, source: str | None = None) -> Path:
    """Write the page of these runs, `metrics.json` and `figures/` beside it, and return the page's path.

    Without a `source`, the results of all sources stand side by side.
    """
    runs = gather(paths, source)
    if output is None:
        output = RunPaths(runs[0].path).report
        check_no_link(output.parent / _FIGURES, runs[0].path)
    return write_results(runs, output)


def write_results(runs: Sequence[RunResults], page: Path) -> Path:
    """Write the page of runs that were read already."""
    folder = page.parent / _FIGURES
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HoldfastError(f"{folder} cannot be made ({error.strerror}). Give another --output.") from None
    numbers = summary(runs)
    drawings = draw(runs, numbers)
    videos = clips(runs, [run["label"] for run in numbers["runs"]], page)
    for drawing in (*drawings, *strip_drawings(strips(videos))):
        drawing.write(folder)
    write_text(page.with_name("metrics.json"), json.dumps(finite(numbers), indent=1))
    figures = [{"name": d.name, "section": d.section, "title": d.title, "svg": d.inline()} for d in drawings]
    write_text(page, render(runs, numbers, figures, videos))
    return page


def render(
    runs: Sequence[RunResults], numbers: dict[str, Any], figures: list[dict[str, Any]], videos: Sequence[Clip]
) -> str:
    """The page as text. Jinja escapes every value; only our own drawings, style and script are inserted as they are."""
    parts = [(part, value) for entry in (*numbers["runs"], *numbers["training"]) for part, value in entry.items()]
    has = {part for part, value in parts if value} | {figure["section"] for figure in figures}
    has |= ({"videos"} if videos else set()) | ({"strips"} if strips(videos) else set())
    return (
        templates()
        .get_template("page.html")
        .render(
            numbers=numbers,
            sections=[(name, title) for name, title in _SECTIONS.items() if name in _ALWAYS or name in has],
            figures=figures,
            clips=videos,
            together=together(videos),
            strips=strips(videos),
            video_limit=BUDGET // 1_000_000,
            paths=[str(run.path) for run in runs],
            titles={task.name: task.title for run in runs for task in run.tasks},
        )
    )


@cache
def templates(*folders: Path) -> Environment:
    """The templates of a page: those of the report, and of other folders. Values are escaped."""
    environment = Environment(
        loader=FileSystemLoader([*folders, _HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "score": _score,
        "signed": _signed,
        "interval": _interval,
        "percent": _percent,
        "short": _short,
        "picture": picture_uri,
    }
    script = (_HERE / "page.js").read_text()
    environment.globals |= {
        "colours": COLOUR_COUNT,
        "style": (_HERE / "style.css").read_text(),
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "made": time.strftime("%Y-%m-%d"),
    }
    return environment


def _score(value: float | None) -> str:
    """One digit after the point, as the paper prints scores."""
    return "–" if value is None else f"{value:.1f}"


def _signed(value: float | None) -> str:
    """One digit and always a sign, as the paper prints transfer."""
    return "–" if value is None else f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")


def _interval(figure: dict[str, Any] | None, signed: bool = False) -> str:
    """The 95 % interval as short text, or nothing."""
    if not figure or figure["low"] is None:
        return ""
    form = _signed if signed else _score
    return f"{form(figure['low'])} to {form(figure['high'])}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def _short(value: float) -> str:
    """A number of any size in a few characters."""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"

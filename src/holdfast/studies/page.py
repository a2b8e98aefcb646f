"""The page of a study: its question, the findings, tables and figures, in one self-contained HTML file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.report.drawing import METRICS, Drawing
from holdfast.report.page import templates
from holdfast.report.videos import BUDGET
from holdfast.studies.figures import draw
from holdfast.studies.figures.labels import MEANINGS, flag_words
from holdfast.studies.figures.plot import ShownStream, StudyPlot, shown_streams
from holdfast.studies.results import StudyResults
from holdfast.studies.summary import summary

_HERE = Path(__file__).parent / "template"
_SECTIONS = {
    "results": "Findings",
    "groups": "Results",
    "matrices": "Matrices",
    "kept": "Kept",
    "comparison": "Comparison",
    "curves": "Settings",
    "transfer": "Transfer",
    "arms": "Arms",
    "strips": "Attempts",
    "tasks": "Tasks",
}
_ALWAYS = ("results", "groups", "tasks")


def write(results: StudyResults, page: Path) -> Path:
    """Write the page, `metrics.json` and `figures/` beside it, and return the page's path."""
    if not results.groups:
        raise HoldfastError(f"No run of study {results.study.name} has trials yet. Start it with `holdfast study run`.")
    folder = page.parent / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HoldfastError(f"{folder} cannot be made ({error.strerror}). Give another --output.") from None
    numbers = summary(results)
    streams = shown_streams(results, numbers)
    plots = draw(streams)
    for plot in plots:
        plot.write(folder)
    write_text(page.with_name("metrics.json"), json.dumps(numbers, indent=1))
    write_text(page, render(numbers, streams, plots))
    return page


def render(numbers: dict[str, Any], streams: Sequence[ShownStream], plots: Sequence[StudyPlot]) -> str:
    """The page as text. Jinja escapes every value; only our own drawings, style and script are inserted as they are."""
    inside = _within(BUDGET, [plot.drawing for plot in plots])
    varied = {flag for group in numbers["groups"] for flag in group["settings"]}
    shown = {drawing.section for drawing in inside} | set(_ALWAYS)
    return (
        templates(_HERE)
        .get_template("study.html")
        .render(
            numbers=numbers,
            sections=[(name, title) for name, title in _SECTIONS.items() if name in shown],
            streams=streams,
            groups={group.numbers["label"]: group for stream in streams for group in stream.groups},
            metrics={metric: short for metric, (short, _) in METRICS.items()},
            figures=[{"section": d.section, "title": d.title, "width": d.width, "svg": d.inline()} for d in inside],
            meanings=[(flag_words(flag), *MEANINGS[flag]) for flag in MEANINGS if flag in varied],
            left_out=len(plots) - len(inside),
            study_style=(_HERE / "study.css").read_text(),
        )
    )


def _within(budget: int, drawings: Sequence[Drawing]) -> list[Drawing]:
    """The first drawings up to a number of bytes; strips of pictures, which are large, come last."""
    sizes = accumulate(len(drawing.svg) for drawing in drawings)
    return [drawing for drawing, size in zip(drawings, sizes, strict=True) if size <= budget]

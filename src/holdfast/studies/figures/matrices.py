"""Heat maps of score matrices, one panel per group, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine

from holdfast.report.drawing import COLOURS, finish, heat, wrapped
from holdfast.studies.figures.plot import FEW, Row, ShownGroup, ShownStream, StudyPlot, task_titles

_ACROSS = 2  # panels side by side
_LETTER = 0.066  # inches, about, of a name's letter


@dataclass(frozen=True)
class _Panel:
    """Rows of cells with their names: the matrix of a group, or a row each of several groups."""

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: Sequence[Sequence[dict[str, Any] | None]]
    learned: Sequence[int] = ()  # the task of every row, from 1, if the rows are stages


def matrices(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """One figure with the matrices of all groups."""
    panels = [panel for stream in streams for panel in _panels(stream)]
    if not panels:
        return
    across = min(_ACROSS, len(panels))
    lines = [panels[n : n + across] for n in range(0, len(panels), across)]
    many = max(len(panel.columns) for panel in panels) > FEW
    width = max(_width(panel, many) for panel in panels)
    heights = [max(len(panel.rows) for panel in line) for line in lines]
    height = 0.3 * sum(heights) + (1.2 if many else 0.75) * len(lines)
    canvas = Canvas(figsize=(across * width, height), layout=ConstrainedLayoutEngine(h_pad=0.08))
    grid = canvas.subplots(len(lines), across, squeeze=False, height_ratios=heights)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for places, most, line in zip(grid, heights, lines, strict=True):
        for axes, panel in zip(places, line, strict=False):
            _draw(axes, panel, many)
            axes.set_ylim(most - 0.5, -0.5)  # cells of the same height, however few rows a panel has
    rows = [row for stream in streams for group in stream.groups for row in _rows(stream, group)]
    yield StudyPlot(finish(canvas, "matrices", "matrices", "Score matrices"), rows)


def _width(panel: _Panel, many: bool) -> float:
    """Inches that a panel needs. Names of many columns stand upright; those of a few need room side by side."""
    if many:
        return len(panel.columns) * 0.32 + 1.1
    above, beside = (max(map(len, "\n".join(names).split("\n"))) for names in (panel.columns, panel.rows))
    return len(panel.columns) * max(0.48, _LETTER * (above + 1)) + max(1.1, _LETTER * (beside + 4))


def _panels(stream: ShownStream) -> Iterator[_Panel]:
    columns = task_titles(stream.numbers["tasks"])
    rest = [group for group in stream.groups if not group.continual and group.numbers["matrix"]]
    for group in stream.groups:
        matrix = group.numbers["matrix"]
        if group.continual and matrix:
            yield _Panel(
                group.label,
                columns,
                [wrapped(r["label"], 20, lines=1) for r in matrix],
                [r["cells"] for r in matrix],
                [r["learned"] for r in matrix],
            )
    if rest:
        cells = [group.numbers["matrix"][-1]["cells"] for group in rest]
        yield _Panel(
            stream.title("without stages"), columns, [wrapped(group.short, 16, lines=2) for group in rest], cells
        )


def _draw(axes: Axes, panel: _Panel, many: bool) -> None:
    values = [[cell and cell["mean"] for cell in row] for row in panel.cells]
    heat(axes, values, panel.columns, panel.rows, ".0f" if many else ".1f")
    if len(panel.columns) > FEW:
        axes.tick_params(axis="x", rotation=90)
    for j, row in enumerate(values):
        for i, value in enumerate(row):
            if value is None and (i + 1 in panel.learned[: j + 1] or not panel.learned):  # learned, but not measured
                axes.text(i, j, "·", ha="center", va="center", color=COLOURS["muted"])
    axes.set_title(wrapped(panel.title, 8 * len(panel.columns)), loc="left", fontsize=8, fontweight="bold")
    if panel.learned:
        axes.set_ylabel("after stage")


def _rows(stream: ShownStream, group: ShownGroup) -> Iterator[Row]:
    for line in group.numbers["matrix"]:
        for task, cell in zip(stream.numbers["tasks"], line["cells"], strict=True):
            if cell:
                measured = {key: cell[key] for key in ("mean", "low", "high", "trials")}
                yield {
                    "group": group.label,
                    "stage": line["stage"],
                    "after": line["label"],
                    "task": task["name"],
                } | measured

"""What is kept of every task: its score right after its own stage, and after the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes

from holdfast.report.drawing import COLOURS, finish, legend, panel, wrapped
from holdfast.studies.figures.plot import Row, ShownGroup, ShownStream, StudyPlot, looks

MOST = 4  # groups whose lines lie one below the other without touching those of the next task


def kept(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """A figure for every stream of two tasks or more, unless too many groups learned it."""
    for stream in streams:
        found = [(group, _rows(stream, group)) for group in stream.groups if group.continual]
        shown = [(group, rows) for group, rows in found if len(rows) > 1]
        if 0 < len(shown) <= MOST:
            yield _figure(stream, shown)


def _rows(stream: ShownStream, group: ShownGroup) -> list[Row]:
    """Both scores of every task that has both."""
    rows: list[Row] = [
        {
            "group": group.label,
            "task": task["name"],
            "after_its_stage": own["after_own"]["value"],
            "at_the_end": own["final"]["value"],
        }
        for task, own in zip(stream.numbers["tasks"], group.numbers["tasks"], strict=True)
    ]
    return [row for row in rows if None not in row.values()]


def _figure(stream: ShownStream, shown: Sequence[tuple[ShownGroup, list[Row]]]) -> StudyPlot:
    tasks = stream.numbers["tasks"]
    places = {task["name"]: place for place, task in enumerate(tasks)}
    canvas, axes = panel(width=4.6, height=0.8 + len(tasks) * (0.12 + 0.12 * len(shown)))
    for n, ((group, rows), look) in enumerate(zip(shown, looks([group for group, _ in shown]), strict=True)):
        shift = 0.7 * ((n + 0.5) / len(shown) - 0.5)
        _lines(axes, group, look, [(places[row["task"]] + shift, row) for row in rows])
    axes.scatter([], [], s=22, facecolor="none", edgecolor=COLOURS["muted"], label="right after its stage")
    axes.set_yticks(range(len(tasks)), [wrapped(task["title"], 20, lines=1) for task in tasks])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xlim(-2, 102)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    axes.set_xlabel("score")
    legend(axes, len(shown) + 1)
    drawing = finish(canvas, f"{stream.prefix}kept", "kept", stream.title("What is kept of every task"))
    return StudyPlot(drawing, [row for _, rows in shown for row in rows])


def _lines(axes: Axes, group: ShownGroup, look: dict[str, Any], rows: Sequence[tuple[float, Row]]) -> None:
    colour, marker, name = look["color"], look["marker"], wrapped(group.short, 50, lines=1)
    heights, own, final = zip(*((y, row["after_its_stage"], row["at_the_end"]) for y, row in rows), strict=True)
    axes.hlines(heights, own, final, color=colour, alpha=0.45, linewidth=2)
    axes.scatter(own, heights, s=22, marker=marker, facecolor="white", edgecolor=colour, linewidth=1.1, zorder=3)
    axes.scatter(final, heights, s=26, marker=marker, color=colour, linewidth=0, zorder=4, label=f"{name}, at the end")

"""Transfer of one group: bars of forward transfer per task, and the line of backward transfer over the stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.report.drawing import COLOURS, finish, legend, line_with_band, look_of
from holdfast.studies.figures.plot import Row, ShownGroup, ShownStream, StudyPlot, figure_columns, stage_panel

_FORWARD, _BACKWARD = look_of(0), look_of(1)


def transfer(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """A figure for every group with FWT, or BWT of two stages or more; all of a stream have the same scale."""
    for stream in streams:
        rows = [(group, _rows(group)) for group in stream.groups if group.continual]
        ends = [e for _, found in rows for row in found for e in (row["value"], row["low"], row["high"])]
        numbers = [float(e) for e in ends if e is not None]
        for group, found in rows:
            if len({row["metric"] for row in found}) == 2 or len(found) > 1:
                limits = min(-10.0, *numbers) - 4, max(10.0, *numbers) + 4
                yield _figure(stream, group, found, limits)


def _rows(group: ShownGroup) -> list[Row]:
    """FWT of every task and BWT after every stage, as far as they were measured."""
    own: Row = {"group": group.label}
    first = {row["learned"]: row["stage"] for row in reversed(group.numbers["matrix"])}
    # The first task has none: nothing was learned before it.
    forward = [(first[n], task["task"], task["fwt"]) for n, task in enumerate(group.numbers["tasks"], 1) if n > 1]
    backward = [(stage["stage"], "", stage["bwt"]) for stage in group.numbers["stages"]]
    return [
        own | {"metric": metric, "stage": stage, "task": task} | figure_columns(figure)
        for metric, figures in (("fwt", forward), ("bwt", backward))
        for stage, task, figure in figures
        if figure["value"] is not None
    ]


def _figure(stream: ShownStream, group: ShownGroup, rows: list[Row], limits: tuple[float, float]) -> StudyPlot:
    canvas, axes = stage_panel(stream, group, 1)
    forward, backward = ([row for row in rows if row["metric"] == metric] for metric in ("fwt", "bwt"))
    if forward:
        x, y = [row["stage"] for row in forward], [row["value"] for row in forward]
        axes.bar(x, y, width=0.55, color=_FORWARD["color"], alpha=0.45, label="FWT of task")
        for row in forward:
            if row["low"] is not None:
                axes.plot([row["stage"]] * 2, [row["low"], row["high"]], color=_FORWARD["color"], linewidth=1)
        for stage in range(2, len(group.numbers["matrix"]) + 1):
            if stage not in x:  # not measured, or learned before
                axes.text(stage, 0, "–", ha="center", va="bottom", color=_FORWARD["color"])
    if backward:
        line_with_band(axes, [(row["stage"], row) for row in backward], "BWT after it", _BACKWARD)
    axes.axhline(0, color=COLOURS["muted"], linewidth=0.8)
    axes.set_xlim(0.4, len(group.numbers["matrix"]) + 0.6)
    axes.set_ylim(limits)
    axes.set_ylabel("change of the score")
    legend(axes, 2)
    name = f"{stream.prefix}transfer-{group.file_name}"
    return StudyPlot(finish(canvas, name, "transfer", stream.title(group.short)), rows)

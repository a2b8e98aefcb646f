"""Training loss of each arm over the stages, where a task of two arms is followed by one of one arm."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from holdfast.report.drawing import COLOURS, finish, legend, look_of
from holdfast.studies.figures.plot import Row, ShownGroup, ShownStream, StudyPlot, stage_panel


def arms(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """A figure for every group whose training logged a loss per arm."""
    for stream in streams:
        for group in stream.groups:
            run = group.runs[0]
            used = [len(run.tasks[i - 1].arms) for i in run.matrix.learned]
            if group.continual and any(a == 2 and b == 1 for a, b in pairwise(used)):
                rows = _rows(group)
                if rows:
                    yield _figure(stream, group, rows, used)


def _rows(group: ShownGroup) -> list[Row]:
    """Mean over the seeds of each arm's loss; the place of a step is its share of the stage."""
    losses: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    lengths: dict[int, int] = defaultdict(int)
    for run in group.runs:
        for stage in run.stages:
            for line in stage.lines:
                lengths[stage.number] = max(lengths[stage.number], line["step"])
                for arm, loss in line.get("loss_by_arm", {}).items():
                    if 0 < loss < math.inf:
                        losses[arm, stage.number, line["step"]].append(loss)
    return [
        {
            "group": group.label,
            "arm": arm,
            "stage": stage,
            "step": step,
            "place": stage - 1 + step / lengths[stage],
            "loss": sum(found) / len(found),
            "seeds": len(found),
        }
        for (arm, stage, step), found in sorted(losses.items())
    ]


def _figure(stream: ShownStream, group: ShownGroup, rows: list[Row], used: Sequence[int]) -> StudyPlot:
    canvas, axes = stage_panel(stream, group, 0.5)
    for position, arm in enumerate(dict.fromkeys(str(row["arm"]) for row in rows)):
        look = look_of(position) | {"marker": "", "label": f"{arm} arm"}
        for stage in range(1, len(used) + 1):  # a line per stage: losses of different stages are not joined
            mine = [row for row in rows if row["arm"] == arm and row["stage"] == stage]
            axes.plot([row["place"] for row in mine], [row["loss"] for row in mine], linewidth=1.2, **look)
            look["label"] = "_"  # once in the legend
    for stage, count in enumerate(used):
        axes.axvline(stage, color=COLOURS["line"], linewidth=0.7)
        if count == 1:
            axes.axvspan(stage, stage + 1, color=COLOURS["line"], alpha=0.4, linewidth=0)
    axes.set_xlim(0, len(used))
    axes.set_ylabel("loss; grey: one arm")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    legend(axes, 2)
    name = f"{stream.prefix}arms-{group.file_name}"
    return StudyPlot(finish(canvas, name, "arms", stream.title(group.short)), rows)

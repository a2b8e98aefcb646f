"""The figures of the report: written as SVG and PNG for papers, and embedded in the page with its colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from holdfast.report.drawing import (
    COLOURS,
    METRICS,
    STYLE,
    Drawing,
    finish,
    heat,
    legend,
    line_with_band,
    look_of,
    panel,
    slug,
    transfer_limits,
    unique,
)
from holdfast.report.gather import RunResults


def draw(runs: Sequence[RunResults], numbers: dict[str, Any]) -> list[Drawing]:
    """All figures for which these runs have data."""
    with matplotlib.rc_context(STYLE):
        drawn = [
            *_traces(numbers["runs"]),
            *(_matrix(run) for run in numbers["runs"] if run["trials"]),
            *(_milestones(run) for run in numbers["runs"] if run["milestones"]),
            *_losses([runs[training["position"]] for training in numbers["training"]]),
            *_heldout(numbers["runs"]),
        ]
    return unique(drawn)


def _traces(runs: Sequence[dict[str, Any]]) -> Iterator[Drawing]:
    for key, (short, long) in METRICS.items():
        canvas, axes = panel()
        shown = sum(_trace(axes, run, key, look_of(position)) for position, run in enumerate(runs))
        if not shown:
            continue
        size = max(len(run["tasks"]) for run in runs)
        axes.set_xticks(range(1, size + 1))
        axes.set_xlim(0.8, size + 0.2)
        axes.set_xlabel("after stage")
        if key == "average_score":
            axes.set_ylim(0, 103)
        else:
            transfer_limits(axes)
        legend(axes, shown)
        yield finish(canvas, f"trace-{short.lower()}", "traces", f"{short}, {long}")


def _trace(axes: Axes, run: dict[str, Any], key: str, look: dict[str, Any]) -> bool:
    points = [(stage["stage"], stage[key]) for stage in run["stages"] if stage[key]["value"] is not None]
    if not points:
        return False
    line_with_band(axes, points, run["label"], look)
    return True


def _matrix(run: dict[str, Any]) -> Drawing:
    """The heat map for papers; the page shows the same numbers as a table."""
    values = [[cell and cell["mean"] for cell in row["cells"]] for row in run["matrix"]]
    columns = [task["title"].replace(" ", "\n", 1) for task in run["tasks"]]
    rows = [f"after {row['label']}" if run["continual"] else row["label"] for row in run["matrix"]]
    canvas, axes = panel(1.4 + 0.62 * len(columns), 0.9 + 0.36 * len(rows))
    heat(axes, values, columns, rows, ".1f")
    return finish(canvas, f"matrix-{slug(run['label'])}", "matrix", run["label"])


def _milestones(run: dict[str, Any]) -> Drawing:
    """Percent of trials that reached each milestone, for papers: a heat map per task, one above the other."""
    tasks, stages = run["milestones"], [row["stage"] for row in run["matrix"]]
    columns = [f"after {stage}" for stage in stages] if run["continual"] else [run["matrix"][0]["label"]]
    heights = [len(task["rows"]) + 1.5 for task in tasks]
    canvas = Canvas(figsize=(1.7 + 0.5 * len(stages), 0.27 * sum(heights)), layout="constrained")
    grid = canvas.subplots(len(tasks), 1, squeeze=False, height_ratios=heights)
    for axes, task in zip(grid[:, 0], tasks, strict=True):
        before = [None] * (len(stages) - len(task["stages"]))  # stages before its own, so that columns line up
        values = [[*before, *(s if s is None else 100 * s for s in row["shares"])] for row in task["rows"]]
        heat(axes, values, columns, [row["name"].replace("_", " ") for row in task["rows"]], ".0f")
        axes.set_title(task["title"], loc="left", fontsize=8, fontweight="bold")
    return finish(canvas, f"milestones-{slug(run['label'])}", "milestones", run["label"])


def _losses(runs: Sequence[RunResults]) -> Iterator[Drawing]:
    """One panel per task with all runs; stages are equally wide, since methods differ in steps."""
    tasks = {task.name: task.title for run in runs for task in run.tasks}
    for name, title in tasks.items():
        canvas, axes = panel()
        shown = sum(_loss_line(axes, run, name, look_of(position)) for position, run in enumerate(runs))
        if not shown:
            continue
        stages = range(1, 1 + max(len(run.stages) for run in runs))
        axes.set_xticks([stage - 0.5 for stage in stages], [str(stage) for stage in stages])
        axes.set_xlim(0, len(stages))
        for stage in stages:
            axes.axvline(stage, color=COLOURS["line"], linewidth=0.7)
        axes.set_xlabel("stage")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        legend(axes, shown)
        yield finish(canvas, f"loss-{slug(name)}", "losses", title)


def _loss_line(axes: Axes, run: RunResults, task: str, look: dict[str, Any]) -> bool:
    x: list[float] = []
    y: list[float] = []
    for stage in run.stages:
        length = max((line["step"] for line in stage.lines), default=1)
        points = [
            (stage.number - 1 + line["step"] / length, line["loss_by_task"][task])
            for line in stage.lines
            if line.get("loss_by_task", {}).get(task, 0) > 0
        ]
        if points:
            x, y = [*x, *(p[0] for p in points), np.nan], [*y, *(p[1] for p in points), np.nan]  # no line across stages
    if not x:
        return False
    axes.plot(x, y, label=run.name, linewidth=1.2, **{**look, "marker": ""})
    return True


def _heldout(runs: Sequence[dict[str, Any]]) -> Iterator[Drawing]:
    canvas, axes = panel()
    shown = 0
    for position, run in enumerate(runs):
        if not run["heldout"]:
            continue
        both = [
            (held["mean"], score["mean"])
            for one, other in zip(run["heldout"]["matrix"], run["matrix"], strict=True)
            for held, score in zip(one["cells"], other["cells"], strict=True)
            if held and score
        ]
        if both:
            shown += 1
            look = look_of(position)
            x, y = zip(*both, strict=True)
            axes.scatter(x, y, s=18, color=look["color"], marker=look["marker"], label=run["label"])
    if shown:
        axes.set_xlabel("held-out score")
        axes.set_ylabel("score of trials")
        legend(axes, shown)
        yield finish(canvas, "heldout", "heldout", "Held-out score against score of trials, one point per cell")

"""The figures: written as SVG and PNG for papers, and embedded in the page with its colours."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from holdfast.report.gather import RunResults

# Colours of the light theme; in the page each becomes a CSS variable of the same name, so that dark mode works.
COLOURS = {
    "ink": "#16202b",
    "muted": "#5b6b7c",
    "line": "#dbe2ea",
    "run-1": "#0a5bb0",
    "run-2": "#c4500f",
    "run-3": "#0d7a60",
    "run-4": "#86519b",
    "run-5": "#8a6a00",
}
COLD, HOT = "#edf2f8", "#0a4a8f"  # colour scale of scores, 0 to 100
_SCALE = LinearSegmentedColormap.from_list("score", [COLD, HOT])
_WHITE_ABOVE = 72  # above it white text reads better than black; both have a contrast above 4.5 here
_METRICS = {
    "average_score": ("AS", "average score"),
    "bwt": ("BWT", "backward transfer"),
    "fwt": ("FWT", "forward transfer"),
}
_MARKERS, _DASHES = "osD^v", ("-", "--", "-.", ":", (0, (3, 1, 1, 1)))
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 8,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may contain a dollar sign
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.7,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "text.color": COLOURS["ink"],
    "legend.frameon": False,
    "savefig.transparent": True,
}


@dataclass(frozen=True)
class Drawing:
    """A finished figure. `section` says where in the page it goes."""

    name: str
    section: str
    title: str
    svg: str
    png: bytes

    def write(self, folder: Path) -> None:
        """Write the SVG and the PNG."""
        (folder / f"{self.name}.svg").write_text(self.svg)
        (folder / f"{self.name}.png").write_bytes(self.png)

    def inline(self) -> str:
        """The SVG for embedding: no prolog, no clashing ids, colours and font of the page."""
        text = self.svg[self.svg.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)  # ids of groups; ids that are referenced are hashes
        for size in ("width", "height"):
            text = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", text, count=1)
        text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
        for name, colour in COLOURS.items():
            text = text.replace(colour, f"var(--{name})")
        return text.replace("<svg", '<svg aria-hidden="true"', 1)


def draw(runs: Sequence[RunResults], numbers: dict[str, Any]) -> list[Drawing]:
    """All figures for which these runs have data."""
    with matplotlib.rc_context(_STYLE):
        drawn = [
            *_traces(numbers["runs"]),
            *(_matrix(run) for run in numbers["runs"] if run["trials"]),
            *(_milestones(run) for run in numbers["runs"] if run["milestones"]),
            *_losses(runs),
            *_heldout(numbers["runs"]),
        ]
    names = [drawing.name for drawing in drawn]
    # Names may differ only in characters that slug() replaces.
    twice = [names[:n].count(name) for n, name in enumerate(names)]
    return [replace(d, name=f"{d.name}-{n + 1}") if n else d for d, n in zip(drawn, twice, strict=True)]


def _finish(canvas: Canvas, name: str, section: str, title: str) -> Drawing:
    svg, png = io.StringIO(), io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        canvas.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    canvas.savefig(png, format="png", dpi=200, transparent=False, metadata={"Software": None})
    return Drawing(name, section, title, svg.getvalue(), png.getvalue())


def _panel(width: float = 3.5, height: float = 2.2) -> tuple[Canvas, Axes]:
    canvas = Canvas(figsize=(width, height), layout="constrained")
    return canvas, canvas.subplots()


def _look(position: int) -> dict[str, Any]:
    """Colour, dash and marker of a run: three ways to tell runs apart."""
    k = position % 5
    return {"color": COLOURS[f"run-{k + 1}"], "linestyle": _DASHES[k], "marker": _MARKERS[k]}


def _legend(axes: Axes, shown: int) -> None:
    """Add a legend above the axes, in one column when names are long, so that the axes keep their width."""
    if shown > 1:
        longest = max(len(label) for label in axes.get_legend_handles_labels()[1])
        columns = 2 if longest <= 14 else 1
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, handlelength=2.4)


def _traces(runs: Sequence[dict[str, Any]]) -> Iterator[Drawing]:
    for key, (short, long) in _METRICS.items():
        canvas, axes = _panel()
        shown = sum(_trace(axes, run, key, _look(position)) for position, run in enumerate(runs))
        if not shown:
            continue
        size = max(len(run["tasks"]) for run in runs)
        axes.set_xticks(range(1, size + 1))
        axes.set_xlim(0.8, size + 0.2)
        axes.set_xlabel("after stage")
        if key == "average_score":
            axes.set_ylim(0, 103)
        else:
            axes.axhline(0, color=COLOURS["muted"], linewidth=0.8)
            low, high = axes.get_ylim()
            axes.set_ylim(min(low, -10), max(high, 10))  # so that a change of one point does not look large
        _legend(axes, shown)
        yield _finish(canvas, f"trace-{short.lower()}", "traces", f"{short}, {long}")


def _trace(axes: Axes, run: dict[str, Any], key: str, look: dict[str, Any]) -> bool:
    points = [(stage["stage"], stage[key]) for stage in run["stages"] if stage[key]["value"] is not None]
    if not points:
        return False
    x, y = [stage for stage, _ in points], [figure["value"] for _, figure in points]
    axes.plot(x, y, label=run["name"], linewidth=1.8, markersize=4, **look)
    banded = [(stage, figure["low"], figure["high"]) for stage, figure in points if figure["low"] is not None]
    if banded:
        stages, low, high = zip(*banded, strict=True)
        axes.fill_between(stages, low, high, color=look["color"], alpha=0.14, linewidth=0)
    return True


def _heat(axes: Axes, values: Any, columns: Sequence[str], rows: Sequence[str], form: str) -> None:
    """Cells on one colour scale, with their numbers; empty where nothing was measured."""
    numbers = np.array([[np.nan if value is None else value for value in row] for row in values], dtype=float)
    axes.imshow(numbers, cmap=_SCALE, vmin=0, vmax=100, aspect="auto")
    for (j, i), value in np.ndenumerate(numbers):
        if np.isfinite(value):
            colour = "#ffffff" if value > _WHITE_ABOVE else "#000000"
            axes.text(i, j, format(value, form), ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _matrix(run: dict[str, Any]) -> Drawing:
    """The heat map for papers; the page shows the same numbers as a table."""
    values = [[cell and cell["mean"] for cell in row["cells"]] for row in run["matrix"]]
    columns = [task["title"].replace(" ", "\n", 1) for task in run["tasks"]]
    rows = [f"after {row['label']}" if run["continual"] else row["label"] for row in run["matrix"]]
    canvas, axes = _panel(1.4 + 0.62 * len(columns), 0.9 + 0.36 * len(rows))
    _heat(axes, values, columns, rows, ".1f")
    return _finish(canvas, f"matrix-{slug(run['name'])}", "matrix", run["name"])


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
        _heat(axes, values, columns, [row["name"].replace("_", " ") for row in task["rows"]], ".0f")
        axes.set_title(task["title"], loc="left", fontsize=8, fontweight="bold")
    return _finish(canvas, f"milestones-{slug(run['name'])}", "milestones", run["name"])


def _losses(runs: Sequence[RunResults]) -> Iterator[Drawing]:
    """One panel per task with all runs; stages are equally wide, since methods differ in steps."""
    tasks = {task.name: task.title for run in runs for task in run.tasks}
    for name, title in tasks.items():
        canvas, axes = _panel()
        shown = sum(_loss_line(axes, run, name, _look(position)) for position, run in enumerate(runs))
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
        _legend(axes, shown)
        yield _finish(canvas, f"loss-{slug(name)}", "losses", title)


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
    canvas, axes = _panel()
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
            look = _look(position)
            x, y = zip(*both, strict=True)
            axes.scatter(x, y, s=18, color=look["color"], marker=look["marker"], label=run["name"])
    if shown:
        axes.set_xlabel("held-out score")
        axes.set_ylabel("score of trials")
        _legend(axes, shown)
        yield _finish(canvas, "heldout", "heldout", "Held-out score against score of trials, one point per cell")


def slug(name: str) -> str:
    """A name that is safe in a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "unnamed"

"""Groups side by side: a bar with its interval, a dot for every seed, and the published value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes

from holdfast.report.drawing import COLOURS, METRICS, finish, look_of, panel, wrapped
from holdfast.studies.figures.plot import Row, ShownGroup, ShownStream, StudyPlot, figure_columns
from holdfast.studies.figures.published import published_score


def comparison(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """A figure for every metric that two groups of a stream or more have."""
    for stream in streams:
        for metric, (short, long) in METRICS.items():
            groups = [group for group in stream.groups if group.numbers[metric]["value"] is not None]
            if len(groups) > 1:
                yield _figure(stream, groups, metric, stream.title(f"{short}, {long}"))


def _figure(stream: ShownStream, groups: Sequence[ShownGroup], metric: str, title: str) -> StudyPlot:
    names = [wrapped(group.short, 22) for group in groups]
    canvas, axes = panel(height=0.7 + 0.27 * len(groups) * max(1 + name.count("\n") for name in names) ** 0.5)
    rows: list[Row] = []
    for place, group in enumerate(groups):
        rows += _rows(stream, group, metric)
        _bar(axes, place, group, metric, published_score(stream, group, metric))
    axes.set_yticks(range(len(groups)), names)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    if metric == "average_score":
        axes.set_xlim(0, 103)
    else:
        axes.axvline(0, color=COLOURS["muted"], linewidth=0.8)
    axes.set_xlabel(METRICS[metric][1])
    handles, kinds = axes.get_legend_handles_labels()
    unique = dict(zip(kinds, handles, strict=True))
    axes.legend(unique.values(), unique.keys(), loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return StudyPlot(
        finish(canvas, f"{stream.prefix}comparison-{METRICS[metric][0].lower()}", "comparison", title), rows
    )


def _bar(axes: Axes, place: int, group: ShownGroup, metric: str, published: float | None) -> None:
    colour = look_of(group.hue)["color"]
    figure = group.numbers[metric]
    axes.barh(place, figure["value"], height=0.62, color=colour, alpha=0.4)
    if figure["low"] is not None:
        axes.plot([figure["low"], figure["high"]], [place, place], color=colour, linewidth=1.6)
    seeds = [value for value in _seeds(group, metric).values() if value is not None]
    spread = (
        [place + 0.12 * (n - (len(seeds) - 1) / 2) for n in range(len(seeds))]
        if len(seeds) < 6
        else [place] * len(seeds)
    )
    axes.scatter(seeds, spread, s=9, color=COLOURS["ink"], zorder=3, linewidth=0, label="a seed")
    if published is not None:
        axes.scatter(
            [published], [place], s=26, marker="D", facecolor="none", edgecolor=COLOURS["ink"], zorder=4,
            linewidth=0.9, label="published, real robot",
        )  # fmt: skip


def _seeds(group: ShownGroup, metric: str) -> dict[str, Any]:
    return {seed: found.get(metric) for seed, found in group.numbers["by_seed"].items()}


def _rows(stream: ShownStream, group: ShownGroup, metric: str) -> list[Row]:
    own: Row = {"group": group.label, "metric": metric}
    nothing: Row = {"low": None, "high": None}
    rows = [own | {"source": "all seeds"} | figure_columns(group.numbers[metric])]
    rows += [
        own | {"source": f"seed {seed}", "value": value} | nothing for seed, value in _seeds(group, metric).items()
    ]
    published = published_score(stream, group, metric)
    if published is not None:
        rows.append(own | {"source": "published, real robot", "value": published} | nothing)
    return rows

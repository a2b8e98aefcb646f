"""Curves over a number that the study varies, like rho and f_r."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from holdfast.report.drawing import (
    COLOURS,
    METRICS,
    finish,
    legend,
    line_with_band,
    panel,
    slug,
    transfer_limits,
    wrapped,
)
from holdfast.studies.figures.labels import MEANINGS, STREAM, flag_words, label
from holdfast.studies.figures.plot import Row, ShownGroup, ShownStream, StudyPlot, figure_columns, looks
from holdfast.studies.figures.published import published_sweep

_DECADE = 10  # from this ratio of the largest to the smallest value on, the axis is logarithmic


@dataclass(frozen=True)
class _Curve:
    """Groups that differ only in one flag, by its value."""

    label: str
    points: dict[float, ShownGroup]


def curves(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """A figure for every flag with numbers for values that varies within a stream, and every metric."""
    for stream in streams:
        flags = dict.fromkeys(
            flag for group in stream.groups for flag in group.numbers["settings"] if flag not in STREAM
        )
        for flag in flags:
            found = _curves(stream.groups, flag, list(flags))
            for metric in METRICS if found else ():
                yield from _figure(stream, found, flag, metric)


def _curves(groups: Sequence[ShownGroup], flag: str, flags: Sequence[str]) -> list[_Curve]:
    """Lines of two points or more. Defaults count like given values, so that `er` is a point of a sweep of er."""
    lines: dict[str, dict[float, ShownGroup]] = {}
    rest: dict[str, dict[str, Any]] = {}
    for group in groups:
        value = group.setting(flag)
        if isinstance(value, int | float) and not isinstance(value, bool):
            others = {other: group.setting(other) for other in flags if other != flag}
            key = json.dumps([group.numbers["method"], others], sort_keys=True, default=str)
            lines.setdefault(key, {}).setdefault(float(value), group)
            rest[key] = others
    lines = {key: points for key, points in lines.items() if len(points) > 1}
    differ = [o for o in flags if o != flag and len({json.dumps(rest[key][o], default=str) for key in lines}) > 1]
    return [
        _Curve(label({o: rest[key][o] for o in differ}, next(iter(points.values())).numbers["method"]), points)
        for key, points in lines.items()
    ]


def _figure(stream: ShownStream, found: Sequence[_Curve], flag: str, metric: str) -> Iterator[StudyPlot]:
    canvas, axes = panel(height=2.4)
    rows: list[Row] = []
    others = _references(stream, found, metric)
    looked = looks([*(next(iter(curve.points.values())) for curve in found), *others])
    for curve, look in zip(found, looked, strict=False):
        rows += _line(axes, curve, metric, look)
    if not rows:
        return
    for group, look in zip(others, looked[len(found) :], strict=True):
        figure = group.numbers[metric]
        axes.axhline(figure["value"], label=wrapped(group.short, 40), linewidth=1.1, **look | {"marker": ""})
        rows.append(_row(group.short, None, figure))
    rows += _published(axes, flag, metric)
    _axis(axes, sorted({float(row["x"]) for row in rows if row["x"] is not None}), _axis_name(flag))
    if metric == "average_score":
        axes.set_ylim(0, 103)
    else:
        transfer_limits(axes)
    legend(axes, len(axes.get_legend_handles_labels()[1]))
    short, long = METRICS[metric]
    axes.set_ylabel(long)
    name = f"{stream.prefix}curve-{slug(flag)}-{short.lower()}"
    title = stream.title(f"{short} over {flag_words(flag)}")
    yield StudyPlot(finish(canvas, name, "curves", title), [{"flag": flag, "metric": metric} | row for row in rows])


def _row(name: str, x: float | None, figure: dict[str, Any]) -> Row:
    return {"line": name, "x": x} | figure_columns(figure)


def _line(axes: Axes, curve: _Curve, metric: str, look: dict[str, Any]) -> list[Row]:
    points = [(x, group.numbers[metric]) for x, group in sorted(curve.points.items())]
    points = [(x, figure) for x, figure in points if figure["value"] is not None]
    if not points:
        return []
    line_with_band(axes, points, wrapped(curve.label, 40), look)
    return [_row(curve.label, x, figure) for x, figure in points]


def _references(stream: ShownStream, found: Sequence[_Curve], metric: str) -> list[ShownGroup]:
    """The groups of methods that no curve has, like sequential and joint: they are level lines."""
    methods = {group.numbers["method"] for curve in found for group in curve.points.values()}
    groups = [group for group in stream.groups if group.numbers[metric]["value"] is not None]
    return [group for group in groups if group.numbers["method"] not in methods]


def _published(axes: Axes, flag: str, metric: str) -> list[Row]:
    """The paper's sweep, if it has one."""
    where, points = published_sweep(flag, metric)
    if not points:
        return []
    name = f"published, real robot, {where}"
    x, y = zip(*points, strict=True)
    axes.plot(
        x, y, color=COLOURS["ink"], label=name, marker="D", markerfacecolor="none", markersize=4,
        linestyle=(0, (1, 1.5)), linewidth=0.9,
    )  # fmt: skip
    return [_row(name, value, {"value": bwt, "low": None, "high": None}) for value, bwt in points]


def _axis_name(flag: str) -> str:
    return f"{MEANINGS[flag][0]} {flag_words(flag)}" if flag in MEANINGS else flag_words(flag)


def _axis(axes: Axes, values: Sequence[float], name: str) -> None:
    if values[0] > 0 and values[-1] / values[0] >= _DECADE:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xlabel(wrapped(name, 48))

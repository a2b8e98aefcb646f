"""The range check: how a task's values look in the space it is trained in, before the first step is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from holdfast.core.errors import HoldfastError
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Space, normalize


@dataclass(frozen=True)
class DimensionRange:
    """What one dimension of a task looks like in the space it will be trained in."""

    feature: str
    name: str
    low: float
    high: float
    outside: float  # share of values beyond [-1, 1]
    largest: float  # largest magnitude
    widened: bool


@dataclass(frozen=True)
class RangeCheck:
    """Every dimension of one task in one space."""

    task: str
    rows: tuple[DimensionRange, ...]

    def beyond(self, limit: float, allow: Sequence[str]) -> tuple[DimensionRange, ...]:
        """Dimensions with a value larger than `limit` that are not allowed by name."""
        return tuple(r for r in self.rows if not r.largest <= limit and r.name not in allow)  # NaN is beyond too

    def check(self, limit: float, allow: Sequence[str], strategy: str) -> None:
        """Raise when a dimension is beyond `limit`, naming it, its values and the possible fixes."""
        bad = self.beyond(limit, allow)
        if not bad:
            return
        worst = max(bad, key=lambda r: r.largest)
        others = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise HoldfastError(
            f"Task {self.task!r}: {worst.feature} dimension {worst.name!r}{others} would be normalized to "
            f"{worst.largest:.4g} (limit {limit:g}) by strategy {strategy!r}, whose range for it is "
            f"[{worst.low:.4g}, {worst.high:.4g}]. Training on such values fails. Options: let the embodiment "
            "widen narrow ranges (--norm.floor=0.2 --norm.widen=all, with an embodiment in the stream), choose "
            f"--norm.strategy=calibrated, or accept it by name (--norm.allow='[{worst.name}]')."
        )


class RangeCounter:
    """Counts values of one task against one space, block by block."""

    def __init__(self, space: Space, features: dict[str, Sequence[str]]) -> None:
        self._space = space
        self._names = features
        self._seen = dict.fromkeys(features, 0)
        self._outside = {f: np.zeros(len(names), dtype=np.int64) for f, names in features.items()}
        self._largest = {f: np.zeros(len(names)) for f, names in features.items()}

    def update(self, feature: str, values: np.ndarray) -> None:
        """Take in rows of shape (n, dimensions) of one feature."""
        size = np.abs(normalize(values, self._space.of(feature)))
        self._seen[feature] += len(size)
        # A value on the edge is inside; rounding in float32 must not put it outside.
        self._outside[feature] += (size > 1 + 1e-5).sum(0)
        self._largest[feature] = np.maximum(self._largest[feature], size.max(0))

    def finish(self, task: str) -> RangeCheck:
        """Summarize one row per dimension."""
        rows = [row for feature in self._names for row in self._rows(feature, self._space.of(feature))]
        return RangeCheck(task, tuple(rows))

    def _rows(self, feature: str, stats: Stats) -> Iterable[DimensionRange]:
        for d, name in enumerate(self._names[feature]):
            yield DimensionRange(
                feature,
                name,
                stats.q01[d],
                stats.q99[d],
                float(self._outside[feature][d] / max(1, self._seen[feature])),
                float(self._largest[feature][d]),
                f"{feature}:{name}" in self._space.widened,
            )


def table(checked: RangeCheck, limit: float) -> Table:
    """Render a range check as a table: one line per dimension, those beyond the limit in red."""
    title = f"normalization of {checked.task}"
    out = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, collapse_padding=True)
    out.add_column("dimension", no_wrap=True)
    features = list(dict.fromkeys(row.feature for row in checked.rows))
    for feature in features:
        out.add_column(f"{feature.removeprefix('observation.')} range", no_wrap=True)
        out.add_column("outside", justify="right", no_wrap=True)
        out.add_column("max", justify="right", no_wrap=True)
    for name in dict.fromkeys(row.name for row in checked.rows):
        mine = {row.feature: row for row in checked.rows if row.name == name}
        cells = [cell for feature in features for cell in _cells(mine.get(feature))]
        out.add_row(Text(name), *cells, style="red" if any(row.largest > limit for row in mine.values()) else None)
    out.caption = "outside: share of values beyond -1..1; max: largest magnitude; *: widened by the embodiment"
    out.caption_justify = "left"
    return out


def _cells(row: DimensionRange | None) -> tuple[str, str, str]:
    if row is None:  # state and action need not have the same dimensions
        return "", "", ""
    star = "*" if row.widened else " "
    return f"{_short(row.low, '+')}..{_short(row.high, '+')}{star}", f"{row.outside:.1%}", _short(row.largest)


def _short(value: float, sign: str = "") -> str:
    """About three digits in at most six characters, so that the table fits even when values are huge."""
    size = abs(value)
    form = ".2f" if size < 10 else ".1f" if size < 100 else ".0f" if size < 9999.5 else ".0e"
    return format(value, sign + form)

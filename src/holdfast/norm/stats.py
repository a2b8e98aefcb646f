"""Statistics of a feature in one streaming pass with bounded memory; quantiles come with a bound on their error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.core.errors import HoldfastError

COLUMNS = ("q01", "q99", "mean", "std", "min", "max")
CAPACITY = 32_768  # rows a level holds before it is halved; below this many values everything is exact


@dataclass(frozen=True)
class Stats:
    """Summary of one feature, one number per dimension.

    `rank_error` bounds how far the quantiles may be off, as a share of all values: with 0.0003 the figure
    called q01 lies between the true quantiles 0.0097 and 0.0103. Zero means exact.
    """

    q01: tuple[float, ...]
    q99: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    min: tuple[float, ...]
    max: tuple[float, ...]
    count: int
    rank_error: float = 0.0

    @classmethod
    def from_columns(cls, count: int, rank_error: float, **columns: np.ndarray) -> Stats:
        """Build from one array per column."""
        return cls(**{name: tuple(map(float, columns[name])) for name in COLUMNS}, count=count, rank_error=rank_error)

    @classmethod
    def from_range(cls, low: np.ndarray, high: np.ndarray) -> Stats:
        """Statistics that describe a declared range rather than data."""
        centre, spread = (low + high) / 2, (high - low) / 2
        return cls.from_columns(0, 0.0, q01=low, q99=high, mean=centre, std=spread, min=low, max=high)


class RunningStats:
    """Accumulator: exact moments and extremes, quantiles by a sketch that counts its own error.

    The sketch keeps levels of rows; a full level is sorted per column and every second row moves one level up
    with twice the weight. Halving a level of weight w moves the rank of any value by at most w, so the sum of
    those w over all halvings is a bound that holds always, not only on average. (np.quantile gives 9
    of 1,120 quantiles another last bit, which would change weights.)
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._levels: list[list[np.ndarray]] = [[]]
        self._rank_error = 0
        self._halvings = 0
        self._count = 0
        nothing: np.ndarray = np.zeros(0)
        self._mean = self._m2 = self._min = self._max = nothing

    def update(self, values: np.ndarray) -> None:
        """Take in rows of shape (n, dimensions)."""
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or (self._count and values.shape[1] != len(self._mean)):
            raise HoldfastError(f"Statistics expect rows of {len(self._mean)} numbers, got shape {values.shape}.")
        if not np.isfinite(values).all():
            column = int(np.argwhere(~np.isfinite(values))[0, 1])
            raise HoldfastError(
                f"Dimension {column} holds NaN or infinite values. Run `holdfast doctor` on the dataset."
            )
        for start in range(0, len(values), self._capacity):
            self._add(values[start : start + self._capacity])

    def finish(self) -> Stats:
        """Summarize what was taken in so far."""
        if not self._count:
            raise HoldfastError("There are no values to take statistics of.")
        rows = [r for level in self._levels for r in level]
        weights = np.concatenate([np.full(len(r), 1 << k) for k, level in enumerate(self._levels) for r in level])
        q01, q99 = _weighted_quantiles(np.concatenate(rows), weights, (0.01, 0.99))
        # Interpolating between two kept values can be off by one rank more; ranks go from 0 to count - 1.
        rank_error = (self._rank_error + 1) / (self._count - 1) if self._rank_error else 0.0
        return Stats.from_columns(
            self._count,
            rank_error,
            q01=q01,
            q99=q99,
            mean=self._mean,
            std=np.sqrt(self._m2 / self._count),
            min=self._min,
            max=self._max,
        )

    def _add(self, rows: np.ndarray) -> None:
        mean = rows.mean(0)
        self._combine(len(rows), mean, ((rows - mean) ** 2).sum(0), rows.min(0), rows.max(0))
        self._levels[0].append(rows)
        self._shrink()

    def _combine(self, n: int, mean: np.ndarray, m2: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Chan's parallel update of mean and squared deviations."""
        if not self._count:
            self._count, self._mean, self._m2, self._min, self._max = n, mean, m2, low, high
            return
        total = self._count + n
        delta = mean - self._mean
        self._m2 = self._m2 + m2 + delta**2 * self._count * n / total
        self._mean = self._mean + delta * n / total
        self._min, self._max = np.minimum(self._min, low), np.maximum(self._max, high)
        self._count = total

    def _shrink(self) -> None:
        level = 0
        while level < len(self._levels):
            if sum(map(len, self._levels[level])) > self._capacity:
                self._halve(level)
            level += 1

    def _halve(self, level: int) -> None:
        rows = np.sort(np.concatenate(self._levels[level]), axis=0)
        # An odd row stays behind, so that weights keep adding up to the count.
        keep = [rows[-1:]] if len(rows) % 2 else []
        pairs = rows[: len(rows) // 2 * 2]
        if level + 1 == len(self._levels):
            self._levels.append([])
        # Taking the lower and the upper of each pair in turn cancels most of the bias.
        self._levels[level + 1].append(pairs[self._halvings % 2 :: 2])
        self._levels[level] = keep
        self._rank_error += 1 << level
        self._halvings += 1


def _weighted_quantiles(rows: np.ndarray, weights: np.ndarray, shares: tuple[float, ...]) -> list[np.ndarray]:
    """Quantiles of every column, interpolated between ranks (numpy's default when every weight is 1)."""
    order = np.argsort(rows, axis=0, kind="stable")
    values = np.take_along_axis(rows, order, axis=0)
    last = np.cumsum(weights[order], axis=0) - 1  # rank of the last copy of each value
    columns = range(rows.shape[1])
    return [np.array([_at_rank(values[:, d], last[:, d], share * last[-1, d]) for d in columns]) for share in shares]


def _at_rank(values: np.ndarray, last: np.ndarray, rank: float) -> float:
    below = int(np.floor(rank))
    here = np.searchsorted(last, below)
    there = np.searchsorted(last, min(below + 1, last[-1]))
    return float(values[here] + (rank - below) * (values[there] - values[here]))

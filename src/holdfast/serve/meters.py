"""What a server has done, as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from holdfast import __version__

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
ERRORS = ("message", "question", "policy")


class Histogram:
    """How often a value fell into which range."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        """In Prometheus' form: counts up to each bound."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum}"
        yield f"{name}_count {total}"


class Meters:
    """Counters of one server."""

    def __init__(self, bundle: str, tasks: Iterable[str], rows: int) -> None:
        self._bundle = bundle
        self.answers = Counter(dict.fromkeys(tasks, 0))
        self.errors = Counter(dict.fromkeys(ERRORS, 0))
        self.refused = 0
        self.connections = 0
        self.seconds = Histogram(_SECONDS)  # from a question read to its answer
        self.rows = Histogram(tuple(float(n) for n in range(1, rows + 1)))

    def text(self) -> str:
        """All of them, in Prometheus' text format."""
        lines = [
            *_header("holdfast_info", "gauge", "What is served."),
            f'holdfast_info{{bundle="{self._bundle}",version="{__version__}"}} 1',
            *_header("holdfast_connections", "gauge", "Open connections."),
            f"holdfast_connections {self.connections}",
            *_header("holdfast_refused_total", "counter", "Connections refused: no token, or too many."),
            f"holdfast_refused_total {self.refused}",
            *_header("holdfast_answers_total", "counter", "Questions answered, by task."),
            *(f'holdfast_answers_total{{task="{task}"}} {count}' for task, count in self.answers.items()),
            *_header("holdfast_errors_total", "counter", "Questions answered with an error, by what was wrong."),
            *(f'holdfast_errors_total{{kind="{kind}"}} {count}' for kind, count in self.errors.items()),
            *_header("holdfast_answer_seconds", "histogram", "From a question read to its answer."),
            *self.seconds.lines("holdfast_answer_seconds"),
            *_header("holdfast_batch_rows", "histogram", "Questions answered in one batch."),
            *self.rows.lines("holdfast_batch_rows"),
        ]
        return "\n".join(lines) + "\n"


def _header(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"

"""What a server has done, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

from holdfast import __version__

type ErrorKind = Literal["message", "question", "policy"]
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

disable_created_metrics()  # else every counter and histogram has a second series: the time when it began


class Meters:
    """Counters of one server, in a registry of their own: two servers of one process do not share them."""

    def __init__(self, bundle: str, tasks: Iterable[str], rows: int) -> None:
        self._registry = registry = CollectorRegistry()
        Info("holdfast", "What is served.", registry=registry).info({"bundle": bundle, "version": __version__})
        self.connections = Gauge("holdfast_connections", "Open connections.", registry=registry)
        self.refused = Counter(
            "holdfast_refused", "Connections refused: a web page, no token, or too many.", registry=registry
        )
        self._answers = Counter("holdfast_answers", "Questions answered, by task.", ["task"], registry=registry)
        self._errors = Counter(
            "holdfast_errors", "Questions answered with an error, by what was wrong.", ["kind"], registry=registry
        )
        self._seconds = Histogram(
            "holdfast_answer_seconds", "From a question read to its answer.", buckets=_SECONDS, registry=registry
        )
        self.rows = Histogram(
            "holdfast_batch_rows", "Questions answered in one batch.", buckets=range(1, rows + 1), registry=registry
        )
        for task in tasks:
            self._answers.labels(task)  # 0 from the beginning, not missing
        for kind in get_args(ErrorKind.__value__):
            self._errors.labels(kind)

    def answered(self, task: str, seconds: float) -> None:
        """Count an answer and how long it took."""
        self._answers.labels(task).inc()
        self._seconds.observe(seconds)

    def failed(self, kind: ErrorKind) -> None:
        """Count a question that was answered with an error."""
        self._errors.labels(kind).inc()

    def text(self) -> str:
        """All of them, in Prometheus' text format."""
        return generate_latest(self._registry).decode()

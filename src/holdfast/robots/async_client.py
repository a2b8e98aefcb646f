"""Asks in a thread, so that the control loop never waits for an answer.

The loop asks, goes on with what it has, and looks whether the answer is there. One that is not there by its deadline is
an error, and so is one that fails.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from holdfast.core.observation import Question
from holdfast.robots.client import About, Answerer, UnansweredError

PATIENCE = 60.0  # seconds to wait for a server to come back
_BACKOFF = (0.1, 2.0)  # seconds before the second attempt to connect, doubled up to the most
_FIRST = 10.0  # seconds for an attempt's first answer: the arms stand still, and a policy may have to warm up


class AsyncClient:
    """One question at a time, in a thread of its own."""

    def __init__(self, answerer: Answerer, deadline: float) -> None:
        """Begin the thread.

        Args:
            answerer: Who is asked.
            deadline: Seconds after which a question without an answer is an error.
        """
        self.deadline = deadline
        self._answerer = answerer
        self._thread = ThreadPoolExecutor(1, "asker")
        self._pending: tuple[int, Future[np.ndarray]] | None = None
        self._due = 0.0

    def connect(self, patience: float = PATIENCE) -> About:
        """Wait until the answerer is there, trying again and again; also after it was gone."""
        until, pause = time.monotonic() + patience, _BACKOFF[0]
        while True:
            try:
                return self._thread.submit(self._answerer.connect).result()
            except UnansweredError:
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _BACKOFF[1])

    def ask(self, step: int, question: Question) -> None:
        """Ask about what was seen at a control step."""
        seconds = self.deadline if step else max(self.deadline, _FIRST)
        self._due = time.monotonic() + seconds
        self._pending = step, self._thread.submit(self._answerer.answer, question, seconds)

    @property
    def asking(self) -> bool:
        """Whether an answer is still to come."""
        return self._pending is not None

    def overdue(self) -> float:
        """Seconds since the deadline of the last question; negative before it."""
        return time.monotonic() - self._due

    def answer(self) -> tuple[int, np.ndarray] | None:
        """The step of the question and its answer, once it is there; `UnansweredError` where none will come in time."""
        if self._pending is None:
            return None
        step, future = self._pending
        if future.done():
            self._pending = None
            return step, future.result()
        if self.overdue() > 0:
            self._pending = None
            raise UnansweredError(f"There was no answer within the deadline of {self.deadline:g} s.")
        return None

    def forget(self) -> None:
        """Drop the open question, where an attempt ended before its answer came."""
        self._pending = None

    def close(self) -> None:
        """Close the answerer and end the thread."""
        self._thread.submit(self._answerer.close)
        self._thread.shutdown()

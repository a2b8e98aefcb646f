"""Asks the policy in a thread of its own, so that the control loop never blocks.

The loop asks a question, carries on with the actions it has, and polls for the answer. An answer that misses its
deadline is an error, and so is one that fails.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np

from holdfast.core.clock import STEADY, Clock
from holdfast.core.observation import Question
from holdfast.robots.client import About, Answerer, UnansweredError

PATIENCE = 60.0  # seconds to wait for a server to come back
_BACKOFF = (0.1, 2.0)  # seconds between two tries to connect: the first pause, which doubles, and the longest
_FIRST = 10.0  # seconds for an attempt's first answer: the arms are not moving yet, and the policy may have to warm up


class AsyncClient:
    """One question at a time, answered in another thread."""

    def __init__(
        self, answerer: Answerer, deadline: float, clock: Clock = STEADY, thread: Executor | None = None
    ) -> None:
        """Start the thread.

        Args:
            answerer: The policy, here or on a server.
            deadline: Seconds after which a question without an answer is an error.
            clock: Time by which the deadline is kept.
            thread: Runs the answerer; a new thread by default.
        """
        self.deadline = deadline
        self._answerer, self._clock = answerer, clock
        self._thread = thread or ThreadPoolExecutor(1, "policy-client")
        self._pending: tuple[int, Future[np.ndarray]] | None = None
        self._due = 0.0

    def connect(self, patience: float = PATIENCE) -> About:
        """Connect, trying again for `patience` seconds; costs nothing where a connection is open."""
        until, pause = self._clock.now() + patience, _BACKOFF[0]
        while True:
            try:
                return self._thread.submit(self._answerer.connect).result()
            except UnansweredError:
                if self._clock.now() + pause > until:
                    raise
            self._clock.sleep(pause)
            pause = min(2 * pause, _BACKOFF[1])

    def ask(self, step: int, question: Question) -> None:
        """Ask about the observation of a control step."""
        seconds = self.deadline if step else max(self.deadline, _FIRST)
        self._due = self._clock.now() + seconds
        self._pending = step, self._thread.submit(self._answerer.answer, question, seconds)

    @property
    def asking(self) -> bool:
        """Whether a question is open."""
        return self._pending is not None

    def overdue(self) -> float:
        """Seconds since the deadline of the last question; negative before it."""
        return self._clock.now() - self._due

    def answer(self) -> tuple[int, np.ndarray] | None:
        """The step of the question and its answer; None while it is computed, `UnansweredError` past the deadline."""
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
        """Drop the open question: the attempt ended before its answer came."""
        self._pending = None

    def close(self) -> None:
        """Close the answerer and end the thread."""
        self._thread.submit(self._answerer.close)
        self._thread.shutdown()

"""Questions of several robots, answered together.

One thread computes. While it does, questions gather; when it is free, it takes as many as fit a batch, in the order in
which they came. A connection has one question at a time, so nobody can crowd out the others. Whom a question shares a
batch with changes nothing in its answer: that is the pilot's promise (`policies/pilot.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np

from holdfast.core.observation import Question

GATHER = 0.004  # seconds to wait for others who may ask; a robot that is alone never waits


class Policy(Protocol):
    """What can be served."""

    @property
    def rows(self) -> int:
        """Looks it answers at once."""

    @property
    def remembers(self) -> bool:
        """Whether it can serve one robot only."""

    @property
    def horizon(self) -> int:
        """Steps of an answer."""

    def answer(self, looks: Sequence[Question]) -> list[np.ndarray]:
        """Actions for each look."""


@dataclass(frozen=True)
class Answered:
    """Actions, with the seconds they waited to be computed and were computed."""

    actions: np.ndarray
    wait: float
    infer: float


@dataclass(frozen=True)
class _Waiting:
    look: Question
    since: float
    result: asyncio.Future[Answered]


class Batcher:
    """Collects questions and has them answered by the policy, a batch at a time."""

    def __init__(self, policy: Policy, askers: Callable[[], int], seen: Callable[[int], None]) -> None:
        """Prepare.

        Args:
            policy: Who answers.
            askers: How many there are who may ask now.
            seen: Told the size of every batch.
        """
        self._policy, self._askers, self._seen = policy, askers, seen
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, "policy")

    async def ask(self, look: Question) -> Answered:
        """Wait for an answer."""
        waiting = _Waiting(look, perf_counter(), asyncio.get_running_loop().create_future())
        self._queue.put_nowait(waiting)
        return await waiting.result

    async def run(self) -> None:
        """Answer until cancelled."""
        try:
            while True:
                await self._answer(await self._gather())
        finally:
            self._thread.shutdown()

    async def _gather(self) -> list[_Waiting]:
        """The next batch: all who wait, and who else asks within a moment, up to the policy's rows."""
        batch = [await self._queue.get()]
        until = asyncio.get_running_loop().time() + GATHER
        while len(batch) < self._policy.rows:
            if self._queue.empty() and len(batch) >= self._askers():
                break
            try:
                async with asyncio.timeout_at(until):
                    batch.append(await self._queue.get())
            except TimeoutError:
                break
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        self._seen(len(batch))
        begun = perf_counter()
        looks = [waiting.look for waiting in batch]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._policy.answer, looks)
            pairs = list(zip(batch, answers, strict=True))
        except Exception as error:
            for waiting in batch:
                if not waiting.result.done():
                    waiting.result.set_exception(error)
            return
        took = perf_counter() - begun
        for waiting, actions in pairs:
            if not waiting.result.done():  # its asker was cancelled
                waiting.result.set_result(Answered(actions, begun - waiting.since, took))

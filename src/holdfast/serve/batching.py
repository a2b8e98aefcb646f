"""Questions of several robots, answered in batches.

One thread computes. Meanwhile questions queue up; when it is free, it takes as many as fit a batch, first come, first
served. A connection has one question at a time, so no client can crowd out the others. An answer does not depend on the
rest of its batch; `policies/pilot.py` sees to that. Whoever asks may give up: the `result` of the question is then
cancelled, and it is not answered.
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

GATHER = 0.004  # seconds to wait for the questions of other clients; a client that is alone never waits


class ServablePolicy(Protocol):
    """What the server needs of a policy."""

    @property
    def rows(self) -> int:
        """Questions it answers at once."""

    @property
    def remembers(self) -> bool:
        """Whether it keeps state from question to question, so that it can serve only one robot."""

    @property
    def answer_steps(self) -> int:
        """Actions of an answer."""

    def answer(self, questions: Sequence[Question]) -> list[np.ndarray]:
        """Actions (steps, dimensions) for each question."""


@dataclass(frozen=True)
class Answered:
    """Actions, with the seconds until their batch began and the seconds it took."""

    actions: np.ndarray
    wait: float
    infer: float


@dataclass(frozen=True)
class _Waiting:
    question: Question
    since: float
    result: asyncio.Future[Answered]


class Batcher:
    """Collects questions and answers them a batch at a time."""

    def __init__(self, policy: ServablePolicy, clients: Callable[[], int], seen: Callable[[int], None]) -> None:
        """Prepare; `run` answers.

        Args:
            policy: Computes the answers.
            clients: Number of clients connected now.
            seen: Called with the size of every batch.
        """
        self._policy, self._clients, self._seen = policy, clients, seen
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, "policy")

    async def ask(self, question: Question) -> Answered:
        """Wait for the answer to a question."""
        waiting = _Waiting(question, perf_counter(), asyncio.get_running_loop().create_future())
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
        """The next batch: all questions that wait, and those that come within `GATHER`, up to the policy's rows."""
        batch = [await self._next()]
        until = asyncio.get_running_loop().time() + GATHER
        while len(batch) < self._policy.rows:
            if self._queue.empty() and len(batch) >= self._clients():
                break
            try:
                async with asyncio.timeout_at(until):
                    batch.append(await self._next())
            except TimeoutError:
                break
        return batch

    async def _next(self) -> _Waiting:
        """The next question whose client has not gone."""
        while (waiting := await self._queue.get()).result.done():
            pass
        return waiting

    async def _answer(self, batch: list[_Waiting]) -> None:
        self._seen(len(batch))
        begun = perf_counter()
        questions = [waiting.question for waiting in batch]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._policy.answer, questions)
            pairs = list(zip(batch, answers, strict=True))
        except Exception as error:
            for waiting in batch:
                if not waiting.result.done():
                    waiting.result.set_exception(error)
            return
        took = perf_counter() - begun
        for waiting, actions in pairs:
            if not waiting.result.done():
                waiting.result.set_result(Answered(actions, begun - waiting.since, took))

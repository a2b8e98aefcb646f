"""Trials in the twin: environments that look and act, and one policy that answers all of them at once.

Every trial is a function of its order, the policy's weights and the kind of device. Layout and noise come from the
seed, and a batch has the same number of rows however many environments there are (`policies/pilot.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.catalog import task as catalog_task
from holdfast.core.errors import HoldfastError
from holdfast.core.film import Film
from holdfast.core.observation import Observation
from holdfast.core.processes import end_with_parent
from holdfast.core.records import Trial
from holdfast.twin.board import board
from holdfast.twin.cell import CONTROL_HZ
from holdfast.twin.chunks import Chunks
from holdfast.twin.env import CellEnv

if TYPE_CHECKING:
    import numpy as np

    from holdfast.policies.pilot import Pilot

_FILMED = ("head", "front")
_FILM_SIZE = (240, 320)
_FILM_STEP = 3  # control steps between two pictures
_FILM_QUALITY = 28


@dataclass(frozen=True)
class TrialOrder:
    """One trial to run. `video` is a path relative to the run's folder, or empty."""

    run: Path
    checkpoint: Path
    stage: int
    task: str
    seed: int
    level: str
    policy: str
    normalization: str
    notes: str
    video: str = ""


@dataclass(frozen=True)
class Eyes:
    """What a policy wants to see."""

    size: tuple[int, int]
    cameras: tuple[str, ...]


class Lane(Protocol):
    """A place where one trial after the other is run. What was asked for is fetched with `result`."""

    def begin(self, order: TrialOrder, eyes: Eyes) -> None:
        """Start a trial."""

    def go(self, actions: np.ndarray) -> None:
        """Carry out actions."""

    def result(self) -> Observation | Trial:
        """What there is to see now, or the trial when it is over."""


class LocalLane:
    """A lane in this process. It keeps the compiled cell of its last task."""

    def __init__(self) -> None:
        self._env: CellEnv | None = None
        self._film: Film | None = None

    def begin(self, order: TrialOrder, eyes: Eyes) -> None:
        """Reset the cell to the layout of the order."""
        if self._env is None or self._env.task.name != order.task:
            if self._env is not None:
                self._env.close()
            self._env = CellEnv(order.task)
        self._order, self._eyes = order, eyes
        self._env.reset(order.seed, order.level)
        self._chunks = Chunks(self._env)
        if order.video:
            path = order.run / order.video
            path.parent.mkdir(parents=True, exist_ok=True)
            self._film = Film(path, CONTROL_HZ // _FILM_STEP, _FILM_QUALITY)
            self._shoot()

    def go(self, actions: np.ndarray) -> None:
        """Step until the policy has to look again or the trial is over."""
        assert self._env is not None
        self._chunks.put(actions)
        while not self._chunks.empty and not self._over:
            self._env.step(self._chunks.take())
            if self._film and (self._env.steps % _FILM_STEP == 0 or self._over):
                self._shoot()

    def result(self) -> Observation | Trial:
        """An observation as the policy wants it, or the finished trial."""
        assert self._env is not None
        if not self._over:
            return self._env.observe(self._eyes.size, self._eyes.cameras)
        if self._film:
            self._film.close()
            self._film = None
        order = self._order
        return replace(
            self._env.trial(order.stage),
            run=order.run.name,
            policy=order.policy,
            normalization=order.normalization,
            notes=order.notes,
            video=order.video,
        )

    @property
    def _over(self) -> bool:
        assert self._env is not None
        return self._env.over or self._env.done

    def _shoot(self) -> None:
        assert self._env is not None
        assert self._film is not None
        images = self._env.observe(_FILM_SIZE, _FILMED).images
        self._film.add(board(self._env.task.record, images, self._env.trial(), self._env.seconds))


class RemoteLane:
    """A lane in a process of its own, so that many step at the same time."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far,), daemon=True)
        self._process.start()
        far.close()

    def begin(self, order: TrialOrder, eyes: Eyes) -> None:
        """Tell the other process to start a trial."""
        self._pipe.send(("begin", (order, eyes)))

    def go(self, actions: np.ndarray) -> None:
        """Tell the other process to carry out actions."""
        self._pipe.send(("go", (actions,)))

    def result(self) -> Observation | Trial:
        """Wait for the other process."""
        try:
            found = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise HoldfastError(DIED) from None
        if isinstance(found, Exception):
            raise found
        return found

    @staticmethod
    def ready(lanes: Iterable[RemoteLane]) -> list[RemoteLane]:
        """Those whose result is there; waits for the first."""
        by_pipe = {lane._pipe: lane for lane in lanes}
        there = wait(list(by_pipe))
        return [lane for pipe, lane in by_pipe.items() if pipe in there]

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join()


DIED = "A worker process died, perhaps for lack of memory. Run the same command again to go on, with fewer --processes."


def _serve(pipe: Connection) -> None:
    end_with_parent()
    lane = LocalLane()
    while True:
        try:
            command, arguments = pipe.recv()
        except EOFError:
            return
        try:
            getattr(lane, command)(*arguments)
            pipe.send(lane.result())
        except Exception as error:
            pipe.send(error)


def play[L: Lane](
    pilot: Pilot, lanes: Iterable[L], orders: Iterator[TrialOrder], ready: Callable[[Iterable[L]], list[L]] = list
) -> Iterator[Trial]:
    """Run orders of one checkpoint on all lanes, and give every trial as it ends.

    A lane whose trial is over takes the next order at once, which is drawn only then.

    Args:
        pilot: The policy of the checkpoint.
        lanes: Where trials are run.
        orders: What to run.
        ready: Of busy lanes, those to answer now, together; lanes in this process are all ready.
    """
    from holdfast.core.observation import Question

    eyes = Eyes(pilot.size, tuple(pilot.cameras))
    free = list(lanes)
    busy: dict[L, tuple[TrialOrder, int]] = {}  # and how often it has looked
    while True:
        while free and (order := next(orders, None)) is not None:
            lane = free.pop(0)
            lane.begin(order, eyes)
            busy[lane] = order, 0
        if not busy:
            return
        looks: dict[L, Question] = {}
        for lane in ready(busy):
            (order, number), found = busy[lane], lane.result()
            if isinstance(found, Trial):
                del busy[lane]
                free.append(lane)
                yield found
            else:
                looks[lane] = Question(catalog_task(order.task), found.state, found.images, order.seed, number)
                busy[lane] = order, number + 1
        for lane, actions in zip(looks, pilot.answer(list(looks.values())), strict=True):
            lane.go(actions)

"""Trials in an arena: several environments, and policies that answer all of their own in one batch.

Every trial is a function of its order, the policy's weights and the kind of device. Layout and noise come from the
seed, and a batch has the same number of rows however many environments there are (`policies/pilot.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast import arenas
from holdfast.arenas.arena import ArenaError
from holdfast.arenas.board import board
from holdfast.arenas.learned import chunk_queue
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.core.film import Film
from holdfast.core.observation import Observation, Question
from holdfast.core.records import Task, Trial, TrialProtocol
from holdfast.embodiments.embodiment import Embodiment

if TYPE_CHECKING:
    import numpy as np

    from holdfast.policies.pilot import Answers, Pilot

_FILM_RATE = 10  # pictures per second, rounded so that a whole number of control steps lies between two
_FILM_QUALITY = 28


@dataclass(frozen=True)
class TrialOrder:
    """One trial to run. `task` is the run's, with its rubric; `video` is relative to the run's folder, or empty.

    `robot` is what the run was trained for, if it says so: it holds the arms that the task does not use.
    """

    run: Path
    checkpoint: Path
    stage: int
    task: Task
    seed: int
    level: str
    weights: str
    normalization: str
    protocol: TrialProtocol
    video: str = ""
    robot: Embodiment | None = None


@dataclass(frozen=True)
class PolicyNeeds:
    """The images that a policy reads, and how many actions of its answers are executed."""

    size: tuple[int, int]
    cameras: tuple[str, ...]
    horizon: int


class Lane(Protocol):
    """Runs one trial after the other. `result` returns the outcome of the last `begin` or `go`."""

    def begin(self, order: TrialOrder, needs: PolicyNeeds) -> None:
        """Start a trial."""

    def go(self, actions: np.ndarray) -> None:
        """Execute actions."""

    def result(self) -> Observation | Trial:
        """The current observation, or the trial if it is over."""


class LocalLane:
    """A lane in this process. It keeps its last task open. A trial in which the arena fails is not valid."""

    def __init__(self, arena: str) -> None:
        self._arena = arenas.load(arena)
        self._episode: ScoredEpisode | None = None
        self._film: Film | None = None
        self._failed: Trial | None = None

    def begin(self, order: TrialOrder, needs: PolicyNeeds) -> None:
        """Reset the task to the layout of the order."""
        self._order, self._needs, self._failed = order, needs, None
        with self._attempting():
            self._begin(order, needs)

    def _begin(self, order: TrialOrder, needs: PolicyNeeds) -> None:
        episode = self._open(order)
        episode.begin(order.seed, order.level)
        self._queue = chunk_queue(episode, needs.horizon, order.robot)
        if order.video:
            path = order.run / order.video
            path.parent.mkdir(parents=True, exist_ok=True)
            self._film_step = max(1, self._arena.rate // _FILM_RATE)
            self._film = Film(path, self._arena.rate // self._film_step, _FILM_QUALITY)
            self._add_picture()

    def go(self, actions: np.ndarray) -> None:
        """Step until the policy needs a new observation or the trial is over."""
        with self._attempting():
            self._go(actions)

    def _go(self, actions: np.ndarray) -> None:
        assert self._episode is not None
        self._queue.put(self._queue.step, actions)
        while not (self._queue.due or self._over):
            action = self._queue.take()
            assert action is not None
            self._episode.step(action)
            if self._film and (self._episode.steps % self._film_step == 0 or self._over):
                self._add_picture()

    def result(self) -> Observation | Trial:
        """An observation in the policy's format, or the finished trial."""
        with self._attempting():
            if not (self._failed or self._over):
                assert self._episode is not None
                return self._episode.observe(self._needs.size, self._needs.cameras)
        return self._failed or self._trial()

    def _trial(self) -> Trial:
        assert self._episode is not None
        if self._film:
            self._film.close()
            self._film = None
        order = self._order
        return replace(
            self._episode.trial(order.stage),
            run=order.run.name,
            weights=order.weights,
            normalization=order.normalization,
            protocol=order.protocol,
            video=order.video,
        )

    @contextmanager
    def _attempting(self) -> Iterator[None]:
        """If the arena fails, the trial is not valid, and the task is opened again for the next one."""
        try:
            yield
        except ArenaError as error:
            if self._film:
                self._film.discard()
                self._film = None
            self._failed = self._invalid(str(error))
            if self._episode:
                self._episode.close()
                self._episode = None

    def _invalid(self, why: str) -> Trial:
        order = self._order
        return Trial(
            order.task.name,
            order.stage,
            milestones=(),
            final=False,
            source=self._arena.name,
            seed=order.seed,
            level=order.level,
            seconds=self._episode.seconds if self._episode else 0.0,
            valid=False,
            notes=why,
            run=order.run.name,
            weights=order.weights,
            normalization=order.normalization,
            protocol=order.protocol,
        )

    def _open(self, order: TrialOrder) -> ScoredEpisode:
        if self._episode is None or self._episode.task != order.task:
            if self._episode is not None:
                self._episode.close()
            self._episode = ScoredEpisode(self._arena, order.task)
        return self._episode

    @property
    def _over(self) -> bool:
        assert self._episode is not None
        return self._episode.over or self._episode.done

    def _add_picture(self) -> None:
        assert self._episode is not None
        assert self._film is not None
        episode = self._episode
        self._film.add(board(episode.task, {"": episode.film()}, episode.reached, episode.seconds))


def play[L: Lane](
    load: Callable[[Path], Pilot],
    lanes: Iterable[L],
    orders: Iterator[TrialOrder],
    ready: Callable[[list[L], bool], list[L]] = lambda lanes, wait: lanes,
    count: Callable[[int], None] = lambda steps: None,
) -> Iterator[tuple[TrialOrder, Trial]]:
    """Run orders on all lanes, and yield every trial as it ends.

    A lane whose trial is over takes the next order at once, be it of another checkpoint. Orders are drawn only then.
    While a GPU computes answers, the questions of other lanes are made ready.

    Args:
        load: Loads the policy of a checkpoint, which is kept while a lane needs it.
        lanes: Where trials are run.
        orders: What to run.
        ready: Chooses the lanes whose results are there, and if told so waits for one; in this process all are.
        count: Called with the number of control steps of every answer.
    """
    pilots: dict[Path, Pilot] = {}
    free = list(lanes)
    busy: dict[L, tuple[TrialOrder, int]] = {}  # and how many questions it has asked
    begun: list[tuple[list[L], Answers]] = []  # lanes whose questions are being answered
    while True:
        while free and (order := next(orders, None)) is not None:
            if order.checkpoint not in pilots:
                pilots[order.checkpoint] = load(order.checkpoint)
            lane = free.pop(0)
            lane.begin(order, _needs(pilots[order.checkpoint]))
            busy[lane] = order, 0
        if not busy:
            return
        pilots = {order.checkpoint: pilots[order.checkpoint] for order, _ in busy.values()}
        asking = {lane for lanes, _ in begun for lane in lanes}
        questions: dict[Path, dict[L, Question]] = {}
        for lane in ready([lane for lane in busy if lane not in asking], not begun):
            (order, number), found = busy[lane], lane.result()
            if isinstance(found, Trial):
                del busy[lane]
                free.append(lane)
                yield order, found
            else:
                asked = Question(order.task, found.state, found.images, order.seed, number)
                questions.setdefault(order.checkpoint, {})[lane] = asked
                busy[lane] = order, number + 1
        earlier, begun = begun, [(list(of), pilots[path].begin(list(of.values()))) for path, of in questions.items()]
        for answered, answers in earlier:
            for lane, actions in zip(answered, answers(), strict=True):
                lane.go(actions)
                count(len(actions))


def _needs(pilot: Pilot) -> PolicyNeeds:
    return PolicyNeeds(pilot.size, tuple(pilot.cameras), pilot.answer_steps)

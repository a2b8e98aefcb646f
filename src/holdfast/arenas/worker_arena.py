"""A simulator in a process of its own, behind the protocol of arenas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from holdfast.arenas.arena import ActingPolicy, Arena, ArenaError, Environment
from holdfast.arenas.arena_file import ArenaFile, read_arena_file
from holdfast.arenas.worker_messages import (
    SimulatorDescription,
    read_action,
    read_description,
    read_images,
    read_moment,
    read_picture,
)
from holdfast.arenas.worker_process import SMALL, WorkerProcess
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.core.records import Milestone, Reached, Task

_PICTURE = 3 * 2**24 + SMALL  # bytes of the largest picture, as for cameras


class WorkerArena(Arena):
    """The simulator of an arena's file. Every open task has a process; closed ones are used again."""

    def __init__(self, file: Path) -> None:
        """Start the simulator and ask what it is."""
        self._file = read_arena_file(file)
        self._idle = [WorkerProcess(self._file)]
        self.description = _describe(self._idle[0], self._file)
        found = self.description
        self.name, self.rate = self._file.name, self._file.rate or found.rate
        self.cameras, self.state, self.action = found.cameras, found.state, found.action
        self.kinds = found.kinds
        self.levels, self.default_level = found.levels, found.levels[0]
        self.policies = ("expert",) if found.expert else ()
        self._tasks = {
            name: Task(
                name,
                task.instruction,
                ("arm",),
                milestones=tuple(Milestone(name, text) for name, text in task.milestones.items()),
            )
            for name, task in found.tasks.items()
        }

    @property
    def tasks(self) -> Mapping[str, Task]:
        """As the worker describes them."""
        return self._tasks

    def max_steps(self, task: str) -> int:
        """As the worker says."""
        return self.description.tasks[task].max_steps

    def open(self, task: str) -> Environment:
        """A task; the process is taken when it begins."""
        return WorkerEnvironment(self, task)

    def policy(self, name: str, environment: Environment, seed: int | None) -> ActingPolicy:
        """The simulator's own expert."""
        self.check_policy(name)
        return WorkerExpert(cast("WorkerEnvironment", environment), seed)

    def take_process(self) -> WorkerProcess:
        """A process that is ready; a new one must say the same of itself as the first."""
        while self._idle:
            if (idle := self._idle.pop()).running:
                return idle
        fresh = WorkerProcess(self._file)
        if _describe(fresh, self._file) != self.description:
            fresh.close()
            raise ArenaError(f"The worker of the arena {self.name!r} describes itself differently after a new start.")
        return fresh

    def give_back(self, process: WorkerProcess) -> None:
        """Keep a process for the next task that is opened."""
        if process.running:
            self._idle.append(process)


class WorkerEnvironment:
    """One open task. A process that fails is replaced when the next episode begins."""

    def __init__(self, arena: WorkerArena, task: str) -> None:
        self._arena, self._task = arena, task
        self._process: WorkerProcess | None = None

    def reset(self, seed: int, level: str) -> None:
        """Begin an episode."""
        if self._process is None or not self._process.running:
            self._process = self._arena.take_process()
        self._moment = self.ask("begin", self._read_moment, task=self._task, seed=seed, level=level)

    def observe(self, size: tuple[int, int] | None = None, cameras: Sequence[str] = ()) -> Observation:
        """The state of the last step, and images that are drawn now."""
        state = self._moment.state.copy()
        if size is None or not cameras:
            return Observation(state)
        height, width = size
        read, limit = partial(read_images, cameras=cameras, size=size), 3 * height * width * len(cameras) + SMALL
        images = self.ask("look", read, limit, cameras=list(cameras), height=height, width=width)
        return Observation(state, images)

    def step(self, action: np.ndarray) -> None:
        """One control step."""
        self._moment = self.ask("step", self._read_moment, action=np.asarray(action, np.float64))

    @property
    def over(self) -> bool:
        """Whether the simulator says so."""
        return self._moment.over

    def reached(self) -> Reached:
        """What the simulator reported after the last step."""
        return self._moment.reached

    def picture(self) -> np.ndarray:
        """A picture for people."""
        return self.ask("picture", read_picture, _PICTURE)

    def read_action(self, answer: Any) -> np.ndarray | None:
        """An action of the expert."""
        return read_action(answer, self._arena.action)

    def ask[T](self, question: str, read: Callable[[Any], T], limit: int = SMALL, **arguments: Any) -> T:
        """Ask the process of this environment."""
        if self._process is None:
            raise HoldfastError(f"Task {self._task!r} of the arena {self._arena.name!r} has not begun.")
        return self._process.ask(question, read, limit, **arguments)

    def close(self) -> None:
        """Give the process back."""
        if self._process is not None:
            self._arena.give_back(self._process)
            self._process = None

    def _read_moment(self, answer: Any) -> Any:
        return read_moment(answer, self._arena.description, self._task)


class WorkerExpert:
    """The simulator's expert in an episode that has just begun."""

    def __init__(self, environment: WorkerEnvironment, seed: int | None) -> None:
        self._environment = environment
        environment.ask("expert", lambda answer: None, seed=seed)

    def act(self) -> np.ndarray | None:
        """The next action; None when it has finished."""
        return self._environment.ask("act", self._environment.read_action)


def _describe(process: WorkerProcess, file: ArenaFile) -> SimulatorDescription:
    return process.ask("hello", read_description, options=file.options)

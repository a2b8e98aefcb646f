"""The interface of an arena: a simulator with tasks that can be opened, reset by a seed, stepped and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Protocol

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import check_name
from holdfast.core.observation import Observation
from holdfast.core.records import Reached, Task
from holdfast.embodiments.embodiment import KINDS, Embodiment, Kind


class ArenaError(HoldfastError):
    """A simulator failed in an episode, which is then no trial. A new episode may go well."""


class Environment(Protocol):
    """One opened task of an arena. It can be reset and stepped any number of times.

    An episode must depend only on its seed, its level and the actions, to the last bit: not on earlier episodes, not
    on the process, not on how often it was observed.
    """

    def reset(self, seed: int, level: str) -> None:
        """Begin an episode: the seed and the level determine the layout. Nothing is reached yet."""

    def observe(self, size: tuple[int, int] | None = None, cameras: Sequence[str] = ()) -> Observation:
        """The measured state and, where a size (height, width) is given, the images of these cameras at that size."""

    def step(self, action: np.ndarray) -> None:
        """One control step; `ScoredEpisode` has checked that the action has the arena's dimensions and is finite."""

    @property
    def over(self) -> bool:
        """Whether the episode has to end, at the latest after the task's `max_steps`. Full score need not end it."""

    def reached(self) -> Reached:
        """What the episode has reached so far, in the words of the task's rubric."""

    def picture(self) -> np.ndarray:
        """A picture for people: uint8 (height, width, 3), height and width even."""

    def close(self) -> None:
        """Free renderers and memory."""


class ActingPolicy(Protocol):
    """A policy that gives one action per control step: scripted or learned."""

    def act(self) -> np.ndarray | None:
        """The next action; None when it has finished."""


class Viewer(Protocol):
    """A window that shows an environment while it is stepped."""

    def is_running(self) -> bool:
        """Whether the window is still open."""

    def sync(self) -> None:
        """Show the environment as it is now."""


class Arena(ABC):
    """A simulator and its tasks. Import the simulator in `open`, not before: `--help` needs an arena's names too.

    `state` and `action` name the dimensions of observations and actions, which may differ. With an `embodiment` both
    are its names; the arms that a task does not use are then held still. `kinds` say what actions mean, by name, as far
    as it is known: policies of another kind are refused. `levels` say how far layouts may vary; an arena without levels
    keeps the single level "".

    Optional: `policies` names scripted policies, which `policy` returns. If "expert" is one of them, `holdfast record`
    can record its demonstrations. An arena that overrides `view` has a
    window; one that overrides `show` and `film` draws nicer images for people.
    """

    name: str  # stored as the source of every trial
    rate: int  # control steps per second
    cameras: tuple[str, ...]
    state: tuple[str, ...]
    action: tuple[str, ...]
    embodiment: Embodiment | None = None
    kinds: Mapping[str, Kind] = MappingProxyType({})
    levels: tuple[str, ...] = ("",)
    default_level: str = ""
    policies: tuple[str, ...] = ()

    @property
    @abstractmethod
    def tasks(self) -> Mapping[str, Task]:
        """Its tasks by name. One without milestones is scored by plain success: `Reached.final` gives 100, else 0."""

    @abstractmethod
    def max_steps(self, task: str) -> int:
        """Control steps after which an episode of a task is over."""

    @abstractmethod
    def open(self, task: str) -> Environment:
        """Open a task."""

    def policy(self, name: str, environment: Environment, seed: int | None) -> ActingPolicy:
        """The scripted policy `name` in one of this arena's environments, which was just reset.

        With a seed its motions vary, as demonstrations should; without one they are always the same. An arena that
        names no policies refuses every name.
        """
        raise unknown(f"scripted policy of the arena {self.name!r}", name, ())

    def draw_frame(self, environment: Environment, size: tuple[int, int]) -> list[dict[str, np.ndarray]]:
        """Draw what all cameras see now, for a recording. Returns the frames that are ready, in the order of drawing.

        By default that is the frame itself. An arena may return it after a later call, or leave it to `last_frames`:
        reading back several frames at once waits for the GPU only once.
        """
        return [environment.observe(size, self.cameras).images]

    def last_frames(self, environment: Environment, size: tuple[int, int]) -> list[dict[str, np.ndarray]]:
        """The frames of this episode and size that `draw_frame` has not returned; a reset drops them."""
        return []

    def show(self, environment: Environment, size: tuple[int, int]) -> dict[str, np.ndarray]:
        """What all cameras see, for people; an arena may draw nicer images than those that policies observe."""
        return environment.observe(size, self.cameras).images

    def film(self, environment: Environment) -> np.ndarray:
        """A picture of a video whose drawing may take its time; by default the environment's, which must be quick."""
        return environment.picture()

    def view(self, environment: Environment) -> AbstractContextManager[Viewer]:
        """Open a window on one of this arena's environments; an arena without one refuses."""
        raise HoldfastError(f"The arena {self.name!r} has no window. Give --out VIDEO.mp4.")

    @property
    def has_viewer(self) -> bool:
        """Whether `view` opens a window."""
        return type(self).view is not Arena.view

    def check(self) -> None:
        """Refuse an arena whose names, kinds or rate are not of the right kind."""
        check_name(getattr(self, "name", None), f"The arena {type(self).__name__}")
        for word in ("cameras", "state", "action", "levels", "policies"):
            names = getattr(self, word, None)
            if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
                raise HoldfastError(
                    f"{word} of the arena {type(self).__name__} must be a tuple of names, got {names!r}."
                )
        if not isinstance(self.kinds, Mapping):
            raise HoldfastError(f"kinds of the arena {type(self).__name__} must be kinds by name, got {self.kinds!r}.")
        for name, kind in self.kinds.items():
            if name not in self.action:
                raise unknown(f"action with a kind of the arena {self.name!r}", name, self.action)
            if kind not in KINDS:
                raise unknown(f"kind of the action {name!r}", kind, KINDS)
        if self.policies and type(self).policy is Arena.policy:
            raise HoldfastError(f"Arena {type(self).__name__} names policies {self.policies} but has no policy().")
        rate = getattr(self, "rate", None)
        if not isinstance(rate, int) or rate < 1:
            raise HoldfastError(
                f"rate of the arena {type(self).__name__} must be a whole number above 0, got {rate!r}."
            )

    def task(self, name: str) -> Task:
        """One of its tasks; an unknown name is an error that lists the valid ones."""
        if name not in self.tasks:
            raise unknown(f"task of the arena {self.name!r}", name, self.tasks)
        return self.tasks[name]

    def level(self, asked: str | None) -> str:
        """The level asked for, or the default."""
        if asked is None:
            return self.default_level
        if asked not in self.levels:
            raise unknown(f"level of the arena {self.name!r}", asked, self.levels)
        return asked

    def check_policy(self, name: str) -> None:
        """Raise an error if it does not have this scripted policy."""
        if name not in self.policies:
            raise unknown(f"scripted policy of the arena {self.name!r}", name, self.policies)

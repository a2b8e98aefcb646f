"""Scripted policies: the expert, and the baselines that must not succeed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import numpy as np

from holdfast.embodiments import EMBODIMENTS
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import Expert

_GRIPPERS = [i for i, d in enumerate(EMBODIMENTS["piper_x_pair"].dimensions) if d.kind == "gripper"]


class ScriptedPolicy(Protocol):
    """Returns the action of each control step, and None at its end."""

    def act(self) -> np.ndarray | None:
        """The next 14 targets."""


class Replay:
    """Plays actions back open-loop."""

    def __init__(self, actions: Sequence[np.ndarray]) -> None:
        self._actions = iter(actions)

    def act(self) -> np.ndarray | None:
        """The next recorded action."""
        return next(self._actions, None)


class OpenGripper:
    """Wraps a policy so that the fingers stay open."""

    def __init__(self, policy: ScriptedPolicy, opening: np.ndarray) -> None:
        self._policy, self._opening = policy, opening

    def act(self) -> np.ndarray | None:
        """The other policy's targets with the grippers open."""
        action = self._policy.act()
        if action is not None:
            action[_GRIPPERS] = self._opening
        return action


def expert(env: CellEnv, seed: int | None) -> ScriptedPolicy:
    """The task's own scripts."""
    return Expert(env.world, env.task.scripts, seed)


def noop(env: CellEnv, seed: int | None) -> ScriptedPolicy:
    """Both arms hold still until the time is up."""
    return Replay([env.world.home] * env.task.max_steps)


def blind(env: CellEnv, seed: int | None) -> ScriptedPolicy:
    """The demonstration of the nominal layout, ignoring where the objects are."""
    return Replay(_nominal(env.task.name))


def open_gripper(env: CellEnv, seed: int | None) -> ScriptedPolicy:
    """The expert with fingers that never close."""
    return OpenGripper(expert(env, seed), env.world.home[_GRIPPERS])


# Each takes a freshly reset environment, and the seed that varies a demonstration or None.
POLICIES: dict[str, Callable[[CellEnv, int | None], ScriptedPolicy]] = {
    "expert": expert,
    "noop": noop,
    "blind": blind,
    "open-gripper": open_gripper,
}


def run(env: CellEnv, policy: ScriptedPolicy) -> list[np.ndarray]:
    """Run a policy until it is done or the time is up; return its actions."""
    actions: list[np.ndarray] = []
    while not env.over and (action := policy.act()) is not None:
        env.step(action)
        actions.append(action)
    return actions


@cache
def _nominal(task: str) -> tuple[np.ndarray, ...]:
    env = CellEnv(task)  # starts in the nominal layout
    return tuple(run(env, expert(env, None)))

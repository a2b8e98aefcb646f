"""Scripted policies and their scores: the expert, and the baselines that must not succeed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Protocol

import numpy as np

from holdfast import rubric
from holdfast.catalog import task as catalog_task
from holdfast.core.errors import unknown
from holdfast.core.records import Trial
from holdfast.embodiments import EMBODIMENTS
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import Expert

_GRIPPERS = [i for i, d in enumerate(EMBODIMENTS["piper_x_pair"].dimensions) if d.kind == "gripper"]


class ScriptedPolicy(Protocol):
    """Gives the action of each control step, and None when it is done."""

    def act(self) -> np.ndarray | None:
        """The next 14 targets."""


class Replay:
    """Plays actions back without looking."""

    def __init__(self, actions: Sequence[np.ndarray]) -> None:
        self._actions = iter(actions)

    def act(self) -> np.ndarray | None:
        """The next recorded action."""
        return next(self._actions, None)


class OpenGripper:
    """Another policy whose fingers stay open."""

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
    """The demonstration of the nominal layout, wherever the objects are."""
    return Replay(_nominal(env.task.name))


def open_gripper(env: CellEnv, seed: int | None) -> ScriptedPolicy:
    """The expert with fingers that never close."""
    return OpenGripper(expert(env, seed), env.world.home[_GRIPPERS])


# Each takes an environment just reset, and the seed that varies a demonstration or None.
POLICIES: dict[str, Callable[[CellEnv, int | None], ScriptedPolicy]] = {
    "expert": expert,
    "noop": noop,
    "blind": blind,
    "open-gripper": open_gripper,
}


@dataclass(frozen=True)
class Tally:
    """Scores of a scripted policy, one trial for each seed."""

    trials: tuple[Trial, ...]
    scores: tuple[float, ...]
    milestones: dict[str, int]
    penalties: dict[str, int]

    @property
    def full(self) -> int:
        """How many trials have full score."""
        return sum(score == 100 for score in self.scores)


def run(env: CellEnv, policy: ScriptedPolicy) -> list[np.ndarray]:
    """Let a policy act until it is done or the time is up; returns what it did."""
    actions: list[np.ndarray] = []
    while not env.over and (action := policy.act()) is not None:
        env.step(action)
        actions.append(action)
    return actions


def score(task: str, policy: str, level: str, seeds: Sequence[int], processes: int = 1, jitter: bool = False) -> Tally:
    """Score a scripted policy on one trial for each seed; the number of processes changes nothing but the time.

    Args:
        task: Name of a task of the twin.
        policy: One of `POLICIES`.
        level: One of the levels of randomization.
        seeds: One for each trial.
        processes: How many run side by side.
        jitter: Vary the expert's motions as demonstrations are varied.
    """
    if policy not in POLICIES:
        raise unknown("scripted policy", policy, POLICIES)
    shares = [list(seeds[k::processes]) for k in range(min(processes, len(seeds)))]
    if len(shares) > 1:
        with ProcessPoolExecutor(len(shares), get_context("spawn")) as pool:
            jobs = [pool.submit(_trials, task, policy, level, share, jitter) for share in shares]
            found = {seed: trial for job in jobs for seed, trial in job.result().items()}
    else:
        found = _trials(task, policy, level, list(seeds), jitter)
    return _tally(task, [found[seed] for seed in seeds])


def _trials(task: str, policy: str, level: str, seeds: list[int], jitter: bool) -> dict[int, Trial]:
    env = CellEnv(task)
    trials = {}
    for seed in seeds:
        env.reset(seed, level)
        run(env, POLICIES[policy](env, seed if jitter else None))
        trials[seed] = env.trial()
    return trials


def _tally(task: str, trials: list[Trial]) -> Tally:
    record = catalog_task(task)
    counted = [rubric.awarded(record, trial.milestones, trial.final) for trial in trials]
    return Tally(
        trials=tuple(trials),
        scores=tuple(rubric.score_trial(record, trial) for trial in trials),
        milestones={m.name: sum(m.name in names for names in counted) for m in record.milestones},
        penalties={p.name: sum(min(t.penalties.get(p.name, 0), p.most) for t in trials) for p in record.penalties},
    )


@cache
def _nominal(task: str) -> tuple[np.ndarray, ...]:
    env = CellEnv(task)  # starts in the nominal layout
    return tuple(run(env, expert(env, None)))

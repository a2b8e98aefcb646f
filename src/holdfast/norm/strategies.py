"""The four normalization strategies: which statistics a task is trained with and which it is tested with.

An action is mapped to [-1, 1] by its 1st and 99th percentile and never clipped. Strategies differ in
whose percentiles they use. A `Space` is one such mapping; a `Normalization` holds all spaces of a run and is stored in
every checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json, to_json
from holdfast.embodiments.embodiment import Embodiment
from holdfast.norm.stats import Stats

STATE, ACTION = "observation.state", "action"
# Comes before all tasks if the first statistics were given instead of measured. No task can have this name.
GIVEN = "(given)"
Whose = Literal["own", "first", "embodiment"]
StrategyName = Literal["per-task", "frozen-first", "mixed", "calibrated"]


@dataclass(frozen=True)
class Strategy:
    """Whose statistics normalize a task in training, and whose in testing."""

    train: Whose
    test: Whose


STRATEGIES: dict[str, Strategy] = {
    "per-task": Strategy("own", "own"),  # I
    "frozen-first": Strategy("first", "first"),  # II
    "mixed": Strategy("own", "first"),  # III
    "calibrated": Strategy("embodiment", "embodiment"),  # IV, ours: known before any task
}


@dataclass(frozen=True)
class Space:
    """One mapping of state and action to [-1, 1]. `widened` names the dimensions whose own range was too narrow."""

    state: Stats
    action: Stats
    widened: tuple[str, ...] = ()

    def of(self, feature: str) -> Stats:
        """Statistics of `observation.state` or `action`."""
        return self.state if feature == STATE else self.action

    @property
    def complete(self) -> bool:
        """Whether every dimension has a range."""
        return bool(np.isfinite([*self.state.q01, *self.action.q01]).all())

    def without(self, state: np.ndarray, action: np.ndarray) -> Space:
        """The same ranges, but none (NaN) for the dimensions in two masks."""
        return Space(_without(self.state, state), _without(self.action, action), self.widened)

    @property
    def hash(self) -> str:
        """SHA-256 of the statistics."""
        return hashlib.sha256(json.dumps(to_json(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Normalization:
    """Every space of a run: the measured ones by task, in the order in which they were learned."""

    strategy: str
    measured: dict[str, Space] = field(default_factory=dict)
    calibrated: Space | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise unknown("normalization strategy", self.strategy, STRATEGIES)
        if self.strategy == "calibrated" and self.calibrated is None:
            raise HoldfastError(
                "Strategy 'calibrated' takes its ranges from the embodiment, and the stream names none. "
                'Add embodiment = "piper_x_pair" (or a .toml file of your robot) to the stream, '
                "or choose --norm.strategy=frozen-first."
            )

    def with_task(self, task: str, space: Space) -> Normalization:
        """Add what was measured on one more task."""
        return replace(self, measured={**self.measured, task: space})

    def train(self, task: str) -> Space:
        """The space in which samples of `task` are trained."""
        return self._space(STRATEGIES[self.strategy].train, task)

    def test(self, task: str) -> Space:
        """The space in which `task` is executed."""
        return self._space(STRATEGIES[self.strategy].test, task)

    def execute(self, task: str) -> Space:
        """The space in which any task is executed; a task that was never trained uses the first task's."""
        return self.test(task if task in self.measured else next(iter(self.measured), task))

    def _space(self, whose: Whose, task: str) -> Space:
        if whose == "embodiment":
            assert self.calibrated is not None
            return self.calibrated
        name = next(iter(self.measured), task) if whose == "first" else task
        if name not in self.measured:
            raise unknown("task with statistics", name, self.measured)
        return self.measured[name]

    def to_json(self) -> dict[str, Any]:
        """Plain values with the hash that `from_json` checks."""
        body = to_json(self)
        return {**body, "hash": _hash(body)}

    @classmethod
    def from_json(cls, content: Any) -> Normalization:
        """Inverse of `to_json`; statistics that were edited by hand do not load."""
        body = {k: v for k, v in content.items() if k != "hash"} if isinstance(content, dict) else {}
        if not isinstance(body.get("measured"), dict) or _hash(body) != content.get("hash"):
            raise HoldfastError("Normalization statistics do not match their hash: the checkpoint was altered.")
        return from_json(cls, body, "The checkpoint's normalization")

    @property
    def hash(self) -> str:
        """SHA-256 of all statistics and the strategy."""
        return str(self.to_json()["hash"])


def calibrated_space(
    embodiment: Embodiment, relative: np.ndarray, chunk: int, commands: np.ndarray | None = None
) -> Space:
    """Strategy IV: the space an embodiment declares, whatever the tasks are.

    Args:
        embodiment: The robot.
        relative: Which action dimensions are relative to the state.
        chunk: Control steps that a relative action can look ahead.
        commands: For every state dimension the embodiment's dimension that it measures, or -1, whose range then is NaN
            unless the embodiment describes the state. None: the state has the action's dimensions.
    """
    lower, upper = embodiment.state_range()
    if embodiment.states:
        lower, upper = (np.array([getattr(s, edge) for s in embodiment.states]) for edge in ("lower", "upper"))
    elif commands is not None:
        lower, upper = (np.where(commands < 0, np.nan, edge[commands]) for edge in (lower, upper))
    return Space(Stats.from_range(lower, upper), Stats.from_range(*embodiment.action_range(relative, chunk)))


def widen(measured: Space, calibrated: Space, names: Mapping[str, Sequence[str]], floor: float) -> Space:
    """Give every dimension at least the share `floor` of the range that the embodiment declares for it.

    An arm that idles in the first task has almost no range, which would turn its later motion into
    values of 1e5. With floor 0.2 no value within a declared range's width of the centre is normalized beyond 10: that
    is every absolute target, and every relative one up to twice the declared step, which is what the motors can do.
    A dimension that the embodiment does not declare (NaN) stays as measured. `names` are those of state and action.
    """
    state, narrow_state = _widen(measured.state, calibrated.state, floor)
    action, narrow_action = _widen(measured.action, calibrated.action, floor)
    widened = [f"{STATE}:{names[STATE][d]}" for d in narrow_state] + [
        f"{ACTION}:{names[ACTION][d]}" for d in narrow_action
    ]
    return Space(state, action, tuple(widened))


def switch(measured: Space, calibrated: Space, switches: np.ndarray) -> Space:
    """Give the action dimensions in a mask, which know two values only, exactly the range that is declared for them.

    A task may use only one of the values, or one so rarely that it lies beyond the quantiles.
    """
    own, declared = measured.action, calibrated.action
    q01, q99 = (
        tuple(map(float, np.where(switches, getattr(declared, edge), getattr(own, edge)))) for edge in ("q01", "q99")
    )
    return replace(measured, action=replace(own, q01=q01, q99=q99))


def _widen(measured: Stats, declared: Stats, floor: float) -> tuple[Stats, list[int]]:
    low, high = np.array(measured.q01), np.array(measured.q99)
    width = floor * (np.array(declared.q99) - np.array(declared.q01))
    narrow = high - low < width
    centre = (low + high) / 2
    q01 = np.where(narrow, centre - width / 2, low)
    q99 = np.where(narrow, centre + width / 2, high)
    return replace(measured, q01=tuple(map(float, q01)), q99=tuple(map(float, q99))), np.flatnonzero(narrow).tolist()


def normalize(values: np.ndarray, stats: Stats) -> np.ndarray:
    """Map q01..q99 to [-1, 1] without clipping, exactly as the training step and the saved policy do."""
    low, high = np.array(stats.q01), np.array(stats.q99)
    width = np.where(high == low, 1e-8, high - low)
    return 2.0 * (values - low) / width - 1.0


def _without(stats: Stats, dropped: np.ndarray) -> Stats:
    q01, q99 = (tuple(map(float, np.where(dropped, np.nan, edge))) for edge in (stats.q01, stats.q99))
    return replace(stats, q01=q01, q99=q99)


def _hash(body: dict[str, Any]) -> str:
    # The order of the tasks is part of the meaning: it says whose statistics are the first.
    content = [body, list(body["measured"])]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

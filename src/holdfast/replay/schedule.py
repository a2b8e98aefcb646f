"""When to replay, for how many steps, and how much of each task: arithmetic without state.

Every function here is pure in (seed, stage, step), so all ranks and resumed runs agree without communication.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from random import Random
from typing import Literal, get_args

import numpy as np

from holdfast.core.errors import HoldfastError, unknown

Share = Literal["equal", "group", "frames", "need"]
Coin = Literal["plain", "stratified", "released"]
Mix = Literal["step", "row"]


def exact(value: float) -> Fraction:
    """The exact fraction of a decimal: 0.2 is 1/5, not the nearest binary number."""
    return Fraction(str(value))


def stage_steps(steps: int, frequency: float) -> int:
    """Steps of a stage with replay: floor(K / (1 - f_r)), so that the new task still gets K updates."""
    return floor(steps / (1 - exact(frequency)))


def replay_steps(steps: int, frequency: float) -> int:
    """How many steps of a stage the stratified coin gives to replay."""
    return round(exact(frequency) * steps)


def is_replay(seed: int, stage: int, step: int, steps: int, frequency: float, coin: Coin = "plain") -> bool:
    """Whether step `step` (from 0) of a stage takes its batch from the buffer."""
    if coin == "plain":
        return bool(np.random.default_rng([seed, stage, step]).random() < frequency)
    if coin == "stratified":
        return _stratified(seed, stage, step, steps, replay_steps(steps, frequency))
    if coin == "released":
        return Random(step).random() < frequency
    raise unknown("coin", coin, get_args(Coin))


def _stratified(seed: int, stage: int, step: int, steps: int, wanted: int) -> bool:
    """Cut the stage into `wanted` strata and replay at one random step of each: the total is exact."""
    if wanted == 0:
        return False
    stratum = min((step * wanted) // steps, wanted - 1)
    first = ceil(Fraction(stratum * steps, wanted))
    after = ceil(Fraction((stratum + 1) * steps, wanted))
    return step == first + int(np.random.default_rng([seed, stage, stratum]).integers(after - first))


def replayed_rows(
    seed: int, stage: int, step: int, steps: int, frequency: float, batch_size: int, mix: Mix, coin: Coin
) -> int:
    """Rows of a step's batch that come from the buffer: all or none by the coin, or the same share of every batch."""
    if not frequency:
        return 0
    if mix == "step":
        return batch_size if is_replay(seed, stage, step, steps, frequency, coin) else 0
    if mix == "row":
        total = replay_rows(steps, frequency, batch_size)
        return (step + 1) * total // steps - step * total // steps
    raise unknown("replay mix", mix, ("step", "row"))


def replay_rows(steps: int, frequency: float, batch_size: int) -> int:
    """How many samples of a stage come from the buffer when every batch is mixed."""
    return round(exact(frequency) * steps * batch_size)


def shares(
    tasks: Sequence[str],
    share: Share,
    *,
    frames: Mapping[str, int],
    groups: Mapping[str, str],
    weights: Mapping[str, float],
) -> np.ndarray:
    """Probability of each task among replayed samples.

    equal: the same for every task. group: groups by their weight, tasks of a group equally. frames: in proportion
    to what is kept, so long episodes dominate (what the paper's released code does). need: equal, until the losses of
    watched episodes differ (`looks.py`).
    """
    raw: np.ndarray
    if share in ("equal", "need"):
        raw = np.ones(len(tasks))
    elif share == "frames":
        raw = np.array([frames[t] for t in tasks], dtype=float)
    elif share == "group":
        missing = sorted({groups[t] for t in tasks} - set(weights))
        if missing:
            raise HoldfastError(
                f"No replay weight for group {missing[0]!r}; weights are given for {sorted(weights)}. "
                "Example: --replay.weights='{bimanual: 2, single: 1}'."
            )
        members = [groups[t] for t in tasks]
        raw = np.array([weights[g] / members.count(g) for g in members])
    else:
        raise unknown("replay share", share, get_args(Share))
    if raw.sum() <= 0:
        raise HoldfastError(f"Replay weights must be positive, got {dict(weights)}.")
    return raw / raw.sum()

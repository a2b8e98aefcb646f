"""Settings of replay. Light to import."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from holdfast.core.errors import require, require_choice
from holdfast.replay.schedule import Coin, Mix, Share
from holdfast.replay.selection import find_selection

Store = Literal["reference", "copy"]


@dataclass(frozen=True)
class ReplayConfig:
    """Replay of kept episodes, for every method that replays."""

    # rho: after k tasks the buffer holds rho / k of each one's episodes, rounded down, but at least one. With tasks of
    # equal size that is rho of one task's episodes in all, however many tasks there are; not rho of all episodes.
    ratio: float = 0.2
    # f_r: share of a stage's samples that come from the buffer; stages grow by 1 / (1 - f_r).
    frequency: float = 0.2
    # step: a step takes its whole batch from the buffer, or none of it (the paper); row: every batch takes f_r of its
    # rows from the buffer.
    mix: Mix = "step"
    # How replayed samples are split: equal (per task), group (by `weights`), frames (by what is kept, so that tasks of
    # long episodes are replayed more: the released code), need (a kept episode of every task is set aside and watched;
    # a task whose loss has doubled since the stage's start gets twice the share of one whose loss has not risen).
    share: Share = "equal"
    # Weights of the groups, used with share=group. The paper's asymmetric schedule is 2 : 1 with frequency 0.3.
    weights: dict[str, float] = field(default_factory=lambda: {"bimanual": 2.0, "single": 1.0})
    # Replay no more than is needed: f_r rises from 0 to `frequency` as the worst watched loss rises from what it was at
    # the stage's start to `alarm` above that (0.1: a tenth). Steps that do not replay learn the new task. Empty: always
    # `frequency`.
    alarm: float | None = None
    # Steps between two looks at the watched episodes, with share=need or an alarm.
    watch_every: int = 100
    # With mix=step, which steps replay. plain: an independent coin per step; stratified: exactly round(f_r * steps);
    # released: a coin seeded by the step alone, so the same steps in every stage and run (the paper).
    coin: Coin = "plain"
    # Which episodes are kept: random; diverse (unlike each other in statistics of state and action); coverage (every
    # episode is near a kept one, in its path and its first images); hard (those the policy predicts worst at the end of
    # their stage); surprise (random at first; later those whose loss has risen most since their stage); or one of your
    # own as file.py:function (which runs the file).
    selection: str = "random"
    # reference: kept episodes are read from their datasets, which must stay where they are; copy: the run copies
    # them at the end of each stage, and the stage's dataset may be deleted.
    store: Store = "reference"

    def __post_init__(self) -> None:
        require(0 < self.ratio <= 1, "replay.ratio", self.ratio, "above 0 and at most 1")
        require(0 <= self.frequency < 1, "replay.frequency", self.frequency, "at least 0 and below 1")
        require_choice("replay.mix", self.mix, Mix)
        require_choice("replay.share", self.share, Share)
        require(self.alarm is None or 0 < self.alarm < math.inf, "replay.alarm", self.alarm, "above 0 and finite")
        require(self.watch_every >= 1, "replay.watch_every", self.watch_every, "at least 1")
        require_choice("replay.coin", self.coin, Coin)
        require_choice("replay.store", self.store, Store)
        if find_selection(self.selection).by_rise:
            chosen = (
                f"with --replay.selection={self.selection}, which looks at kept episodes again at every stage's end"
            )
            require(self.frequency > 0, "replay.frequency", self.frequency, f"above 0 {chosen}")
            require(self.store == "reference", "replay.store", self.store, f"reference {chosen}")
        require(all(w > 0 for w in self.weights.values()), "replay.weights", self.weights, "all above 0")

    @property
    def watches(self) -> bool:
        """Whether kept episodes are set aside and watched while a stage trains."""
        return self.share == "need" or self.alarm is not None

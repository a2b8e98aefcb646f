"""Settings of normalization. Light to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from holdfast.core.errors import require, require_choice
from holdfast.norm.strategies import STRATEGIES, StrategyName

Widen = Literal["all", "idle"]


@dataclass(frozen=True)
class NormConfig:
    """Normalization of state and action to [-1, 1] by quantiles."""

    # per-task (I), frozen-first (II, the paper's best), mixed (III), calibrated (IV, from the embodiment).
    strategy: StrategyName = "frozen-first"
    # A norm_stats.json (openpi, the paper's released code), a folder that holds one, or nano-base: takes the place of
    # the first task's statistics, so that a pretrained policy keeps the space it was trained in.
    stats: str = ""
    # A dimension gets at least this share of the embodiment's range; 0 switches the rule off.
    floor: float = 0.2
    # Which dimensions the floor widens. all: active joints too, if they move little; idle: only those of arms that the
    # task does not use, so that active joints keep their measured quantiles (the paper has no floor).
    widen: Widen = "all"
    # A normalized magnitude above this stops the run before its first step.
    limit: float = 10.0
    # Dimensions allowed beyond the limit, by name.
    allow: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_choice("norm.strategy", self.strategy, StrategyName)
        first = "first" in (STRATEGIES[self.strategy].train, STRATEGIES[self.strategy].test)
        require(first or not self.stats, "norm.stats", self.stats, "given with --norm.strategy=frozen-first or mixed")
        require(0 <= self.floor <= 1, "norm.floor", self.floor, "between 0 and 1")
        require_choice("norm.widen", self.widen, Widen)
        require(self.limit > 1, "norm.limit", self.limit, "above 1")

"""Merging: after a stage, the weights between its start and its end that do best on the kept episodes.

Wortsman et al. 2022 (https://arxiv.org/abs/2109.01903) average the weights before and after fine-tuning; here the place
between them is found on kept episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import require
from holdfast.methods.method import Method
from holdfast.methods.state import MethodState
from holdfast.methods.weights import copies, shapes, trained

if TYPE_CHECKING:
    import torch

    from holdfast.policies.adapter import Loss


@dataclass(frozen=True)
class Merge(Method):
    """Merging: er, and at the end of a stage its weights are averaged with those of its start.

    The weights become w* + s (w - w*), where w* are those at the stage's start. s is the one of 0, 1/parts, ..., 1 with
    the lowest mean loss on the kept episodes, those of the new task included, every task counting the same. So on that
    score the result is never worse than the start or the end.
    """

    replays = True
    # Into how many parts the way from start to end is cut; each of their ends is tried.
    parts: int = 10

    def __post_init__(self) -> None:
        require(self.parts >= 1, "method.parts", self.parts, "at least 1")

    def finish(
        self, policy: torch.nn.Module, score: Callable[[], float], kept: MethodState | None
    ) -> dict[str, Any] | None:
        """Try every share and leave the best; the first stage has no start to go back to."""
        if kept is None:
            return None
        import torch

        weights, start = trained(policy), kept.part("anchor")
        end = {name: weight.detach().clone() for name, weight in weights.items()}

        @torch.no_grad()
        def go(share: float) -> None:
            for name, weight in weights.items():
                weight.copy_(torch.lerp(start[name], end[name], share))

        scores = []
        for part in range(self.parts + 1):
            go(part / self.parts)
            scores.append(score())
        best = min(range(self.parts + 1), key=lambda part: (scores[part], -part))
        go(best / self.parts)
        return {"share": best / self.parts, "scores": scores}

    def keep(
        self, policy: torch.nn.Module, losses: Callable[[int], Iterator[Loss]], kept: MethodState | None
    ) -> MethodState:
        """The weights, as the start of the next stage."""
        return MethodState(copies(policy, "anchor"))

    def kept_shapes(self, policy: torch.nn.Module) -> dict[str, tuple[int, ...]]:
        """One tensor for every weight that is trained."""
        return shapes(policy, "anchor")

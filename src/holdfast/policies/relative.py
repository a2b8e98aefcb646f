"""Relative actions: which dimensions of a policy are predicted relative to the state, and how it is subtracted.

LeRobot's own step subtracts state dimension i from action dimension i. Where a dataset's state and action have other
dimensions, our policies pair them by name instead, as set in `config.relative_to`. LeRobot's cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lerobot.lerobot_types import EnvTransition, TransitionKey
from lerobot.processor import ProcessorStepRegistry, RelativeActionsProcessorStep
from lerobot.utils.constants import OBS_STATE

from holdfast.core.errors import HoldfastError
from holdfast.data.lesson import Pairing
from holdfast.embodiments.embodiment import TARGETS


def relative_dimensions(config: Any, names: Sequence[str]) -> np.ndarray:
    """Mask of the dimensions a policy predicts relative to the state: all but excluded names and unpaired ones."""
    if not getattr(config, "use_relative_actions", False):
        return np.zeros(len(names), dtype=bool)
    excluded = [str(token).lower() for token in getattr(config, "relative_exclude_joints", []) if token]
    wanted = np.array([not any(token in name.lower() for token in excluded) for name in names])
    places = getattr(config, "relative_to", None)
    return wanted if places is None else wanted & (np.array(places) >= 0)


def settle_relative(
    config: Any, names: Sequence[str], pairing: Pairing, asked: bool, say: Callable[[str], None]
) -> None:
    """Fit a policy's relative actions to a dataset; `asked`: the user has set them explicitly."""
    if hasattr(config, "relative_to"):
        config.relative_to = None  # a saved policy's setting is for another dataset
    wanted = relative_dimensions(config, names)
    if not wanted.any():
        return
    usable = wanted & pairing.paired
    absolute = ", ".join(
        name if kind in TARGETS else f"{name} ({kind})"
        for name, kind, lost in zip(names, pairing.kinds, wanted & ~usable, strict=True)
        if lost
    )
    if not usable.any():
        if asked:
            raise HoldfastError(
                "--policy.use_relative_actions=true needs state dimensions of the same names as the action's; there "
                f"are none for {absolute}. Set --policy.use_relative_actions=false; or, if they mean the same joints, "
                "give them the same names in the dataset's meta/info.json or name an embodiment in the stream."
            )
        config.use_relative_actions = False
        say(f"Relative actions are off: no state dimension measures a target of the same name ({absolute}).")
        return
    in_place = bool((pairing.places == np.arange(len(names)))[usable].all()) and pairing.states >= len(names)
    if not absolute and in_place:
        return
    if not hasattr(config, "relative_to"):
        raise HoldfastError(
            f"Policy {config.type!r} subtracts states from actions by position, which does not fit this dataset "
            f"(state and action differ in {absolute or 'order'}). Set --policy.use_relative_actions=false."
        )
    config.relative_to = pairing.places.tolist()
    if absolute:
        say(f"Actions that are no targets or have no state dimension of the same name stay as they are: {absolute}.")


@ProcessorStepRegistry.register("holdfast_paired_relative_actions")
@dataclass
class PairedRelativeActionsStep(RelativeActionsProcessorStep):
    """LeRobot's step for a state that has other dimensions than the action.

    `places` holds the state dimension of every action dimension, or -1 for one that stays absolute.
    """

    places: tuple[int, ...] = ()

    def _build_mask(self, action_dim: int) -> list[bool]:
        return [
            wanted and place >= 0 for wanted, place in zip(super()._build_mask(action_dim), self.places, strict=True)
        ]

    def __call__(self, transition: EnvTransition) -> EnvTransition:
        """Subtract the paired state; the step that adds it again reads it from here."""
        observation = transition.get(TransitionKey.OBSERVATION) or {}
        if OBS_STATE not in observation:
            return super().__call__(transition)
        paired = observation[OBS_STATE][..., [max(place, 0) for place in self.places]]
        shown = transition.copy()
        shown[TransitionKey.OBSERVATION] = {**observation, OBS_STATE: paired}
        out = super().__call__(shown).copy()
        out[TransitionKey.OBSERVATION] = observation
        return out

    def get_config(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this step."""
        return {**super().get_config(), "places": list(self.places)}

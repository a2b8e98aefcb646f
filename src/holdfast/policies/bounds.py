"""Bounds of a policy's sizes.

A config may come from anywhere. What it asks for at every observation (tokens, steps, draws) is not in the weights,
with which the size of the network is compared, so each size has bounds of its own, far beyond any useful network.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.errors import HoldfastError

type Bounds = Mapping[str, tuple[int, int]]  # smallest and largest value, by name


def check_size(policy: str, bounds: Bounds, name: str, value: object) -> None:
    """Refuse a size of a policy that is out of its bounds."""
    lowest, highest = bounds[name]
    if type(value) is not int or not lowest <= value <= highest:
        raise HoldfastError(f"{policy}'s {name} must be {lowest} to {highest}, got {value!r:.80}.")

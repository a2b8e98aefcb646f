"""Checks of what actions are: targets, increments, velocities or switches, as declared or as they look."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.data.doctor.findings import Expected, Finding, say_dimensions
from holdfast.data.lerobot.source import Source
from holdfast.data.lesson import pair
from holdfast.data.mapping import Mapped
from holdfast.data.targets import SEEN, Doubt, doubtful

_DECLARE = (
    "Give it this kind in an embodiment file that the stream names, or another name than the state's. Without either, "
    "policies that learn relative actions (nano) refuse it, until --policy.use_relative_actions says what to do."
)
_ADVICE: dict[Doubt, str] = {
    "delta": f'kind = "delta" if it is an increment, "velocity" if a speed. {_DECLARE}',
    "binary": f'kind = "binary". {_DECLARE}',
    "far": "Actions are taken as absolute targets in the units of the state: degrees or radians, metres or shares. If "
    f'they are none, say so: kind = "delta", "velocity" or "binary". {_DECLARE}',
}


def unlike_targets(source: Source, expected: Expected) -> Iterator[Finding]:
    """Actions with the name of a state that are no targets for it."""
    pairing, feature = pair(source, expected.robot(source)), expected.features(source)[1]
    state = pairing.pose(source.state)
    seen = np.fmax.reduce(state) - np.fmin.reduce(state)
    # An idle arm sags a little below its command, and frozen joints have their own check: only moving joints count.
    floor = feature.limits(4, np.full_like(seen, 0.01 * np.nanmax(seen)))
    found = {d: doubt for d, doubt in doubtful(source, pairing, floor).items() if feature.active[d]}
    for doubt in dict.fromkeys(found.values()):
        names = say_dimensions(feature.names, [d for d in found if found[d] == doubt])
        detail = f"The action {SEEN[doubt]}."
        yield Finding("warning", source.dataset, "action-state", names, detail, _ADVICE[doubt])


def unlike_their_kind(source: Source, expected: Expected) -> Iterator[Finding]:
    """Actions that are not what the embodiment says of them."""
    robot = expected.robot(source)
    if robot is None:
        return
    lower, upper = robot.state_range()
    slack = 1e-3 * (upper - lower)
    for d, dimension in enumerate(robot.dimensions):
        values, name = source.action[:, d], source.action_names[d]
        values = values[np.isfinite(values)]
        low, high = dimension.lower, dimension.upper
        if dimension.kind == "binary":
            other = ~(np.isclose(values, low, atol=slack[d]) | np.isclose(values, high, atol=slack[d]))
            if other.any():
                detail = f"It has {len(np.unique(values))} values, such as {values[other][0]:.3g}; a switch has two, "
                detail += f"here {low:g} and {high:g}."
                advice = "Correct its lower and upper, or its kind, in the embodiment file."
                yield Finding("warning", source.dataset, "action-kind", name, detail, advice)
        elif dimension.kind in ("delta", "velocity"):
            beyond = (values < low - slack[d]) | (values > high + slack[d])
            if beyond.any():
                detail = f"{beyond.mean():.0%} of its values are beyond {low:g} to {high:g}, the farthest being "
                detail += f"{values[np.argmax(np.abs(values))]:.3g}; on a robot such a {dimension.kind} is cut off."
                advice = f"Correct its lower and upper in the embodiment file, or its kind: is it a {dimension.kind}?"
                if isinstance(source, Mapped) and name in source.summed:
                    advice += f" They are limits of one step of the run, which here sums {source.stride} increments."
                yield Finding("warning", source.dataset, "action-kind", name, detail, advice)

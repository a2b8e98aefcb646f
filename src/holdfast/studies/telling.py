"""Which flags tell the groups of a study apart: names of runs and labels of figures have these and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FIRST = ("stream", "method")  # always told where they vary


def varied_flags(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """The flags that differ between groups: stream and method first, then in the order in which they are given."""
    keys = dict.fromkeys(key for flags in groups for key in flags)
    varied = [key for key in keys if any(flags.get(key) != groups[0].get(key) for flags in groups)]
    return sorted(varied, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST))


def telling_flags(groups: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The flags by which each group is told from the others.

    These are stream and method, and flags that differ between groups with the same stream and method. So steps that
    each method has of its own are not told.
    """
    varied = varied_flags(groups)
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for flags in groups:
        alike.setdefault(_first(flags), []).append(flags)
    told = {first: varied_flags(found) for first, found in alike.items()}
    return [
        [key for key in varied if key in flags and (key in FIRST or key in told[_first(flags)])] for flags in groups
    ]


def _first(flags: Mapping[str, Any]) -> str:
    return repr([flags.get(key) for key in FIRST])

"""How far people, and the twin's scorer, agree about the same videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from holdfast.core.records import Task
from holdfast.metrics import Agreement, cohens_kappa

AUTOMATIC = "automatic scorer"


@dataclass(frozen=True)
class Pair:
    """Two raters: how many videos both saw, and their agreement on all milestones and on each, `title: milestone`."""

    raters: tuple[str, str]
    videos: int
    overall: Agreement
    milestones: dict[str, Agreement]


def compare(rated: Sequence[tuple[Task, Mapping[str, Sequence[str]]]]) -> list[Pair]:
    """Agreement of every two raters who saw a video both.

    Args:
        rated: Of each video its task, and by rater ('' is the twin's scorer) the milestones he saw reached.
    """
    names = sorted({name for _, by in rated for name in by}, key=lambda name: (not name, name))
    found = []
    for one, other in combinations(names, 2):
        shared = [(task, by[one], by[other]) for task, by in rated if one in by and other in by]
        if not shared:
            continue
        said: dict[str, list[tuple[bool, bool]]] = {}
        for task, first, second in sorted(shared, key=lambda entry: entry[0].title):
            for milestone in task.milestones:
                pair = (milestone.name in first, milestone.name in second)
                said.setdefault(f"{task.title}: {milestone.name.replace('_', ' ')}", []).append(pair)
        everything = [pair for pairs in said.values() for pair in pairs]
        each = {name: cohens_kappa(pairs) for name, pairs in said.items()}
        found.append(Pair((one, other or AUTOMATIC), len(shared), cohens_kappa(everything), each))
    return found

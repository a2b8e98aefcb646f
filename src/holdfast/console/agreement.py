"""Agreement of people, and of the twin's scorer, on the same videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from holdfast.core.records import Task
from holdfast.metrics import Agreement, cohens_kappa

AUTOMATIC = "automatic scorer"


@dataclass(frozen=True)
class Pair:
    """Two raters: the number of videos both rated, and their agreement overall and by `title: milestone`."""

    raters: tuple[str, str]
    videos: int
    overall: Agreement
    milestones: dict[str, Agreement]


def compare(rated: Sequence[tuple[Task, Mapping[str, Sequence[str]]]]) -> list[Pair]:
    """Agreement of every two raters who share a video.

    Args:
        rated: For each video its task, and by rater ('' is the twin's scorer) the milestones rated as reached.
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

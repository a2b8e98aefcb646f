"""Agreement of people, and of the twin's scorer, on the same videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from holdfast.core.records import Task

AUTOMATIC = "automatic scorer"


@dataclass(frozen=True)
class Agreement:
    """How far two raters agree: the share of equal answers, and Cohen's kappa, or why it is undefined."""

    count: int
    observed: float | None
    kappa: float | None
    why: str = ""


def cohens_kappa(answers: Sequence[tuple[bool, bool]]) -> Agreement:
    """Agreement of two raters on yes-or-no questions, beyond chance.

    With p the share of equal answers and e the share expected if each answered at random with the same rate of yes:
    kappa = (p - e) / (1 - e). If both always gave the same answer, e is 1 and kappa is undefined.
    """
    if not answers:
        return Agreement(0, None, None, "nothing was rated by both")
    size = len(answers)
    same = sum(a == b for a, b in answers)
    one, other = sum(a for a, _ in answers), sum(b for _, b in answers)
    expected = one * other + (size - one) * (size - other)  # times size squared, in whole numbers
    if expected == size**2:
        return Agreement(size, 1.0, None, f"both always said {'yes' if one else 'no'}")
    return Agreement(size, same / size, (same * size - expected) / (size**2 - expected))


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

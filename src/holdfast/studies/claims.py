"""Claims of a study: what it should show, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import HoldfastError
from holdfast.methods.method import Arrangement
from holdfast.studies.measures import Measures
from holdfast.studies.statistics import StudyFigure
from holdfast.studies.study import Study, StudyClaim

ClaimVerdict = Literal["holds", "does not hold", "undecided", "not measured"]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with the labels of its groups, the difference (or the value itself) and the verdict."""

    claim: StudyClaim
    better: str
    worse: str | None
    difference: StudyFigure
    verdict: ClaimVerdict


@dataclass(frozen=True)
class Learned:
    """How a group learns, and its tasks."""

    method: str
    arrangement: Arrangement
    tasks: tuple[str, ...]


def check_claims(study: Study, learned: Mapping[str, Learned]) -> None:
    """Refuse claims that no result could decide; `learned` has every group, by its label."""
    study.check_picks()
    alone = {name for group in learned.values() if group.arrangement == "alone" for name in group.tasks}
    for number, claim in enumerate(study.claims, 1):
        where = f"Study {study.name}, claim {number}"
        if study.evaluate is None:
            raise HoldfastError(f"{where} needs trials. Add a table [evaluate].")
        labels = [study.pick(flags) for flags in (claim.better, claim.worse) if flags is not None]
        if len({frozenset(learned[label].tasks) for label in labels}) > 1:
            raise HoldfastError(f"{where}: {' and '.join(labels)} learn different tasks. Name the stream of both.")
        for group in (learned[label] for label in labels):
            if claim.metric != "average_score" and group.arrangement != "stream":
                lacks = f"{group.method} has no {claim.metric}, as it does not learn task after task"
                raise HoldfastError(f"{where}: {lacks}.")
            missing = [name for name in dict.fromkeys(group.tasks[1:]) if name not in alone]
            if claim.metric == "fwt" and missing:
                raise HoldfastError(f"{where}: fwt needs {', '.join(missing)} learned alone. Add method 'finetune'.")


def judge(study: Study, measures: Measures) -> list[JudgedClaim]:
    """Judge all claims of a study."""
    return [_judge(study, claim, measures) for claim in study.claims]


def _judge(study: Study, claim: StudyClaim, measures: Measures) -> JudgedClaim:
    better = study.pick(claim.better)
    worse = None if claim.worse is None else study.pick(claim.worse)
    figure = StudyFigure()
    if better in measures.groups and worse is None:
        figure = measures.figure(claim.metric, measures.groups[better])
    elif better in measures.groups and worse in measures.groups:
        figure = measures.difference(claim.metric, measures.groups[better], measures.groups[worse])
    return JudgedClaim(claim, better, worse, figure, verdict(figure, claim.than))


def verdict(figure: StudyFigure, than: float) -> ClaimVerdict:
    """Whether the whole interval lies above `than`, below it, or neither. One seed decides nothing."""
    if figure.value is None:
        return "not measured"
    if figure.low is None or figure.high is None or figure.seeds < 2:
        return "undecided"
    return "holds" if figure.low > than else "does not hold" if figure.high < than else "undecided"

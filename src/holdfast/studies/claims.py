"""Claims of a study: what it should show, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from holdfast.studies.measures import Measures
from holdfast.studies.statistics import StudyFigure
from holdfast.studies.study import Study, StudyClaim

Verdict = Literal["holds", "does not hold", "undecided", "not measured"]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with the labels of its groups, the difference (or the value itself) and the verdict."""

    claim: StudyClaim
    better: str
    worse: str | None
    difference: StudyFigure
    verdict: Verdict


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


def verdict(figure: StudyFigure, than: float) -> Verdict:
    """Whether the whole interval lies above `than`, below it, or neither."""
    if figure.value is None:
        return "not measured"
    if figure.low is None or figure.high is None:
        return "undecided"
    return "holds" if figure.low > than else "does not hold" if figure.high < than else "undecided"

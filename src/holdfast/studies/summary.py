"""The numbers of a study as plain values: computed once, written to metrics.json and shown everywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from holdfast import __version__
from holdfast.core.json_records import Plain, finite
from holdfast.report.gather import WITHOUT_STAGES, RunResults
from holdfast.report.summary import published
from holdfast.studies.claims import JudgedClaim, judge
from holdfast.studies.measures import Measures, first_run, last_visits
from holdfast.studies.results import RunGroup, StudyResults
from holdfast.studies.statistics import StudyFigure
from holdfast.studies.study import METRICS, Study
from holdfast.studies.telling import varied_flags


def summary(results: StudyResults) -> Plain:
    """All numbers of a study; the same for the same trials, in whatever order they were read."""
    order = [label for label, _ in results.study.groups]
    groups = tuple(sorted(results.groups, key=lambda group: order.index(group.label)))
    streams = list(dict.fromkeys(first_run(group).names for group in groups))
    measures = Measures(replace(results, groups=groups))
    found = {
        "holdfast": __version__,
        "study": results.study.name,
        "question": results.study.question,
        "source": results.source,
        "other_sources": results.others,
        "streams": [_stream(names, groups) for names in streams],
        "groups": [_group(results.study, group, streams, measures) for group in groups],
        "differences": _differences(groups, streams, measures),
        "claims": [_claim(judged) for judged in judge(results.study, measures)],
    }
    plain: Plain = finite(found)
    return plain


def _stream(names: tuple[str, ...], groups: Sequence[RunGroup]) -> Plain:
    tasks = next(first_run(group).tasks for group in groups if first_run(group).names == names)
    named = [{"name": task.name, "title": task.title, "group": task.group} for task in tasks]
    return {"tasks": named, "published": published(names)}


def _group(study: Study, group: RunGroup, streams: Sequence[tuple[str, ...]], measures: Measures) -> Plain:
    run = first_run(group)
    varied = varied_flags([flags for _, flags in study.groups])
    return {
        "label": group.label,
        "settings": {key: group.flags[key] for key in varied if key in group.flags},
        "method": run.method,
        "continual": run.continual,
        "stream": streams.index(run.names),
        "seeds": sorted(group.runs),
        **_kept(run),
        "trials": sum(len(one.trials) for one in group.runs.values()),
        **{metric: asdict(measures.figure(metric, group)) for metric in METRICS},
        "by_seed": {str(seed): _of_seed(group, seed, measures) for seed in sorted(group.runs)},
        "matrix": _matrix(group, measures),
        "stages": [_stage(group, stage, measures) for stage in run.rows] if run.continual else [],
        "tasks": [_task(group, task, measures) for task in run.names],
    }


def _kept(run: RunResults) -> Plain:
    """What there is after the last stage: kept episodes of all tasks, and bytes of weights; None if not known."""
    last = max(run.stages, key=lambda stage: stage.number, default=None)
    episodes = sum(count for count, _ in last.kept.values()) if last else None
    return {"kept_episodes": episodes, "weights_bytes": (last.weights_bytes or None) if last else None}


def _of_seed(group: RunGroup, seed: int, measures: Measures) -> Plain:
    one = RunGroup(group.label, group.flags, {seed: group.runs[seed]})
    return {metric: measures.figure(metric, one).value for metric in METRICS}


def _stage(group: RunGroup, stage: int, measures: Measures) -> Plain:
    return {"stage": stage, **{metric: asdict(measures.figure(metric, group, stage)) for metric in METRICS}}


def _task(group: RunGroup, task: str, measures: Measures) -> Plain:
    run, nothing = first_run(group), StudyFigure()
    own = last_visits(run.learned)[task]
    return {
        "task": task,
        "after_own": asdict(measures.cell(group, task, own) if run.continual else nothing),
        "final": asdict(measures.cell(group, task, len(run.learned))),
        "alone": asdict(measures.alone(group, task)),
        "fwt": asdict(measures.transfer(group, task) if run.continual else nothing),
    }


def _matrix(group: RunGroup, measures: Measures) -> list[Plain]:
    """A row per stage, a column per task; None where nothing was measured."""
    run = first_run(group)
    rows = []
    for stage in run.rows:
        learned = run.matrix.learned[stage - 1]
        label = run.tasks[learned - 1].title if run.continual else WITHOUT_STAGES[run.arrangement]
        cells = [_cell(measures.cell(group, task, stage)) for task in run.names]
        rows.append({"stage": stage, "learned": learned, "label": label, "cells": cells})
    return rows


def _cell(figure: StudyFigure) -> Plain | None:
    if figure.value is None:
        return None
    found = asdict(figure)
    return {"mean": found.pop("value"), **found}


def _differences(groups: Sequence[RunGroup], streams: Sequence[tuple[str, ...]], measures: Measures) -> list[Plain]:
    """Every group against the first of its stream."""
    found = []
    for position, names in enumerate(streams):
        first, *others = [group for group in groups if first_run(group).names == names]
        for group in others:
            figures = {metric: asdict(measures.difference(metric, group, first)) for metric in METRICS}
            found.append({"label": group.label, "less": first.label, "stream": position, **figures})
    return found


def _claim(judged: JudgedClaim) -> Plain:
    claim = judged.claim
    return {
        "text": claim.text,
        "metric": claim.metric,
        "better": judged.better,
        "worse": judged.worse,
        "difference": asdict(judged.difference),
        "than": claim.than,
        "verdict": judged.verdict,
        "seeds": judged.difference.seeds,
        "trials": judged.difference.trials,
        "paper": claim.paper,
    }

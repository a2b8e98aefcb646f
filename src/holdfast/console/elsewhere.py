"""Scores from elsewhere: the results of `lerobot-eval`, and plain tables of success or score.

They need no rubric. Their source is never one of ours, so they stay apart from trials of arenas and of operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast import arenas, catalog
from holdfast.console.exchange import read, store
from holdfast.core import outside
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json
from holdfast.core.names import check_name
from holdfast.core.records import Trial
from holdfast.runs.run import Run
from holdfast.runs.trials import Trials, checked

COLUMNS = ("run", "task", "stage", "seed", "success", "score")
_WORDS = {"yes": 100.0, "true": 100.0, "1": 100.0, "no": 0.0, "false": 0.0, "0": 0.0}
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")  # float() takes more, like 1_0


@dataclass(frozen=True)
class Origin:
    """What a file does not say: the source of its scores and, of `lerobot-eval`, the stage and task it tried."""

    source: str = ""
    stage: int | None = None
    task: str = ""


@dataclass(frozen=True)
class _Metrics:
    successes: tuple[bool, ...]


def read_scores(runs: Sequence[Run], path: Path, origin: Origin) -> tuple[int, int]:
    """Add the trials of a file, all or none; return how many there are and how many are new."""
    if path.suffix.lower() == ".json":
        found = dict(_of_eval_info(runs, path, origin))
    else:
        rows = outside.parse_csv(outside.read_text(path).removeprefix("\ufeff"), path)
        header = [name.strip() for name in rows[0]] if rows else []
        if "milestones" in header or not {"success", "score"} & set(header):
            if origin != Origin():
                raise HoldfastError(f"--source, --stage and --task are not for {path}, a table of trials by a rubric.")
            return read(runs, path)
        found = dict(_of_table(runs, path, origin, header, rows[1:]))
    _check_sources(runs, found)
    return store(runs, {place: checked(trial) for place, trial in found.items()})


def _check_sources(runs: Sequence[Run], found: dict[str, Trial]) -> None:
    """Refuse a source that has tried the policy itself, like an arena of the user's own: their trials would mix."""
    for run in runs:
        asked = {trial.source for trial in found.values() if trial.run == run.name}
        with Trials(run.trials) as file:
            stored = [trial for trial in file.all() if trial.source in asked]
        for trial in stored:
            if trial.protocol or trial.level or trial.seconds or trial.video:
                raise HoldfastError(
                    f"--source {trial.source}: {run.path} has trials that were made by {trial.source!r} itself, and "
                    f"imported scores never mix with them. Choose another name, like '{trial.source}-elsewhere'."
                )


def _of_table(
    runs: Sequence[Run], path: Path, origin: Origin, header: list[str], rows: list[list[str]]
) -> Iterator[tuple[str, Trial]]:
    """The trials of a table with columns task, stage, seed, and success or score."""
    for name in header:
        if name not in COLUMNS:
            raise unknown(f"column in line 1 of {path}", name, COLUMNS)
    needed = ["task", "stage", "seed", *(["run"] if len(runs) > 1 else [])]
    missing = [name for name in needed if name not in header]
    if missing or len(set(header)) < len(header) or {"success", "score"} <= set(header):
        raise HoldfastError(
            f"{path}, line 1: a table of scores has the columns {', '.join(needed)} and either success (yes, no) or "
            f"score (0 to 100), each once; got {', '.join(header)}."
        )
    if origin.stage is not None or origin.task:
        raise HoldfastError(f"{path} says stage and task itself; leave out --stage and --task.")
    by_name = {run.name: run for run in runs}
    for number, row in enumerate(rows, 2):
        place = f"{path}, row {number}"
        if not any(field.strip() for field in row):
            continue
        if len(row) != len(header):
            raise HoldfastError(f"{place}: {len(row)} fields for {len(header)} columns.")
        values = {name: field.strip() for name, field in zip(header, row, strict=True)}
        name = values.get("run") or runs[0].name
        if name not in by_name:
            raise HoldfastError(f"{place}: {unknown('run', name, by_name)}")
        stage, seed = (_whole(values[word], f"{place}, column {word!r}") for word in ("stage", "seed"))
        yield place, _trial(by_name[name], values["task"], stage, seed, _score(values, place), origin.source, place)


def _of_eval_info(runs: Sequence[Run], path: Path, origin: Origin) -> Iterator[tuple[str, Trial]]:
    """The trials of an eval_info.json of LeRobot 0.6; an episode's seed is its place, as the file has none."""
    if len(runs) > 1 or origin.stage is None:
        raise HoldfastError(
            f"{path} does not say which checkpoint was tried. Give one run and its stage: "
            f"holdfast score RUN --import {path} --stage 2"
        )
    content = outside.read_json(path, finite=False)
    tried = content.get("per_task") if isinstance(content, dict) else None
    if not isinstance(tried, list) or not tried or not all(isinstance(one, dict) for one in tried):
        raise HoldfastError(f"{path} has no list `per_task`; give the eval_info.json that lerobot-eval has written.")
    if origin.task and len(tried) > 1:
        raise HoldfastError(f"{path} has {len(tried)} tasks, so --task cannot name them all. Leave it out.")
    places: dict[str, str] = {}
    for number, one in enumerate(tried):
        place = f"{path}, per_task[{number}]"
        metrics = one.get("metrics")
        successes = {"successes": metrics.get("successes")} if isinstance(metrics, dict) else {}
        found = from_json(_Metrics, successes, place)
        task = _task(runs[0], one.get("task_group"), one.get("task_id"), origin.task, place)
        if places.setdefault(task, place) != place:
            raise HoldfastError(f"{place}: the task {task!r} is in {places[task]} already. Delete one of them.")
        for seed, success in enumerate(found.successes):
            source = origin.source or "lerobot-eval"
            where = f"{place}, episode {seed}"
            yield where, _trial(runs[0], task, origin.stage, seed, 100.0 * success, source, where)


def _task(run: Run, group: Any, number: Any, asked: str, place: str) -> str:
    """The task that LeRobot knows by group and number, or the one asked for if they name none.

    It is a place in a suite of LIBERO or among MetaWorld's tasks of a difficulty; or else the group is the task's own
    name, of MetaWorld also with `metaworld-` before it.
    """
    name = str(group)
    members = catalog.load_stream(name, ".").names if name in catalog.streams() else catalog.metaworld_group(name)
    if members:
        name = members[number] if type(number) is int and 0 <= number < len(members) else ""
    for task in (name, name.removeprefix("metaworld-")):
        if task in run.names:
            if asked not in ("", task):
                raise HoldfastError(f"{place} is about the task {task!r}, not --task {asked}. Leave out --task.")
            return task
    if asked:
        return asked
    known = f", {name}," if members and name else ""
    raise HoldfastError(
        f"{place}: task_group {str(group)[:80]!r} and task_id {str(number)[:20]!r}{known} name no task of the run. Let "
        f"lerobot-eval try its tasks alone: {', '.join(run.names)[:400]}. If the file has one task only, say which: "
        f"--task {run.names[0]}"
    )


def _trial(run: Run, task: str, stage: int, seed: int, score: float, source: str, place: str) -> Trial:
    """A trial that has a score and nothing else."""
    source = source or "imported"
    check_name(source, "--source")
    if source in arenas.own_sources():
        raise HoldfastError(
            f"--source {source}: trials of this source are ours, as are those of {', '.join(arenas.own_sources())}. "
            f"Choose another name, like 'imported' or '{source}-elsewhere'."
        )
    if task not in run.names:
        raise HoldfastError(f"{place}: {unknown('task of the run', task, run.names)}")
    finished = {one.number: one for one in run.stages}
    if stage not in finished:
        raise HoldfastError(f"{place}: {unknown('finished stage', stage, finished)}")
    weights = finished[stage].checkpoint.recorded_weights_hash
    trial = Trial(task, stage, (), final=score == 100, source=source, run=run.name, seed=seed, score=score)
    return replace(trial, weights=weights)


def _score(values: dict[str, str], place: str) -> float:
    if "success" in values:
        if values["success"].lower() not in _WORDS:
            raise HoldfastError(f"{place}, column 'success': must be yes or no, got {values['success'][:40]!r}.")
        return _WORDS[values["success"].lower()]
    score = float(values["score"]) if _NUMBER.fullmatch(values["score"]) else -1.0
    if not 0 <= score <= 100:
        raise HoldfastError(f"{place}, column 'score': must be a number from 0 to 100, got {values['score'][:40]!r}.")
    return score


def _whole(text: str, place: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise HoldfastError(f"{place}: must be a whole number from 0, got {text[:40]!r}.")
    return int(text)

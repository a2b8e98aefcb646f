"""What a study will do, before any work; and how far it has come. Arithmetic and small files only."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast import arenas
from holdfast.api.train import settle
from holdfast.core.device_name import check_device
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import to_json
from holdfast.core.records import OPERATOR, Stage
from holdfast.evaluate.cells import CELLS, is_measured
from holdfast.methods.method import Arrangement
from holdfast.runs.run import started_stages
from holdfast.runs.sources import by_source
from holdfast.runs.trials import Trials
from holdfast.studies.claims import Learned, check_claims
from holdfast.studies.jobs import StudyFolder, stream_of, tasks_of, train_flags
from holdfast.studies.study import LAYOUTS, Study, StudyRun
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.ranks import Ranks
from holdfast.train.plan import settings_of_steps, stages_of


@dataclass(frozen=True)
class PlannedRun:
    """A run, its stages, how many of them an earlier run of the study has in common with it, and its trials."""

    run: StudyRun
    config: TrainConfig
    stages: tuple[Stage, ...]
    shared: int
    steps: int  # without the shared ones
    trials: int


def make_plan(
    study: Study,
    folder: StudyFolder,
    parse: Callable[[Sequence[str]], TrainConfig],
    part: Sequence[StudyRun] | None = None,
) -> tuple[PlannedRun, ...]:
    """Check all runs of a study and count what each will do, or each of a part. `parse` reads flags of `train`."""
    wanted = {run.name for run in (study.runs() if part is None else part)}
    known: set[str] = set()
    learned: dict[str, Learned] = {}
    planned = []
    for run in study.runs():
        try:
            config = parse(train_flags(study, folder, run))
        except HoldfastError as error:
            raise HoldfastError(f"Run {run.name} of study {study.name}: {error}") from None
        stream = stream_of(run, config.data_root)
        arrangement = config.make_method().arrangement
        learned[run.label] = Learned(config.method, arrangement, stream.names)
        if run.name not in wanted:
            continue
        stages = stages_of(config, stream)
        keys = _keys(config, stages, [to_json(entry) for entry in stream.tasks])
        shared = [key in known for key in keys]
        known.update(keys)
        steps = sum(stage.steps for stage, taken in zip(stages, shared, strict=True) if not taken)
        cells = _cells(study, arrangement, stream.names)
        trials = cells * study.evaluate.trials if study.evaluate else 0
        planned.append(PlannedRun(run, config, stages, sum(shared), steps, trials))
    check_claims(study, learned)
    return tuple(planned)


def check_settings(study: Study, plan: Sequence[PlannedRun]) -> None:
    """Refuse what a training would refuse hours later, like an option that the policy lacks, and unknown arenas."""
    _check_layouts(study)
    if ":" not in study.arena and not study.arena.endswith(".toml"):  # those of one's own are loaded by check_tasks
        known = [name for name in arenas.own_sources() if name != OPERATOR]
        if study.arena not in known:
            raise unknown(f"arena of study {study.name}", study.arena, known)
    first: dict[str, PlannedRun] = {}
    for planned in plan:
        if first.setdefault(planned.run.label, planned) is not planned:
            continue  # it differs from the first only in its seed
        device = planned.config.device
        try:
            if not device.startswith("cuda"):  # see check_devices: the GPU may be elsewhere
                check_device(device)
            settle(replace(planned.config, device="cpu", wait=True), Ranks())  # datasets may not be there yet
        except HoldfastError as error:
            raise HoldfastError(f"Run {planned.run.name} of study {study.name}: {error}") from None


def _check_layouts(study: Study) -> None:
    """Refuse trials in layouts that were demonstrated."""
    if not (study.record and study.evaluate):
        return
    first, trials = study.evaluate.first_seed, study.evaluate.trials
    for begin in sorted({study.record.seed_for(seed) for seed in study.seeds}):
        if first < begin + LAYOUTS and begin < first + trials:
            raise HoldfastError(
                f"Study {study.name}: trials in layouts {first} to {first + trials - 1} are among the {LAYOUTS:,} from "
                f"{begin} on, from which demonstrations are recorded. Choose another 'seed' or 'first_seed'."
            )


def check_devices(plan: Sequence[PlannedRun], has_gpu: bool) -> None:
    """Refuse runs that ask for a GPU where there is none."""
    for planned in plan:
        if planned.config.device.startswith("cuda") and not has_gpu:
            raise HoldfastError(
                f"Run {planned.run.name} asks for a GPU (device = {planned.config.device!r}), but Ray sees no machine "
                "that has one. Take `device` out of the study's file, or join a cluster with --address."
            )


def check_tasks(study: Study, plan: Sequence[PlannedRun]) -> None:
    """Refuse runs with a task that the study's arena lacks, where demonstrations or trials are asked of it."""
    if not (study.record or study.evaluate):
        return
    arena = arenas.load(study.arena)
    for planned in plan:
        for name in stream_of(planned.run, planned.config.data_root).names:
            try:
                arena.task(name)
            except HoldfastError as error:
                raise HoldfastError(
                    f"Run {planned.run.name} of study {study.name}: {error} Choose other tasks, or another arena."
                ) from None


def _keys(config: TrainConfig, stages: Sequence[Stage], tasks: Sequence[Any]) -> list[str]:
    """What decides each stage's weights, as far as settings tell; see train/shared_stages.py for the exact rule."""
    own = "" if config.make_method().takes_plain_steps else config.output
    keys: list[str] = []
    for stage in stages:
        learned = [tasks[position] for position in stage.learns]
        before = keys[-1] if stage.start == "previous" and keys else ""
        decides = [settings_of_steps(config, stage), own, stage.number, stage.steps, stage.frequency, learned, before]
        keys.append(json.dumps(decides, sort_keys=True))
    return keys


def _cells(study: Study, arrangement: Arrangement, learned: Sequence[str]) -> int:
    """How many cells are measured."""
    if arrangement != "stream":
        return len(set(learned))
    cells = study.evaluate.cells if study.evaluate else CELLS[0]
    return sum(
        is_measured(cells, arrangement, task, name, last=stage == len(learned))
        for stage, name in enumerate(learned, 1)
        for task in set(learned[:stage])
    )


@dataclass(frozen=True)
class RunStatus:
    """How far a run has come."""

    run: PlannedRun
    stages: int
    trials: int

    @property
    def trained(self) -> bool:
        """Whether all stages are finished."""
        return self.stages == len(self.run.stages)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.trained and self.trials >= self.run.trials


def status(folder: StudyFolder, plan: Sequence[PlannedRun]) -> list[RunStatus]:
    """How far each run has come, from its folder."""
    found = []
    for planned in plan:
        paths = folder.run(planned.run)
        trials = 0
        if paths.trials.exists():
            with Trials(paths.trials) as file:
                judged = by_source(file.counted())
            trials = max((len(found) for source, found in judged.items() if source != OPERATOR), default=0)
        finished = sum(stage.checkpoint.exists for stage in started_stages(paths))
        found.append(RunStatus(planned, finished, trials))
    return found


def complete_jobs(study: Study, folder: StudyFolder, found: Sequence[RunStatus]) -> set[str]:
    """Names of the jobs whose results are in the study's folder."""
    runs = [one.run.run for one in found]
    recorded, tasks = [folder.data(study, run.seed) for run in runs if study.record], tasks_of(runs)
    names = {f"record-{data.name}" for data in recorded if all((data / task).exists() for task in tasks)}
    names |= {f"train-{one.run.run.name}" for one in found if one.trained}
    names |= {f"evaluate-{one.run.run.name}" for one in found if one.done}
    return names | ({"report"} if folder.report.exists() else set())

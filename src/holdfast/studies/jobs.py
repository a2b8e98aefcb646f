"""A study as jobs: ordinary `holdfast` commands and what each must wait for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast import catalog
from holdfast.core.records import Stream
from holdfast.recipes.recipe import flag_text
from holdfast.runs.paths import RunPaths
from holdfast.studies.study import Study, StudyRun

type Command = tuple[str, ...]
Kind = Literal["record", "train", "evaluate", "report"]


@dataclass(frozen=True)
class StudyJob:
    """One command. It can start when the jobs named in `needs` are done; killed, it is simply run again."""

    name: str
    kind: Kind
    command: Command
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudyFolder:
    """Where a study keeps what it makes."""

    root: Path

    @property
    def settings(self) -> Path:
        """The study as it was started."""
        return self.root / "study.json"

    @property
    def shared(self) -> Path:
        """Stages that runs have in common."""
        return self.root / "shared"

    @property
    def logs(self) -> Path:
        """Output of the jobs."""
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        """Held by the process that carries the study out."""
        return self.root / ".lock"

    @property
    def report(self) -> Path:
        """The page about all runs."""
        return self.root / "report" / "index.html"

    def run(self, run: StudyRun) -> RunPaths:
        """The files of a run."""
        return RunPaths(self.root / "runs" / run.name)

    def data(self, study: Study, seed: int) -> Path:
        """The demonstrations of a seed."""
        own = study.record is not None and study.record.seed is None
        return self.root / "data" / (f"seed-{seed}" if own else "all")


def stream_of(run: StudyRun, data: str) -> Stream:
    """The stream that a run learns."""
    return catalog.load_stream(str(run.flags.get("stream", "")), data).only(run.flags.get("tasks", []))


def make_jobs(study: Study, folder: StudyFolder, processes: int) -> list[StudyJob]:
    """All jobs, in an order in which each comes after those it needs."""
    runs = study.runs()
    jobs: list[StudyJob] = []
    if study.record:
        for seed in study.seeds if study.record.seed is None else study.seeds[:1]:
            jobs.append(_recording(study, folder, seed, processes))
    for run in runs:
        jobs.append(StudyJob(f"train-{run.name}", "train", _training(study, folder, run), _recordings(study, run)))
    if study.evaluate:
        for run in runs:
            command = _evaluation(study, folder, run, processes)
            jobs.append(StudyJob(f"evaluate-{run.name}", "evaluate", command, (f"train-{run.name}",)))
        command = ("report", *(str(folder.run(run).root) for run in runs), f"--output={folder.report}")
        jobs.append(StudyJob("report", "report", command, tuple(job.name for job in jobs if job.kind == "evaluate")))
    return jobs


def train_flags(study: Study, folder: StudyFolder, run: StudyRun) -> list[str]:
    """The flags of `holdfast train` for a run."""
    own = {"seed": run.seed, "output": folder.run(run).root, "share": folder.shared}
    if study.record:
        own["data_root"] = folder.data(study, run.seed)
    return [f"--{name}={flag_text(value)}" for name, value in {**run.flags, **own}.items()]


def _training(study: Study, folder: StudyFolder, run: StudyRun) -> Command:
    return ("train", *train_flags(study, folder, run))


def _recording(study: Study, folder: StudyFolder, seed: int, processes: int) -> StudyJob:
    assert study.record
    data = folder.data(study, seed)
    tasks = dict.fromkeys(name for run in study.runs() for name in stream_of(run, str(data)).names)
    command = (
        *("record", "--tasks", *tasks, "--episodes", str(study.record.episodes), "--size", str(study.record.size)),
        *("--seed", str(study.record.seed_for(seed)), "--arena", study.arena),
        *("--output", str(data), "--processes", str(processes)),
    )
    return StudyJob(f"record-{data.name}", "record", command)


def _recordings(study: Study, run: StudyRun) -> tuple[str, ...]:
    if study.record is None:
        return ()
    return (f"record-seed-{run.seed}" if study.record.seed is None else "record-all",)


def _evaluation(study: Study, folder: StudyFolder, run: StudyRun, processes: int) -> Command:
    trials = study.evaluate
    assert trials
    horizon = ("--horizon", str(trials.horizon)) if trials.horizon else ()
    return (
        *("evaluate", str(folder.run(run).root), "--trials", str(trials.trials), "--cells", trials.cells, *horizon),
        *("--first-seed", str(trials.first_seed), "--arena", study.arena, "--processes", str(processes)),
        *("--videos", str(trials.videos)),
    )

"""A study as jobs: ordinary `holdfast` commands and what each must wait for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast import catalog
from holdfast.core.records import Stream
from holdfast.runs.paths import RunPaths
from holdfast.studies.study import Study, StudyRun
from holdfast.train.config import TrainConfig
from holdfast.train.config_flags import flag_text
from holdfast.train.presets import preset

JobKind = Literal["record", "train", "evaluate", "report"]


@dataclass(frozen=True)
class StudyJob:
    """One command. It can start when the jobs named in `needs` are done; killed, it is simply run again.

    `reads` and `writes` are files and folders in the study's folder, for machines that do not see it. `device` is what
    its run asks for.
    """

    name: str
    kind: JobKind
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    device: str = TrainConfig.device


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

    def log(self, job: StudyJob) -> Path:
        """Output of a job."""
        return self.root / "logs" / f"{job.name}.log"

    @property
    def token(self) -> Path:
        """A random text, by which a machine knows that it sees this very folder."""
        return self.root / ".token"

    @property
    def history(self) -> Path:
        """The jobs that have ended."""
        return self.root / "jobs.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the process that carries the study out."""
        return self.root / ".lock"

    @property
    def report(self) -> Path:
        """The page about all runs."""
        return self.root / "report" / "index.html"

    @property
    def metrics(self) -> Path:
        """The numbers on that page."""
        return self.report.with_name("metrics.json")

    @property
    def runs(self) -> Path:
        """The folders of all runs."""
        return self.root / "runs"

    def run(self, run: StudyRun) -> RunPaths:
        """The files of a run."""
        return RunPaths(self.runs / run.name)

    def inside(self, path: Path) -> str:
        """A path relative to the folder."""
        return path.relative_to(self.root).as_posix()

    def data(self, study: Study, seed: int) -> Path:
        """The demonstrations of a seed."""
        own = study.record is not None and study.record.seed is None
        return self.root / "data" / (f"seed-{seed}" if own else "all")


def tasks_of(runs: Iterable[StudyRun]) -> tuple[str, ...]:
    """The tasks of all streams of some runs, each once."""
    return tuple(dict.fromkeys(name for run in runs for name in stream_of(run, "data").names))


def stream_of(run: StudyRun, data: str) -> Stream:
    """The stream that a run learns."""
    return catalog.load_stream(str(run.flags.get("stream", "")), data).only(run.flags.get("tasks", []))


def make_jobs(study: Study, folder: StudyFolder, part: Sequence[StudyRun] | None = None) -> list[StudyJob]:
    """All jobs of a study or of a part of its runs, in an order in which each comes after those it needs."""
    runs = study.runs() if part is None else part
    jobs: list[StudyJob] = []
    if study.record:
        seeds = list(dict.fromkeys(run.seed for run in runs))
        for seed in seeds if study.record.seed is None else seeds[:1]:
            jobs.append(_recording(study, folder, seed, tasks_of(runs)))
    jobs += [_training(study, folder, run) for run in runs]
    if study.evaluate:
        jobs += [_evaluation(study, folder, run) for run in runs]
        command = ("study", "report", str(folder.root))
        jobs.append(StudyJob("report", "report", command, tuple(job.name for job in jobs if job.kind == "evaluate")))
    return jobs


def train_flags(study: Study, folder: StudyFolder, run: StudyRun) -> list[str]:
    """The flags of `holdfast train` for a run."""
    own = {"seed": run.seed, "output": folder.run(run).root, "share": folder.shared}
    if study.record:
        own["data_root"] = folder.data(study, run.seed)
    return [f"--{name}={flag_text(value)}" for name, value in {**run.flags, **own}.items()]


def _recording(study: Study, folder: StudyFolder, seed: int, tasks: Sequence[str]) -> StudyJob:
    assert study.record
    data = folder.data(study, seed)
    command = (
        *(
            "record",
            "--tasks",
            *tasks,
            "--episodes",
            str(study.record.episodes),
            "--size",
            str(study.record.size),
        ),
        *("--seed", str(study.record.seed_for(seed)), "--arena", study.arena, "--output", str(data)),
    )
    return StudyJob(f"record-{data.name}", "record", command, writes=(folder.inside(data),))


def _training(study: Study, folder: StudyFolder, run: StudyRun) -> StudyJob:
    command = ("train", *train_flags(study, folder, run))
    own = (folder.inside(folder.run(run).root), folder.inside(folder.shared))
    if not study.record:
        return StudyJob(f"train-{run.name}", "train", command, reads=own, writes=own, device=_device(run))
    data = folder.data(study, run.seed)
    reads = (folder.inside(data), *own)
    return StudyJob(f"train-{run.name}", "train", command, (f"record-{data.name}",), reads, own, _device(run))


def _evaluation(study: Study, folder: StudyFolder, run: StudyRun) -> StudyJob:
    trials, paths, device = study.evaluate, folder.run(run), _device(run)
    assert trials
    horizon = ("--horizon", str(trials.horizon)) if trials.horizon else ()
    command = (
        *("evaluate", str(paths.root), "--trials", str(trials.trials), "--cells", trials.cells, *horizon),
        *("--first-seed", str(trials.first_seed), "--arena", study.arena, "--videos", str(trials.videos)),
        *(("--device", "cpu") if device == "cpu" else ()),
    )
    reads, writes = (folder.inside(paths.root),), (folder.inside(paths.trials), folder.inside(paths.videos))
    return StudyJob(f"evaluate-{run.name}", "evaluate", command, (f"train-{run.name}",), reads, writes, device)


def _device(run: StudyRun) -> str:
    """The device of a run: its own, or that of its preset."""
    usual = preset(str(run.flags["preset"])) if run.flags.get("preset") else {}
    return str(run.flags.get("device", usual.get("device", TrainConfig.device)))

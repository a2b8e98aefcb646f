"""About how long a study takes and how much disk it needs, by the jobs done in its folder or by a known machine."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from holdfast.runs.run import started_stages
from holdfast.runs.run_log import read_lines
from holdfast.studies.history import EndedJob, read_ended, write_ended
from holdfast.studies.jobs import JobKind, StudyFolder, StudyJob, tasks_of
from holdfast.studies.on_ray import FinishedJob
from holdfast.studies.plan import PlannedRun
from holdfast.studies.study import Study

# Seen on one H200 with 16 cores (docs/results.md): in the twin with four cameras of 96 px, one training at a time.
MACHINE = "one H200 with 16 cores"
SECONDS: dict[str, float] = {"record": 0.25, "evaluate": 0.275}  # a demonstration, a trial
SAMPLE = {"nano-base": 0.0147 / 128, "nano": 0.025 / 128, "pi05_fast": 1 / 28.7}  # seconds of training
WEIGHTS = {"nano-base": 8.0e6, "nano": 36e6, "pi05_fast": 13.1e9}  # bytes
STATE = 4  # a training state: weights, two moments, the moving average
FRAMES = 430  # of a demonstration in the twin
PIXEL = 0.315  # bytes of a frame's four videos, per pixel of one image


class WorkLeft:
    """The jobs of a study that are left to do, and about how long they will still take."""

    def __init__(
        self,
        study: Study,
        plan: Sequence[PlannedRun],
        jobs: Sequence[StudyJob],
        folder: StudyFolder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._study, self._plan, self._folder, self._clock = study, plan, folder, clock
        self._left, self._done = {job.name: job for job in jobs}, list[StudyJob]()
        self._began, self._amounts = clock(), amounts(study, plan, jobs)
        self._seconds = self._estimate()

    def end(self, outcome: FinishedJob) -> None:
        """Note a job that has ended."""
        job = self._left.pop(outcome.job.name)
        self._done += [] if outcome.error else [job]
        runs = {f"train-{one.run.name}": one for one in self._plan}
        amount = samples_taken(self._folder, runs[job.name]) if job.kind == "train" else self._amounts[job.name]
        write_ended(self._folder, EndedJob(job.name, job.kind, outcome.error, outcome.seconds, amount))
        self._seconds = self._estimate()

    def share(self, running: Mapping[str, float]) -> float:
        """The share of all work that is done, from 0 to 1, given that of every running job."""
        seconds = self._seconds
        weights = {name: 1.0 if None in seconds.values() else value or 0.0 for name, value in seconds.items()}
        done = sum(weights[job.name] for job in self._done)
        done += sum(weights[name] * part for name, part in running.items())
        return done / (sum(weights.values()) or 1.0)

    def text(self) -> str:
        """Jobs done, time gone, and time left as far as the jobs done so far tell."""
        elapsed, count = self._clock() - self._began, len(self._done) + len(self._left)
        said = f"{len(self._done)} of {count} jobs done, {elapsed:.0f} s"
        seconds = self._seconds
        done = sum(seconds[job.name] or 0 for job in self._done)
        if not done or None in seconds.values():
            return said
        left = elapsed * sum(seconds[name] or 0 for name in self._left) / done  # as many at a time as so far
        return f"{said}, about {left / 60:.0f} min left"

    def _estimate(self) -> dict[str, float | None]:
        jobs = [*self._done, *self._left.values()]
        return job_seconds(self._study, self._plan, jobs, self._folder)


def amounts(study: Study, plan: Sequence[PlannedRun], jobs: Sequence[StudyJob]) -> dict[str, int]:
    """How much each job has to do: demonstrations, samples of training, trials."""
    found = {f"train-{one.run.name}": one.steps * one.config.batch_size for one in plan}
    found |= {f"evaluate-{one.run.name}": one.trials for one in plan}
    demonstrations = study.record.episodes * len(tasks_of(one.run for one in plan)) if study.record else 0
    return {job.name: found.get(job.name, demonstrations if job.kind == "record" else 0) for job in jobs}


def samples_taken(folder: StudyFolder, planned: PlannedRun) -> int:
    """The samples that a run has trained on itself, not those of stages that it took over from another."""
    taken = {line.get("stage") for line in read_lines(folder.run(planned.run).log) if line.get("event") == "taken_over"}
    return sum(stage.steps for stage in planned.stages if stage.number not in taken) * planned.config.batch_size


def job_seconds(
    study: Study, plan: Sequence[PlannedRun], jobs: Sequence[StudyJob], folder: StudyFolder
) -> dict[str, float | None]:
    """About how long each job takes; None if nobody knows yet."""
    seen, known = rates(folder), {"report": 0.0}
    if study.arena == "twin":
        known |= SECONDS
    policies = {f"train-{one.run.name}": SAMPLE.get(_policy(one)) for one in plan}
    amount = amounts(study, plan, jobs)
    rate = {job.name: seen.get(job.kind, policies.get(job.name, known.get(job.kind))) for job in jobs}
    return {name: None if each is None else each * amount[name] for name, each in rate.items()}


def rates(folder: StudyFolder) -> dict[JobKind, float]:
    """Seconds for a unit of work of each kind, in the jobs that were done here in one go."""
    seconds, work = defaultdict[JobKind, float](float), defaultdict[JobKind, float](float)
    for ended in read_ended(folder.history):
        if not ended.error and ended.amount > 0 and ended.seconds and 0 < ended.seconds < math.inf:
            seconds[ended.kind] += ended.seconds
            work[ended.kind] += ended.amount
    return {kind: seconds[kind] / work[kind] for kind in seconds}


def hours_text(study: Study, plan: Sequence[PlannedRun], jobs: Sequence[StudyJob], folder: StudyFolder) -> str:
    """About how many hours the jobs take one after another, and how that is known."""
    seconds = job_seconds(study, plan, jobs, folder)
    unknown = sorted({job.kind for job in jobs if seconds[job.name] is None})
    if unknown:
        return f"hours: not known before the first job of each kind is done here ({', '.join(unknown)})"
    seen = [kind for kind in ("record", "train", "evaluate") if kind in rates(folder)]
    origin = f"at the rates of the jobs done here ({', '.join(seen)})" if seen else f"on {MACHINE}"
    return f"about {sum(filter(None, seconds.values())) / 3600:.1f} hours, job after job, {origin}"


def disk_text(study: Study, plan: Sequence[PlannedRun], folder: StudyFolder) -> str:
    """About how much disk the demonstrations and the runs take."""
    parts = []
    if study.record and study.arena == "twin":
        recordings = len({one.run.seed for one in plan}) if study.record.seed is None else 1
        frames = FRAMES * study.record.episodes * len(tasks_of(one.run for one in plan)) * recordings
        parts.append(f"{_size(frames * PIXEL * study.record.size**2)} of demonstrations")
    weights = _weights(folder, plan)
    if None not in weights:
        states = [size * (len(one.stages) + STATE) for size, one in zip(weights, plan, strict=True) if size]
        shared = [
            size * STATE * (len(one.stages) - one.shared) for size, one in zip(weights, plan, strict=True) if size
        ]
        parts.append(f"{_size(sum(states))} of checkpoints")
        parts.append(f"{_size(sum(shared))} of shared stages until all runs are trained")
    return f"disk: about {', '.join(parts)}" if parts else "disk: not known before the first stage is trained"


def _weights(folder: StudyFolder, plan: Sequence[PlannedRun]) -> list[float | None]:
    """Bytes of each policy's weights: of a finished stage of any run with this policy, else known ones."""
    trained = [(one.config.policy, size) for one in plan if (size := _trained_weights(folder, one))]
    return [
        next((size for policy, size in trained if policy == one.config.policy), WEIGHTS.get(_policy(one)))
        for one in plan
    ]


def _trained_weights(folder: StudyFolder, planned: PlannedRun) -> float | None:
    for stage in started_stages(folder.run(planned.run)):
        file = stage.checkpoint.policy / "model.safetensors"
        if file.exists():
            return float(file.stat().st_size)
    return None


def _policy(planned: PlannedRun) -> str:
    choice = planned.config.policy
    if choice.options.keys() & {"width", "encoder_layers", "decoder_layers"}:
        return "of another size"
    return choice.path if choice.path and choice.type == "nano" else choice.type


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"

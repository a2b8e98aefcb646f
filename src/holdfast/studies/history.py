"""Jobs that have ended, in jobs.jsonl; and how far each job of a study has come."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.core.progress import last_line
from holdfast.runs.run_log import read_lines
from holdfast.studies.jobs import JobKind, StudyFolder, StudyJob
from holdfast.studies.on_node import is_running

State = Literal["done", "running", "failed", "waiting"]


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended: its error, if it failed, how long it took, and how much it did.

    `amount` counts demonstrations, samples of training or trials; `seconds` is None if the job was stopped on the way.
    """

    job: str
    kind: JobKind
    error: str
    seconds: float | None
    amount: int


def write_ended(folder: StudyFolder, ended: EndedJob) -> None:
    """Append a job to the list."""
    with folder.history.open("a") as file:
        file.write(json.dumps(to_json(ended)) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_ended(file: Path) -> list[EndedJob]:
    """All jobs that have ended, oldest first. Lines that are not whole are left out."""
    found = []
    for line in read_lines(file):
        with suppress(HoldfastError):
            found.append(from_json(EndedJob, line, str(file)))
    return found


def seconds_taken(file: Path) -> dict[str, float]:
    """How long every job took that was done in one go, by its name."""
    done = [ended for ended in read_ended(file) if not ended.error]
    return {ended.job: ended.seconds for ended in done if ended.seconds and 0 < ended.seconds < math.inf}


@dataclass(frozen=True)
class JobState:
    """How far a job has come. The note is the last line of a running or failed job's log."""

    job: StudyJob
    state: State
    note: str = ""


def job_states(jobs: Sequence[StudyJob], folder: StudyFolder, complete: Collection[str]) -> list[JobState]:
    """How far each job has come. `complete` names those whose results are in the folder."""
    last = {ended.job: ended for ended in read_ended(folder.history)}
    states = []
    for job in jobs:
        log, ended = folder.log(job), last.get(job.name)
        if is_running(log):
            states.append(JobState(job, "running", last_line(log)))
        elif ended and ended.error:
            states.append(JobState(job, "failed", ended.error))
        else:
            states.append(JobState(job, "done" if ended and job.name in complete else "waiting"))
    return states

"""A job of a study on the machine that Ray chose for it.

A machine that sees the study's folder works there. Any other one works in a temporary folder, on what was sent, and
sends back what it wrote.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from holdfast.core.processes import killed_with_parent
from holdfast.core.progress import VARIABLE, last_line, progress_file
from holdfast.studies.jobs import StudyFolder, StudyJob
from holdfast.studies.parcels import moved, outputs, unpack


@dataclass(frozen=True)
class Returned:
    """What a job's machine answers. An empty `error` means that the job went well."""

    error: str = ""
    seconds: float | None = None  # of the whole job; unknown if an earlier attempt has done part of it
    unseen: str = ""  # the machine's id, if it does not see the study's folder and needs what the job reads
    parcels: dict[str, bytes] = field(default_factory=dict)  # what the job wrote there, by its path in the folder


@dataclass(frozen=True)
class StudyPlace:
    """The study's folder, a token that only this folder holds, and where the study was started."""

    root: str
    token: str
    start: str

    @property
    def visible(self) -> bool:
        """Whether this machine sees the study's folder."""
        try:
            return StudyFolder(Path(self.root)).token.read_text() == self.token
        except OSError:
            return False


@dataclass(frozen=True)
class Sent:
    """What goes with a job to a machine that does not see the study's folder."""

    paths: tuple[str, ...]  # of the parcels, in the study's folder
    outside: dict[str, str]  # flags' values that name files elsewhere, and where their parcels are


def run_job(job: StudyJob, place: StudyPlace, processes: int, sent: Sent | None = None, *parcels: bytes) -> Returned:
    """Run a job in the study's folder or, where this is not seen, on what was sent."""
    if place.visible:
        return run_command(job, StudyFolder(Path(place.root)), place.start, processes)
    if sent is None:
        return Returned(unseen=_machine())
    with tempfile.TemporaryDirectory(prefix="holdfast-study-") as scratch:
        folder = StudyFolder(Path(scratch))
        for path, parcel in zip(sent.paths, parcels, strict=True):
            unpack(parcel, folder.root / path)
        there = moved(job, place.root, sent.outside, scratch)
        returned = run_command(there, folder, scratch, processes)
        return replace(returned, parcels=outputs(job, folder, sent.paths))


def _machine() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def run_command(job: StudyJob, folder: StudyFolder, start: str, processes: int) -> Returned:
    """Run a job's command with its output in the job's log. If it fails, the log's last line is the error.

    The log is locked by the command and every process it starts. If an earlier attempt has outlived its machine for
    Ray, this one waits until it is gone.
    """
    log = folder.log(job)
    log.parent.mkdir(parents=True, exist_ok=True)
    more = ("--processes", str(processes)) if job.kind in ("record", "evaluate") else ()
    first, began = not log.exists(), time.monotonic()
    with log.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        progress = progress_file(log)
        progress.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *job.command, *more],
            stdout=file,
            stderr=file,
            cwd=start if Path(start).is_dir() else folder.root,
            env={**os.environ, "PYTHONUNBUFFERED": "1", VARIABLE: str(progress.absolute())},
            preexec_fn=partial(killed_with_parent, os.getpid()),
        )
        status = process.wait()
        progress.unlink(missing_ok=True)
    error = "" if status == 0 else last_line(log) or f"exit status {status}"
    return Returned(error, time.monotonic() - began if first else None)


def is_running(log: Path) -> bool:
    """Whether a job's command is running: it holds its log."""
    try:
        with log.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False

"""Carries out jobs on Ray: on this machine, or on a cluster whose machines all see the study's folder.

Every job is a command that continues where it was stopped, so a job whose machine dies is run again elsewhere, and a
study that is killed is started again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.processes import killed_with_parent
from holdfast.studies.jobs import StudyJob

RETRIES = 3  # of a job whose worker or machine died


@dataclass(frozen=True)
class FinishedJob:
    """How a job ended: an empty `error` means well."""

    job: StudyJob
    error: str = ""


@dataclass(frozen=True)
class Resources:
    """What a job takes. Recordings, trials and reports on a CPU take all cores; trainings share GPUs."""

    address: str | None = None
    trainings: int = 1  # at a time, on each GPU or, without one, on each machine


def carry_out(
    jobs: Sequence[StudyJob], logs: Path, resources: Resources
) -> Iterator[tuple[FinishedJob | None, list[StudyJob]]]:
    """Run jobs as soon as what they need is done; yields each outcome, and who is running, at least every second.

    A failed job holds back only those that need it.
    """
    ray = _start(resources.address)
    waiting, done, running = list(jobs), set[str](), dict[Any, StudyJob]()
    remote = ray.remote(max_retries=RETRIES)(run_command)
    while waiting or running:
        for job in [job for job in waiting if done.issuperset(job.needs)]:
            waiting.remove(job)
            handle = remote.options(**_share(ray, job, resources)).remote(job.command, str(logs / f"{job.name}.log"))
            running[handle] = job
        if not running:
            return  # what is left needs a job that failed
        for handle in ray.wait(list(running), num_returns=1, timeout=1.0)[0]:
            outcome = _outcome(ray, handle, running.pop(handle))
            if not outcome.error:
                done.add(outcome.job.name)
            yield outcome, list(running.values())
        yield None, list(running.values())


def run_command(command: tuple[str, ...], log: str) -> str:
    """Run a `holdfast` command with its output in a file; returns its last line if it failed."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with Path(log).open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *command],
            stdout=file,
            stderr=file,
            env=environment,
            preexec_fn=killed_with_parent,
        )
        status = process.wait()
    return "" if status == 0 else f"{last_line(Path(log)) or f'exit status {status}'}"


def last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _outcome(ray: Any, handle: Any, job: StudyJob) -> FinishedJob:
    try:
        return FinishedJob(job, ray.get(handle))
    except ray.exceptions.RayError as error:
        return FinishedJob(job, f"its worker was lost: {str(error).splitlines()[0]}")


def _start(address: str | None) -> Any:
    try:
        import ray
    except ImportError:
        raise HoldfastError("Studies run on Ray. Install it with: pip install 'holdfast[ray]'") from None
    try:
        ray.init(address=address, ignore_reinit_error=True, logging_level="warning", log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise HoldfastError(f"--address {address} has no Ray cluster: {str(error).splitlines()[0]}.") from None
    return ray


def _share(ray: Any, job: StudyJob, resources: Resources) -> dict[str, float]:
    """CPUs and GPUs of a job."""
    total = ray.cluster_resources()
    nodes = max(1, len([node for node in ray.nodes() if node["Alive"]]))
    cores, gpus = int(total.get("CPU", 1)) // nodes, total.get("GPU", 0)
    if job.kind == "train":
        return {"num_cpus": max(1, cores // resources.trainings), "num_gpus": 1 / resources.trainings if gpus else 0}
    return {"num_cpus": max(1, cores), "num_gpus": 1 if gpus and job.kind == "evaluate" else 0}

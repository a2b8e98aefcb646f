"""Carries out jobs on Ray: on this machine, or on a cluster.

Every job is a command that continues where it was stopped, so a job whose machine dies is run again elsewhere, and a
study that is killed is started again.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.studies.jobs import StudyFolder, StudyJob
from holdfast.studies.on_node import Returned, Sent, StudyPlace, run_job
from holdfast.studies.parcels import inputs, outside, pack, unpack

RETRIES = 3  # of a job whose worker or machine died


@dataclass(frozen=True)
class FinishedJob:
    """How a job ended: an empty `error` means well."""

    job: StudyJob
    error: str = ""
    seconds: float | None = None  # unknown if an earlier attempt has done part of it


class Cluster:
    """Machines that carry out jobs: those of a Ray cluster, or this one."""

    def __init__(self, address: str | None, trainings: int) -> None:
        """Join the cluster at `address`; `trainings` run at a time on each GPU or, without one, on each machine."""
        self._ray = _start(address)
        self._trainings = trainings
        self._remote = self._ray.remote(max_retries=RETRIES)(run_job)
        self._data: dict[str, Any] = {}  # parcels of demonstrations, which many jobs read and none changes

    @property
    def has_gpu(self) -> bool:
        """Whether any machine has a GPU."""
        return bool(self._ray.cluster_resources().get("GPU", 0))

    @property
    def _at_a_time(self) -> int:
        """Trainings that the largest machine has room for."""
        gpus = [node["Resources"].get("GPU", 0) for node in self._ray.nodes() if node["Alive"]]
        return self._trainings * max(1, *map(int, gpus))

    def carry_out(self, jobs: Sequence[StudyJob], folder: StudyFolder) -> Iterator[FinishedJob | None]:
        """Run jobs as soon as what they need is done; yields each outcome, or None, at least every second.

        A failed job holds back only those that need it.
        """
        place = _mark(folder)
        waiting, running = list(jobs), dict[Any, StudyJob]()
        done = {need for job in jobs for need in job.needs} - {job.name for job in jobs}
        apart, to_send, sent = set[str](), list[StudyJob](), set[Any]()  # machines that do not see the folder
        while waiting or running or to_send:
            for job in [job for job in waiting if done.issuperset(job.needs)]:
                waiting.remove(job)
                running[self._submit(job, place)] = job
            while to_send and len(sent & running.keys()) < len(apart) * self._at_a_time:
                job = to_send.pop(0)  # not before it can start: a shared stage may still come
                handle = self._send(job, place)
                sent.add(handle)
                running[handle] = job
            if not running:
                return  # what is left needs a job that failed
            for handle in self._ray.wait(list(running), num_returns=1, timeout=1.0)[0]:
                job, returned = running.pop(handle), self._result(handle)
                if returned.unseen:
                    apart.add(returned.unseen)
                    to_send.append(job)
                    continue
                for path, parcel in returned.parcels.items():
                    unpack(parcel, folder.root / path)
                if not returned.error:
                    done.add(job.name)
                yield FinishedJob(job, returned.error, returned.seconds)
            yield None

    def _submit(self, job: StudyJob, place: StudyPlace, sent: Sent | None = None, parcels: Sequence[Any] = ()) -> Any:
        cpus, gpus = self._share(job)
        options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus}
        if job.kind == "report":  # it reads all runs
            here = self._ray.get_runtime_context().get_node_id()
            strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
            options = {"num_cpus": 0, "scheduling_strategy": strategy}
        return self._remote.options(**options).remote(job, place, cpus, sent, *parcels)

    def _send(self, job: StudyJob, place: StudyPlace) -> Any:
        """Submit a job with all that it reads."""
        folder = StudyFolder(Path(place.root))
        elsewhere = outside(job, Path(place.start), folder.root)
        own = list(inputs(job, folder))
        parcels = [self._parcel(path, folder.root / path) for path in own]
        parcels += [self._parcel(path, Path(place.start) / value) for value, path in elsewhere.items()]
        return self._submit(job, place, Sent((*own, *elsewhere.values()), elsewhere), parcels)

    def _parcel(self, path: str, source: Path) -> Any:
        if not path.startswith("data/"):
            return self._ray.put(pack(source))
        if path not in self._data:
            self._data[path] = self._ray.put(pack(source))
        return self._data[path]

    def _result(self, handle: Any) -> Returned:
        try:
            found: Returned = self._ray.get(handle)
        except self._ray.exceptions.RayTaskError as error:
            return Returned(str(error).splitlines()[-1])
        except self._ray.exceptions.RayError as error:
            return Returned(f"its worker was lost: {str(error).splitlines()[0]}")
        return found

    def _share(self, job: StudyJob) -> tuple[int, float]:
        """CPUs and GPUs of a job, such that it fits every machine: a GPU with its part of the cores, or all cores.

        Trials on a CPU take as many cores as a training, or Ray would let cores idle until all are free for them. On a
        GPU, trials beside a training would slow it down more than they gain.
        """
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        uses_gpu = job.kind in ("train", "evaluate") and job.device != "cpu" and self.has_gpu
        if uses_gpu:
            machines = [machine for machine in machines if machine.get("GPU")]
        parts = [machine["CPU"] // (max(1, machine["GPU"]) if uses_gpu else 1) for machine in machines]
        at_once = self._trainings if job.kind == "train" or (job.kind == "evaluate" and not uses_gpu) else 1
        return max(1, int(min(parts, default=1)) // at_once), 1 / at_once if uses_gpu else 0


def _start(address: str | None) -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise HoldfastError("Studies run on Ray. Install it with: pip install 'holdfast[ray]'") from None
    try:
        if address and address.rpartition(":")[0]:
            _knock(address)
        ray.init(address=address or "local", ignore_reinit_error=True, logging_level="error", log_to_driver=False)
    except (OSError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        if address is None:
            raise HoldfastError(f"Ray does not start on this machine: {reason}") from None
        raise HoldfastError(
            f"--address {address} has no Ray cluster ({reason}). Start one with `ray start --head`, or leave --address "
            "out to use this machine."
        ) from None
    if threading.current_thread() is threading.main_thread():  # Ray's own handler prints its stack
        signal.signal(signal.SIGTERM, _stop)
    return ray


def _stop(number: int, frame: FrameType | None) -> None:
    """End as with Ctrl-C."""
    raise KeyboardInterrupt


def _knock(address: str) -> None:
    """Find out at once that nobody is there; Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _mark(folder: StudyFolder) -> StudyPlace:
    """Put a new token into the study's folder."""
    token = secrets.token_hex(16)
    write_text(folder.token, token)
    return StudyPlace(str(folder.root), token, os.getcwd())

"""Where trials run: processes on a CPU, one policy with many environments on a GPU, or a Ray cluster.

On a CPU every process has a policy of its own and a few environments, so no process waits for another. A GPU has the
policies, and environments in processes of their own, which serve all checkpoints of all runs: one that is done with a
checkpoint goes on with the next. All draw orders from an iterator only when they can start on them, so orders that turn
out to be unnecessary are never started. The choice affects only the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import arenas
from holdfast.core.errors import HoldfastError
from holdfast.core.processes import FORKED, worker_pool
from holdfast.core.progress import WatchSteps
from holdfast.core.records import Trial
from holdfast.evaluate.remote_lane import DIED, RemoteLane
from holdfast.evaluate.rollout import LocalLane, TrialOrder, play
from holdfast.policies.config import CPU_ROWS, GPU_ROWS
from holdfast.runs.checkpoint import Checkpoint

if TYPE_CHECKING:
    from holdfast.policies.pilot import Pilot

SHARE = 2 * CPU_ROWS  # trials a process takes at a time: a lane whose trial ends early has another to run
LARGE = 2**30  # bytes of weights above which a GPU has one policy at a time

type Done = tuple[TrialOrder, Trial]
type Workers = Callable[[Iterator[TrialOrder]], Iterator[Done]]

_TICK = 0.5  # seconds
_steps: Any = None  # in a worker process: the control steps of all workers


@dataclass(frozen=True)
class Setup:
    """How and where policies run, the same for every worker."""

    device: str
    horizon: int | None = None
    arena: str = "twin"


def local(setup: Setup, checkpoints: Sequence[Path], processes: int | None, watch: WatchSteps) -> Workers:
    """Run trials on this machine, by default with one process per core, or two per core with a GPU.

    `checkpoints` are one of each run.
    """
    remembers = any(Checkpoint(folder).policy_config.get("n_obs_steps", 1) > 1 for folder in checkpoints)
    cores = os.cpu_count() or 1
    if setup.device == "cpu" or remembers:
        return lambda orders: _pooled(setup, orders, processes or cores, watch)
    # More environments than cores: half of them wait for the GPU at any time.
    return lambda orders: _batched(setup, orders, processes or 2 * cores, watch)


def run_share(setup: Setup, orders: Sequence[TrialOrder]) -> list[Done]:
    """Run orders of one checkpoint in this process, which keeps the policy and open tasks for the next call."""
    pilot = _pilot(setup, orders[0].checkpoint)
    return list(play(lambda checkpoint: pilot, _lanes(setup.arena, pilot.rows), iter(orders), count=_count))


def _count(more: int) -> None:
    if _steps is not None:
        with _steps.get_lock():
            _steps.value += more


def _pooled(setup: Setup, orders: Iterator[TrialOrder], processes: int, watch: WatchSteps) -> Iterator[Done]:
    steps = FORKED.Value("q", 0)
    preload, on_gpu = ["holdfast.policies.pilot"], setup.device != "cpu"
    with worker_pool(processes, preload, _begin_worker, steps, on_gpu=on_gpu) as pool:

        def submit(share: Sequence[TrialOrder]) -> Future[list[Done]]:
            return pool.submit(run_share, setup, share)

        def first(pending: list[Future[list[Done]]]) -> list[Future[list[Done]]]:
            while not (done := wait(pending, _TICK, FIRST_COMPLETED).done):
                watch(steps.value)
            return list(done)

        try:
            yield from _mapped(orders, processes, submit, first, Future.result)
        except BrokenProcessPool:
            raise HoldfastError(DIED) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _batched(setup: Setup, orders: Iterator[TrialOrder], processes: int, watch: WatchSteps) -> Iterator[Done]:
    lanes = [RemoteLane(setup.arena) for _ in range(min(processes, GPU_ROWS))]
    steps = 0

    def count(more: int) -> None:
        nonlocal steps
        steps += more
        watch(steps)

    try:
        for _, its in groupby(orders, lambda order: order.checkpoint if _is_large(order.checkpoint) else None):
            yield from play(partial(_pilot, setup), lanes, its, RemoteLane.ready, count)
    finally:
        for lane in lanes:
            lane.close()


def on_ray(setup: Setup) -> Workers:
    """Run trials on a Ray cluster whose machines all see the run's folder under the same path, else on this machine.

    Their steps are not counted.
    """
    try:
        import ray
    except ImportError:
        raise HoldfastError("--workers=ray needs Ray. Install it with: pip install 'holdfast[ray]'") from None
    ray.init(ignore_reinit_error=True, logging_level="error", log_to_driver=False)
    remote = ray.remote(num_cpus=1, num_gpus=0 if setup.device == "cpu" else 1)(run_share)
    slots = int(ray.cluster_resources().get("CPU" if setup.device == "cpu" else "GPU", 1))

    def first(pending: list[Any]) -> list[Any]:
        return list(ray.wait(pending, num_returns=1)[0])

    return lambda orders: _mapped(orders, slots, partial(remote.remote, setup), first, ray.get)


def _mapped[H](
    orders: Iterator[TrialOrder],
    slots: int,
    submit: Callable[[Sequence[TrialOrder]], H],
    first: Callable[[list[H]], list[H]],
    result: Callable[[H], list[Done]],
) -> Iterator[Done]:
    """Keep every slot busy with one share of the orders, and no more: later ones may turn out to be unnecessary."""
    shares = _shares(orders, slots)
    pending = [submit(share) for share in islice(shares, slots)]
    while pending:
        for done in first(pending):
            pending.remove(done)
            yield from result(done)  # before the next submit, since these may settle a cell
            pending += [submit(share) for share in islice(shares, 1)]


def _shares(orders: Iterator[TrialOrder], slots: int) -> Iterator[list[TrialOrder]]:
    """Shares of one checkpoint each. The last is split among the slots so that they end together; reads one ahead."""
    ahead = next(orders, None)
    while ahead is not None:
        share = [ahead]
        while (ahead := next(orders, None)) is not None and len(share) < SHARE:
            if ahead.checkpoint != share[0].checkpoint:
                break
            share.append(ahead)
        parts = 1 if ahead is not None else min(slots, len(share))
        yield from (share[part::parts] for part in range(parts))


@lru_cache(maxsize=256)
def _is_large(checkpoint: Path) -> bool:
    weights = Checkpoint(checkpoint).policy.glob("*.safetensors")
    return sum(file.stat().st_size for file in weights) > LARGE


@lru_cache(maxsize=1)  # a process of its own runs one stage at a time
def _pilot(setup: Setup, checkpoint: Path) -> Pilot:
    from holdfast.policies.pilot import Pilot

    return Pilot(checkpoint, arenas.load(setup.arena).action, setup.device, setup.horizon)


@lru_cache(maxsize=1)
def _lanes(arena: str, number: int) -> list[LocalLane]:
    return [LocalLane(arena) for _ in range(number)]


def _begin_worker(steps: Any) -> None:
    import torch

    global _steps
    _steps = steps
    torch.set_num_threads(1)  # processes share the cores, and more threads would change the order of sums

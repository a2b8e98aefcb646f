"""Who runs the trials: processes on a CPU, one policy with many environments on a GPU, or a Ray cluster.

All of them draw orders from an iterator only when they can start on them, so whoever makes the orders can change his
mind, and give trials as they end. Which one is used changes nothing but the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby, islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.evaluate.rollout import DIED, GPU_ROWS, LocalLane, Order, RemoteLane, play
from holdfast.records import Trial
from holdfast.twin.demonstrate import end_with_parent

if TYPE_CHECKING:
    from holdfast.policies.pilot import Pilot

type Workers = Callable[[Iterator[Order]], Iterator[Trial]]


@dataclass(frozen=True)
class Setup:
    """How policies run, the same for every worker."""

    device: str
    horizon: int | None
    rows: int


def setup(checkpoint: Path, device: str, horizon: int | None) -> Setup:
    """One row on a CPU and for policies that remember what they saw; else a batch."""
    config = json.loads((checkpoint / "policy" / "config.json").read_text())
    alone = device == "cpu" or config.get("n_obs_steps", 1) > 1
    return Setup(device, horizon, 1 if alone else GPU_ROWS)


def local(setup: Setup, processes: int) -> Workers:
    """This machine: as many policies as processes where a policy answers one look at a time, else one for all."""
    if setup.rows == 1:
        return lambda orders: _pooled(setup, orders, processes)
    return lambda orders: _batched(setup, orders, processes)


def run_one(setup: Setup, order: Order) -> Trial:
    """One trial in this process, which keeps its policy and its compiled cell for the next."""
    return next(play(_pilot(setup, order.checkpoint), [_lane()], iter([order])))


def _pooled(setup: Setup, orders: Iterator[Order], processes: int) -> Iterator[Trial]:
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin_worker) as pool:

        def submit(order: Order) -> Future[Trial]:
            return pool.submit(run_one, setup, order)

        def first(pending: list[Future[Trial]]) -> list[Future[Trial]]:
            return list(wait(pending, return_when=FIRST_COMPLETED).done)

        try:
            yield from _mapped(orders, processes, submit, first, Future.result)
        except BrokenProcessPool:
            raise HoldfastError(DIED) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _batched(setup: Setup, orders: Iterator[Order], processes: int) -> Iterator[Trial]:
    lanes = [RemoteLane() for _ in range(min(processes, setup.rows))]
    try:
        for checkpoint, its in groupby(orders, lambda order: order.checkpoint):
            yield from play(_pilot(setup, checkpoint), lanes, its)
    finally:
        for lane in lanes:
            lane.close()


def on_ray(setup: Setup) -> Workers:
    """A Ray cluster, where every machine sees the run's folder under the same path; without one, this machine."""
    try:
        import ray
    except ImportError:
        raise HoldfastError("--workers=ray needs Ray. Install it with: pip install 'holdfast[ray]'") from None
    ray.init(ignore_reinit_error=True, logging_level="warning", log_to_driver=False)
    remote = ray.remote(num_cpus=1, num_gpus=0 if setup.device == "cpu" else 1)(run_one)
    slots = int(ray.cluster_resources().get("CPU" if setup.device == "cpu" else "GPU", 1))

    def first(pending: list[Any]) -> list[Any]:
        return list(ray.wait(pending, num_returns=1)[0])

    return lambda orders: _mapped(orders, slots, partial(remote.remote, setup), first, ray.get)


def _mapped[H](
    orders: Iterable[Order],
    slots: int,
    submit: Callable[[Order], H],
    first: Callable[[list[H]], list[H]],
    result: Callable[[H], Trial],
) -> Iterator[Trial]:
    """Keep every slot busy and one order waiting for each, so that nobody idles while trials are written down."""
    orders = iter(orders)
    pending = [submit(order) for order in islice(orders, 2 * slots)]
    while pending:
        for done in first(pending):
            pending.remove(done)
            yield result(done)
            pending += [submit(order) for order in islice(orders, 1)]


@lru_cache(maxsize=1)  # a stage at a time
def _pilot(setup: Setup, checkpoint: Path) -> Pilot:
    from holdfast.twin.learned import load

    return load(checkpoint, setup.device, setup.horizon, setup.rows)


@lru_cache(maxsize=1)
def _lane() -> LocalLane:
    return LocalLane()


def _begin_worker() -> None:
    end_with_parent()
    import torch

    torch.set_num_threads(1)  # processes share the cores; and more threads would add up in another order

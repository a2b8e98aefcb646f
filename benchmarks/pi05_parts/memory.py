"""How large a batch fits into how much memory."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch

from holdfast.policies.pi05.modeling_pi05 import Pi05FastPolicy
from holdfast.policies.task_lora import TaskLora
from holdfast.train.config import OptimConfig
from pi05_parts.bench import Bench
from pi05_parts.speed import speed

PROBES = 64, 112  # rows; fewer would not show what a row takes, because updating all weights takes more
SHARES = 0.98, 0.96, 0.94, 0.91, 0.87  # of the memory that a try may take: kernels and fragments need some, too


def memory(bench: Bench, budgets: tuple[int, ...], **options: Any) -> dict[str, Any]:
    """The largest batch that trains within so much memory, every layer computed twice.

    Two batches show what a row takes. Then the largest batch that should fit is tried, and smaller ones if it does not.
    """
    policy, found = bench.policy(recompute="always", **options), {}
    bench.steps = min(bench.steps, 5)  # they are long
    few, many = (peak(bench, policy, 2 if bench.tiny else rows) for rows in PROBES)
    row = (many - few) / (PROBES[1] - PROBES[0])
    print(f"{many - PROBES[1] * row:.2f} GiB, and {row:.3f} a row", flush=True)
    for gib in budgets:
        cap(bench, gib)
        tries = [2] if bench.tiny else [PROBES[1] + int((gib * share - many) / row) for share in SHARES]
        found[f"{gib} GiB"] = first_that_fits(bench, policy, tries) | options
        bench.keep(found)
    return found


def task_loras(bench: Bench, gib: int, tasks: int) -> dict[str, Any]:
    """The first batch that fits, from 40 rows down, where each of so many tasks has a LoRA and the last one learns."""
    cap(bench, gib)
    policy = bench.policy(recompute="always")
    for number in range(tasks):
        policy.add_task_lora(TaskLora(f"Task {number}.", 16, {}), seed=number)
    tries = [2] if bench.tiny else range(40, 20, -2)
    found = {f"{gib} GiB": first_that_fits(bench, policy, tries) | {"tasks": tasks}}
    bench.keep(found)
    return found


def cap(bench: Bench, gib: int) -> None:
    """Let torch take no more than so much memory."""
    if bench.device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, gib * 2**30 / total))


def peak(bench: Bench, policy: Pi05FastPolicy, rows: int) -> float:
    """Most GiB that two steps take; the second has the optimizer's numbers from the first."""
    free(policy)
    step, state = bench.stepper(policy, rows, 1000, OptimConfig())
    batch = bench.batch_of(rows, 200, policy.config)
    for _ in range(2):
        step(state, batch)
    bench.sync()
    return bench.peak()


def first_that_fits(bench: Bench, policy: Pi05FastPolicy, tries: Sequence[int]) -> dict[str, Any]:
    """Figures of the first batch size that trains."""
    for rows in tries:
        free(policy)
        try:
            return speed(bench, policy, rows, 200) | {"too_large": list(tries[: tries.index(rows)])}
        except torch.cuda.OutOfMemoryError:
            print(f"batch {rows} does not fit", flush=True)
    return {"error": f"none of {list(tries)} fits"}


def free(policy: Pi05FastPolicy) -> None:
    """Give back what a try before has left: what failed halfway holds itself in circles, and with it gigabytes."""
    policy.zero_grad(set_to_none=True)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

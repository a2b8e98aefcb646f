"""How large a batch fits into how much memory."""

from __future__ import annotations

import gc
import json
from typing import Any

import torch

from holdfast.policies.pi05.memory import SPARE, costs, held
from holdfast.policies.pi05.modeling_pi05 import Pi05FastPolicy
from pi05_parts.bench import CAMERAS, Bench
from pi05_parts.speed import speed


def memory(bench: Bench, budgets: tuple[int, ...], **options: Any) -> dict[str, Any]:
    """The largest batch that trains within so much memory, every layer computed twice: what the plan foresees, or more.

    Larger ones are tried first, so that nothing but the last try decides.
    """
    policy, found = bench.policy(recompute="always", **options), {}
    language, vision, backward = costs(policy.config, 1, len(CAMERAS), 200)
    row = language[1] * policy.config.depth + vision[1] * policy.config.vision_layers + backward
    for gib in budgets:
        if bench.device == "cuda":
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, gib * 2**30 / total))
        foreseen = 2 if bench.tiny else int((gib * 2**30 * (1 - SPARE) - held(policy.model)) / row)
        tries = sorted({int(foreseen * more) // 2 * 2 for more in (1.3, 1.15, 1.0, 0.85)}, reverse=True)
        found[f"{gib} GiB"] = first_that_fits(bench, policy, tries) | options | {"foreseen": foreseen}
        print(gib, json.dumps(found[f"{gib} GiB"]), flush=True)
    return found


def first_that_fits(bench: Bench, policy: Pi05FastPolicy, tries: list[int]) -> dict[str, Any]:
    """Figures of the first batch size that trains."""
    for rows in tries:
        try:
            return speed(bench, policy, rows, 200)
        except torch.cuda.OutOfMemoryError:
            print(f"batch {rows} does not fit", flush=True)
        policy.zero_grad(set_to_none=True)
        gc.collect()  # what failed halfway holds itself in circles, and with it gigabytes
        torch.cuda.empty_cache()
    return {"error": f"none of {tries} fits"}

"""Speed of training, and where the time goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from holdfast.policies.pi05.modeling_pi05 import Pi05FastPolicy
from holdfast.train.config import OptimConfig
from pi05_parts.bench import CAMERAS, PEAK, Bench, flops

KERNELS = {  # kinds of kernels by parts of their names
    "attention": ("flash", "fmha", "sdpa"),
    "matrices": ("gemm", "nvjet", "cutlass", "xmma", "cublas", "splitk"),
    "compiled": ("triton",),
    "update": ("_update", "multi_tensor", "adam", "lpnorm", "foreach"),
    "copies": ("memcpy", "memset"),
}


def machine(bench: Bench) -> dict[str, Any]:
    """What the device gives a plain product and a plain copy: if it is far below 700 and 4000, somebody shares it."""
    side = 256 if bench.tiny else 8192
    a, b = (torch.randn(side, side, device=bench.device, dtype=torch.bfloat16) for _ in range(2))
    many = torch.empty((2**10 if bench.tiny else 2**33) // 4, device=bench.device)
    product = min(bench.seconds(lambda: a @ b, 20) for _ in range(3))
    copy = min(bench.seconds(lambda: many[: len(many) // 2].copy_(many[len(many) // 2 :]), 5) for _ in range(3))
    return {"plain": {"tflop_s": 2 * side**3 / product / 1e12, "gb_s": many.nbytes / copy / 1e9}}


def speed(
    bench: Bench,
    policy: Pi05FastPolicy,
    rows: int,
    tokens: int,
    show: bool = False,
    padded: bool = False,
) -> dict[str, Any]:
    """Take steps and time them back to back: the host may run ahead, as it does in training."""
    if bench.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    step, state = bench.stepper(policy, rows, 1000, OptimConfig())
    batch = bench.batch_of(rows, tokens, policy.config, padded=padded)
    begun = time.perf_counter()
    for _ in range(3):
        losses, _ = step(state, batch)
    bench.sync()
    warm = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(bench.steps):
        step(state, batch)
    bench.sync()
    second = (time.perf_counter() - begun) / bench.steps
    if show and bench.device == "cuda":
        profile(lambda: step(state, batch))
    return {
        "batch": rows,
        "tokens": tokens,
        "step_ms": second * 1e3,
        "samples_s": rows / second,
        "mfu": flops(policy.config, rows, tokens) / second / PEAK,
        "peak_gib": bench.peak(),
        "warm_s": warm,
        "loss": float(losses[0].total),
        "recomputed": str(policy.model._plans[rows, len(CAMERAS), tokens]),
    }


def profile(call: Callable[[], Any]) -> None:
    """Print where the device's time goes, by kind of kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        call()
        call()
        torch.cuda.synchronize()
    total, kernels = defaultdict(float), []
    for event in profiler.key_averages():
        name, taken = event.key.lower(), event.self_device_time_total / 2e3
        if taken:
            total[next((kind for kind, marks in KERNELS.items() if any(m in name for m in marks)), "other")] += taken
            kernels.append((taken, event.count // 2, event.key[:110]))
    print("ms a step by kind:", {kind: round(value, 1) for kind, value in total.items()})
    for taken, count, name in sorted(kernels, reverse=True)[:28]:
        print(f"  {taken:8.2f} ms {count:5d}x {name}")


def train(bench: Bench) -> dict[str, Any]:
    """Bars: 27 samples/s with 200 tokens, 30 with 64."""
    policy, found = bench.policy(), {}
    for tokens, padded in ((200, False), (64, False), (200, True)):
        case = f"{tokens} tokens" + ", padded" * padded
        found[case] = speed(bench, policy, bench.batch, tokens, show=tokens == 200, padded=padded)
        bench.keep(found)
    return found

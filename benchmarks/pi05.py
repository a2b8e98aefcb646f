"""pi0.5 at full size on one GPU, ours beside LeRobot's: speed, memory, exactness, and whether it learns.

Random weights, synthetic prompts, images in pinned host memory; no network. Training is the engine's own path: Stepper
with fp32 weights under bf16 autocast, clipping, AdamW and the moving average. Every part runs in a process of its own
with its own time limit, so that one that fails spoils no other; the table comes last. `memory` takes ten minutes.

  python benchmarks/pi05.py --parts machine,train,peer,infer,exact --output=pi05.json
  python benchmarks/pi05.py --parts memory,overfit
  python benchmarks/pi05.py --parts attention,update     kernels that were chosen, and others
  python benchmarks/pi05.py --tiny                  a smoke test on a CPU
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pi05_parts.bench import Bench
from pi05_parts.kernels import attention, update
from pi05_parts.learn import overfit
from pi05_parts.memory import memory, task_loras
from pi05_parts.peer import exact, infer, peer
from pi05_parts.speed import machine, train
from rich.console import Console
from rich.table import Table

from holdfast.core.torch_environment import set_up_torch

PARTS: dict[str, tuple[Callable[[Bench], dict[str, Any]], int]] = {
    "machine": (machine, 60),
    "attention": (attention, 60),
    "update": (update, 60),
    "train": (train, 400),
    "peer": (peer, 150),
    "infer": (infer, 150),
    "exact": (exact, 200),
    "memory adapters": (lambda bench: memory(bench, (24, 48), lora_rank=16), 420),
    "memory task adapters": (lambda bench: task_loras(bench, 24, tasks=10), 240),
    "memory all weights": (lambda bench: memory(bench, (80, 139)), 480),
    "overfit": (overfit, 240),
}


def run_apart(part: str, tiny: bool, limit: float) -> dict[str, Any]:
    """Run a part in a process of its own; what it says is passed on, what it returns comes by file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, __file__, "--only", part, "--output", str(out), *(["--tiny"] if tiny else [])]
        begun = time.perf_counter()
        try:
            subprocess.run(command, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            print(f"{part}: stopped after {limit:.0f} s", flush=True)
        print(f"{part}: {time.perf_counter() - begun:.0f} s", flush=True)
        return json.loads(out.read_text()) if out.exists() else {"": {"error": "no result; see above"}}


def show(results: dict[str, dict[str, Any]]) -> None:
    table = Table(
        "part",
        "case",
        "figures",
        title="pi0.5 on " + (torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"),
    )
    for part, cases in results.items():
        for case, figures in cases.items():
            text = ", ".join(
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items() if k != "curve"
            )
            table.add_row(part, case, text)
    ours, theirs = (results.get(part, {}).get("200 tokens", {}).get("samples_s") for part in ("train", "peer"))
    if ours and theirs:
        table.add_row("train", "ours / LeRobot", f"{ours / theirs:.2f}")
    Console(width=180).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", default="machine,train,peer,infer,exact", help=f"of {', '.join(PARTS)}; memory: both kinds"
    )
    parser.add_argument("--output", type=Path, help="also write the figures there, as JSON")
    parser.add_argument("--tiny", action="store_true", help="small sizes on a CPU: does it run at all?")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        bench = Bench(options.tiny, options.output)
        try:
            found = PARTS[options.only][0](bench)
        except Exception as error:
            traceback.print_exc()
            found = {"": {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}}
        bench.keep(found)
        return
    set_up_torch()  # for the parts, as `holdfast train` does
    asked = options.parts.split(",")
    chosen = [part for part in PARTS if part in asked or (part.split()[0] == "memory" and "memory" in asked)]
    results = {}
    for part in chosen:
        results[part] = run_apart(part, options.tiny, PARTS[part][1])
        if options.output:
            options.output.write_text(json.dumps(results, indent=1))
    show(results)


if __name__ == "__main__":
    main()

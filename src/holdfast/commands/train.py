"""`holdfast train`: parse, plan, train."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from holdfast.api.train import settle, train
from holdfast.commands.flags import parse
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.core.records import Stream
from holdfast.data.cache.listing import say_size
from holdfast.train import plan as plans
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.ranks import Ranks

_FIRST_SPEAKS = 10.0  # seconds

EPILOG = """\
examples:
  holdfast train --stream=kitchen.toml                              the paper's recipe with the policy nano
  holdfast train --stream=kitchen.toml --dry-run                    what it would do, how long, how much disk
  holdfast train --stream=single_arm --data_root=data --method=sequential
  holdfast train --stream=kitchen.toml --policy.type=act --policy.chunk_size=20
  holdfast train --stream=mixed.toml --replay.frequency=0.3 --replay.share=group
  holdfast train --stream=kitchen.toml --replay.mix=row             old and new samples in every batch
  holdfast train --stream=kitchen.toml --replay.share=need          more of the tasks that are being forgotten
  holdfast train --stream=kitchen.toml --replay.selection=coverage --replay.alarm=0.1     (docs/memory.md)
  holdfast train --stream=kitchen.toml --method=ewc --method.strength=1000
  holdfast train --stream=kitchen.toml --method=my_methods.py:Mine            your own: docs/tutorials/add_a_method.md
  torchrun --nproc-per-node=4 -m holdfast train --stream=kitchen.toml          on four GPUs (docs/many_gpus.md)

A stream file lists your tasks in order:
  name = "kitchen"
  embodiment = "piper_x_pair"
  [[task]]
  name = "stack_bowls"
  dataset = "data/stack_bowls"
A dataset that was recorded differently from the first needs a mapping below its [[task]]:
  fps = 30                                          from 60 fps: take every 2nd frame
  dimensions = ["waist", "shoulder", ...]           the dataset's names in the embodiment's order
  [task.cameras]                                    every camera of the run
  head = "cam_high"                                 this camera of the dataset
  right_wrist = "black 480x640"                     the dataset has none: black images
Killed? Run the same command again: it continues and ends with the same weights.
"""


def main(argv: list[str]) -> int:
    """Run the command. Of several ranks on one machine, only the first prints errors."""
    ranks = Ranks.from_environment()
    try:
        return run(argv, ranks)
    except HoldfastError:
        if ranks.local == 0:
            raise
        time.sleep(_FIRST_SPEAKS)  # torchrun ends all ranks when one ends, and only the first says why
        return 2


def run(argv: list[str], ranks: Ranks) -> int:
    """Parse, plan, train; only the first of several ranks prints."""
    config = parse(TrainConfig, "train", argv, EPILOG)
    console = Console(quiet=not ranks.first)
    if config.dry_run:
        return dry_run(*settle(config, ranks), console, ranks) if ranks.first else 0
    done = train(config, console=console)
    console.print(f"[green]Finished.[/green] A policy per stage is in {done.path}/stages/*/checkpoint/policy.")
    return 0


def dry_run(config: TrainConfig, stream: Stream, console: Console, ranks: Ranks) -> int:
    """Print the plan, with time and disk measured on the first task whose data is present.

    One rank's share of a step is timed, on this process's device, without communication between ranks.
    """
    plan, measured = plans.make_plan(config, stream, look=True, ranks=ranks.count), None
    present = [position for position, entry in enumerate(stream.tasks) if Path(entry.dataset).is_dir()]
    if present:
        from holdfast.train.estimate import estimate

        parts = (config.optim.accumulate or 1) // plan.ranks
        one_rank = replace(config, batch_size=plan.samples_per_rank, optim=replace(config.optim, accumulate=parts))
        measured = estimate(one_rank, stream, present[0])
    if config.json:
        print(json.dumps({**to_json(plan), "estimate": to_json(measured)}, indent=1))
        return 0
    console.print(plans.table(plan))
    for note in plan.notes:
        console.print(f"note: {note}")
    if measured:
        console.print(
            f"{measured.parameters / 1e6:.1f} M parameters on {measured.device}: "
            f"{measured.seconds_per_step:.3f} s a step, about {measured.hours:.2f} h in all, "
            f"{measured.disk_bytes / 2**20:.0f} MiB of checkpoints. Frame cache in {config.cache.folder}: at most "
            f"{say_size(measured.cache_bytes)} for the datasets that are present."
        )
    return 0

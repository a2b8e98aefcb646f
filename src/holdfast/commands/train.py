"""`holdfast train`: parse, plan, train."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

from holdfast.api.train import settle, train
from holdfast.commands.dry_run import dry_run
from holdfast.commands.flags import parse
from holdfast.core.errors import HoldfastError
from holdfast.methods import METHODS
from holdfast.methods.method import Method
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.ranks import Ranks

_FIRST_SPEAKS = 10.0  # seconds


def _methods(fits: Callable[[type[Method]], bool]) -> str:
    return ", ".join(name for name, kind in METHODS.items() if fits(kind))


EPILOG = f"""\
examples:
  holdfast train --stream=kitchen.toml                              the paper's recipe with the policy nano
  holdfast train --stream=kitchen.toml --preset=cpu                 small enough for two cores; --preset=gpu for one GPU
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

Which method needs what (docs/methods.md):
  no old episodes             {_methods(lambda kind: not kind.replays and kind.arrangement != "together")}
  old episodes                {_methods(lambda kind: kind.replays)}; --replay.ratio says how many
  all data at once            {_methods(lambda kind: kind.arrangement == "together")}
  memory beside the policy    {_methods(lambda kind: kind.needs == "loras")}: a LoRA per task
                              {_methods(lambda kind: kind.keep is not Method.keep)}: copies of the trained weights
  nano or pi05_fast           {_methods(lambda kind: kind.needs != "nothing")}; all others work with any policy

Which is best, by the means of two small studies with three seeds (docs/methods.md):
  no old episodes             adapters, from a pretrained base; ewc, l2, lwf: no better than sequential
  one of each old task        er, derpp, --replay.mix=row or adapters, which are alike
  ten or more of each         er, derpp or --replay.mix=row, which are alike

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
        return dry_run(*settle(config, ranks), argv, console, ranks.count) if ranks.first else 0
    done = train(config, console=console)
    where = escape(f"{done.path}/stages/*/checkpoint/policy")
    console.print(f"[green]Finished.[/green] A policy per stage is in {where}.")
    return 0

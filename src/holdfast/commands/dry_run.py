"""`holdfast train --dry-run`: the plan at once, then time and disk measured on a few steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast.commands.flags import parse
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.core.own_code import is_own
from holdfast.core.progress import working
from holdfast.core.records import Stream
from holdfast.data.cache.listing import say_size
from holdfast.train import plan as plans
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.micro_batches import deal

if TYPE_CHECKING:
    from holdfast.train.estimate import Estimate

LONG = 1.0  # hours from which a smaller training is suggested on a CPU
_OWN_DATA = ("--policy.type=nano", "--policy.image_size=64")  # for robots that nano-base does not know


def dry_run(config: TrainConfig, stream: Stream, argv: list[str], console: Console, ranks: int) -> int:
    """Print the plan, then time a few steps on the first task whose data is present.

    One rank's share of a step is timed, on this process's device, without communication between ranks.
    """
    plan = plans.make_plan(config, stream, look=True, ranks=ranks)
    if not config.json:
        console.print(plans.table(plan))
        for note in plan.notes:
            console.print(f"note: {note}", soft_wrap=True, markup=False)
    present = [position for position, entry in enumerate(stream.tasks) if Path(entry.dataset).is_dir()]
    measured = None
    if present:
        # With --json the output is one object; what is being done goes beside it.
        beside = Console(stderr=True, quiet=console.quiet) if config.json else console
        measured = _measure(config, stream, present[0], ranks, beside, "starting torch and LeRobot to time a few steps")
    if config.json:
        print(json.dumps({**to_json(plan), "estimate": to_json(measured)}, indent=1))
    elif measured:
        console.print(_said(measured, config), soft_wrap=True, markup=False)
        if measured.device == "cpu" and measured.hours > LONG and not any(w.startswith("--preset") for w in argv):
            _suggest(argv, stream, present[0], measured.hours, console)
    return 0


def _measure(config: TrainConfig, stream: Stream, position: int, ranks: int, console: Console, doing: str) -> Estimate:
    with working(doing, console) as say:
        from holdfast.train.estimate import estimate

        parts = (config.optim.accumulate or 1) // ranks
        one_rank = replace(config, batch_size=config.batch_size // ranks, optim=replace(config.optim, accumulate=parts))
        return estimate(one_rank, stream, position, say)


def _suggest(argv: list[str], stream: Stream, position: int, hours: float, console: Console) -> None:
    """Name what would fit a CPU: the same command with the preset, measured as well."""
    for more in (("--preset=cpu",), ("--preset=cpu", *_OWN_DATA)):
        try:
            config = deal(parse(TrainConfig, "train", [*argv, *more], ""), 1)
            smaller = _measure(config, stream, position, 1, console, f"the same with {' '.join(more)}")
        except HoldfastError:  # nano-base has other dimensions
            continue
        if smaller.hours < hours:
            steps = plans.make_plan(config, stream, look=False).total_steps
            console.print(
                f"That is long for a CPU. With {' '.join(more)}: {steps} steps of "
                f"{_seconds(smaller.seconds_per_step)}, about {_time(smaller.hours)} in all.",
                soft_wrap=True,
            )
        return


def _said(measured: Estimate, config: TrainConfig) -> str:
    later = measured.seconds_per_later_step
    slower = "" if later == measured.seconds_per_step else f" ({_seconds(later)} in later stages)"
    if is_own(config.method):
        slower = " (of the first stage; what your method adds to later ones was not timed)"
    return (
        f"{measured.parameters / 1e6:.1f} M parameters on {measured.device}: {_seconds(measured.seconds_per_step)} a "
        f"step{slower}, about {_time(measured.hours)} in all, {measured.disk_bytes / 2**20:.0f} MiB of checkpoints. "
        f"Frame cache in {config.cache.folder}: at most {say_size(measured.cache_bytes)} for the datasets that are "
        "present."
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s"


def _time(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{max(1, round(60 * hours))} min"

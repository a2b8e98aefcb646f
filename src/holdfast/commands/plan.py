"""`holdfast plan RUN`: which cells still need how many trials."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from holdfast.evaluate.trial_budget import TrialBudget

_HELP = """\
Print which cells (a task after a stage) still need how many trials until the 95 % interval of their mean score is at
most W points wide, and how long that takes on the robot.

The interval is the one that `holdfast metrics` and the report give: bootstrap over trials, about 3.92 s / sqrt(n)
points for n trials of standard deviation s. A cell's s is its own, mixed with that of all cells as if 3 trials had
shown it; so a cell without trials is taken to be like the others, and a few equal scores are no certainty. Without any
trial s is taken as 50, the most there can be. At least 5 trials are asked of each cell. Hours count trials of average
length, not the time to set up the scene.
"""
_EXAMPLES = """\
examples:
  holdfast plan runs/single_arm-er
  holdfast plan runs/single_arm-er --width 10
  holdfast plan runs/single_arm-er --json
"""


def main(argv: list[str]) -> int:
    """Run `holdfast plan`."""
    parser = argparse.ArgumentParser(
        prog="holdfast plan",
        description=_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    parser.add_argument("--width", type=float, default=20.0, help="wanted width of the intervals, in points (20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    args = parser.parse_args(argv)

    from holdfast.evaluate.trial_budget import trial_budget
    from holdfast.runs.run import read_run
    from holdfast.runs.trials import Trials

    run = read_run(args.run)
    with Trials(run.trials) as trials:
        plan = trial_budget(run, trials.counted(), args.width)
    if args.json:
        content = {"width": args.width, "more": plan.more, "seconds": plan.seconds, "hours": plan.hours}
        print(json.dumps(content | {"cells": [asdict(need) for need in plan.needs]}))
    else:
        _show(plan, args.width)
    return 0


def _show(plan: TrialBudget, width: float) -> None:
    console = Console(highlight=False)
    table = Table("task", box=SIMPLE_HEAD, show_edge=False)
    for name in ("stage", "trials", "mean", "width", "more"):
        table.add_column(name, justify="right", no_wrap=True)
    for need in plan.needs:
        table.add_row(
            escape(need.task),
            str(need.stage),
            str(need.trials),
            "-" if need.mean is None else f"{need.mean:.1f}",
            "-" if need.width is None else f"{need.width:.1f}",
            f"[bold]{need.more}[/]" if need.more else "enough",
        )
    console.print(table)
    if not plan.more:
        console.print(f"Every cell has enough trials for intervals of {width:g} points.")
        return
    console.print(f"{plan.more} more trials for intervals of {width:g} points.", end=" ")
    if plan.hours is None or plan.seconds is None:
        console.print("No trial was timed yet, so hours cannot be said.")
    else:
        console.print(f"At {plan.seconds:.0f} s each: {plan.hours:.1f} robot hours, without setting up the scene.")

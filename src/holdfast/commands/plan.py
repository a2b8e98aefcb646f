"""`holdfast plan RUN`: how many more trials each cell needs."""

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

from holdfast.core.records import OPERATOR

if TYPE_CHECKING:
    from holdfast.evaluate.trial_budget import TrialBudget

_HELP = """\
Print how many more trials each cell (a task after a stage) needs until the 95 % interval of its mean score is at most W
points wide, and how long that takes on the robot. Trials of different sources, as of the twin and of operators, are
never averaged: --source names the one to plan for.

The interval is that of `holdfast metrics` and the report: bootstrap over trials, about 3.92 s / sqrt(n)
points for n trials of standard deviation s. A cell's s is its own, shrunk towards that of all cells with
the weight of 3 trials; so a cell without trials is assumed to be like the others, and a few equal scores do not count
as certainty. Without any trial s is 50, the largest possible. Every cell needs at least 5 trials. Hours assume trials
of average length and leave out the time to set up the scene.
"""
_EXAMPLES = """\
examples:
  holdfast plan runs/single_arm-er
  holdfast plan runs/single_arm-er --width 10
  holdfast plan runs/single_arm-er --source operator
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
    parser.add_argument("--width", type=float, default=20.0, help="width of the intervals, in points (20)")
    parser.add_argument("--source", help="whose trials: an arena's name, or operator (the only ones that there are)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    args = parser.parse_args(argv)

    from holdfast.evaluate.trial_budget import trial_budget
    from holdfast.runs.run import read_run
    from holdfast.runs.sources import by_source, choose_source
    from holdfast.runs.trials import Trials

    run = read_run(args.run)
    with Trials(run.trials) as trials:
        judged = by_source(trials.counted())
    if args.source == OPERATOR:
        judged.setdefault(OPERATOR, [])  # people plan before their first trial
    source = choose_source(judged, args.source, str(args.run))
    plan = trial_budget(run, judged.get(source, []), args.width)
    if args.json:
        content = {
            "source": source,
            "width": args.width,
            "more": plan.more,
            "seconds": plan.seconds,
            "hours": plan.hours,
        }
        print(json.dumps(content | {"cells": [asdict(need) for need in plan.needs]}))
    else:
        if source:
            print(f"Trials judged by {source}")
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
        console.print("No trial was timed yet, so hours are unknown.")
    else:
        console.print(f"At {plan.seconds:.0f} s each: {plan.hours:.1f} robot hours, without setting up the scene.")

"""Scores of a scripted policy in an arena, printed: what `holdfast twin score` and `holdfast arena score` share."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.core.errors import HoldfastError
from holdfast.core.progress import working

if TYPE_CHECKING:
    from holdfast.arenas.scripted import Tally

_MOST = 100_000  # seeds of one command


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Add the flag for the number of processes."""
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="trials run in parallel (all cores)")


def show_scores(arena: str, task: str, args: argparse.Namespace) -> None:
    """Run and print the trials of a task: one for each of `args.seeds`, by `args.policy`, at `args.level`."""
    from holdfast.arenas.scripted import score

    seeds = read_seeds(args.seeds)
    if args.processes < 1:
        raise HoldfastError(f"--processes must be at least 1, got {args.processes}.")
    with working(f"{len(seeds)} trials"):
        tally = score(arena, task, args.policy, args.level, seeds, args.processes, args.jitter)
    if args.json:
        found = {
            "task": task,
            "level": args.level,
            "seeds": seeds,
            "scores": list(tally.scores),
            "full": tally.full,
            "milestones": tally.milestones,
            "penalties": tally.penalties,
        }
        print(json.dumps(found))
    else:
        _print(task, args, tally)


def read_seeds(text: str) -> list[int]:
    """The seeds of `--seeds`: one, or A to B - 1."""
    first, colon, last = text.partition(":")
    try:
        begin = int(first)
        end = int(last) if colon else begin + 1
    except ValueError:
        raise HoldfastError(f"--seeds must be a number or A:B, like 0:100, got {text[:80]!r}.") from None
    if not 0 <= begin < end:
        raise HoldfastError(f"--seeds A:B means A to B - 1 with 0 <= A < B, got {text[:80]!r}.")
    if end - begin > _MOST:
        raise HoldfastError(f"--seeds must be at most {_MOST:,} seeds, got {text[:80]!r}. Run them in parts.")
    return list(range(begin, end))


def _print(task: str, args: argparse.Namespace, tally: Tally) -> None:
    console = Console(highlight=False)
    trials = len(tally.scores)
    level = f", level {args.level}" if args.level else ""
    console.print(f"[bold]{escape(task)}[/] as {escape(args.policy + level)}, seeds {args.seeds}")
    mean = sum(tally.scores) / trials
    console.print(f"mean score {mean:.1f}, full score in {tally.full} of {trials} trials\n")
    table = Table("", "trials", box=SIMPLE_HEAD, show_edge=False)
    for name, count in tally.milestones.items():
        table.add_row(escape(name), str(count))
    for name, count in tally.penalties.items():
        table.add_row(escape(f"penalty {name}"), str(count))
    if table.row_count:
        console.print(table)

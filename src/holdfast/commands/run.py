"""`holdfast run RECIPE`: record, train, evaluate, report; finished parts are skipped."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from holdfast.core.errors import HoldfastError, unknown
from holdfast.recipes import RECIPES
from holdfast.recipes.recipe import Command, Recipe

_HELP = """\
Run a named experiment: record (if needed), train, evaluate, report. It runs ordinary holdfast commands, printed as they
start; their output goes to OUTPUT/logs. Killed? Run it again: finished parts are skipped, unfinished ones continue.

recipes:
  quickstart      three twin tasks without and with replay, ten minutes on two cores, no GPU
  single_arm      the benchmark's five single-arm tasks in the twin, sequential and er, one GPU
  bimanual        the five two-arm tasks
  heterogeneous   single-arm and two-arm tasks alternating, asymmetric replay
  paper           pi0.5 on real datasets under data/, with the paper's settings; you run the trials
  base            pretrain nano's base on the playground (one GPU, ten minutes)
"""


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast run", description=_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", help="name of the recipe")
    parser.add_argument("--output", type=Path, help="output folder (runs/RECIPE, or runs/RECIPE-SEED)")
    parser.add_argument("--seed", type=int, default=1, help="for demonstrations and training (1; the base has its own)")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and stop")
    args = parser.parse_args(argv)
    console = Console(highlight=False)
    if args.seed < 0:
        raise HoldfastError(f"--seed must not be negative, got {args.seed}.")
    # Every seed is a separate experiment with its own demonstrations.
    output = args.output or Path("runs") / (args.recipe if args.seed == 1 else f"{args.recipe}-{args.seed}")
    if args.recipe == "base":
        return _base(output, args.dry_run, console)
    if args.recipe not in RECIPES:
        raise unknown("recipe", args.recipe, (*RECIPES, "base"))
    recipe = RECIPES[args.recipe](output, args.seed)
    parts = recipe.parts(os.cpu_count() or 1)
    if args.dry_run:
        for part in parts:
            for command in part:
                print(_shown(command))
        return 0
    started = time.monotonic()
    for part in parts:
        carry_out(part, output / "logs", console)
    finish(recipe, time.monotonic() - started, console)
    return 0


@dataclass
class Job:
    """A running command and its log file."""

    command: Command
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def state(self) -> str:
        """The last line of the log."""
        lines = self.log.read_text(errors="replace").replace("\r", "\n").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "starting")


def carry_out(part: list[Command], logs: Path, console: Console) -> None:
    """Run the commands of one part in parallel; the first failure stops the others and is shown."""
    logs.mkdir(parents=True, exist_ok=True)
    for command in part:
        console.print(Text(_shown(command), "bold"), soft_wrap=True)
    with _started(part, logs) as jobs, Live(console=console, refresh_per_second=2, transient=True) as live:
        began = time.monotonic()
        while any(job.process.poll() is None for job in jobs):
            time.sleep(0.2)
            clock = Text(f"{time.monotonic() - began:.0f} s")
            live.update(Group(clock, *(Text(f"  {job.command[0]}: {job.state}", overflow="ellipsis") for job in jobs)))
            for job in jobs:
                if job.process.poll():
                    raise HoldfastError(_failure(job))
    console.print(f"  {time.monotonic() - began:.0f} s")


@contextmanager
def _started(part: list[Command], logs: Path) -> Iterator[list[Job]]:
    jobs = []
    # Share the cores: on shared cores two torch threads can be slower than one.
    threads = str(max(1, (os.cpu_count() or 1) // (2 * len(part))))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1"}
    try:
        for number, command in enumerate(part, 1):
            log = logs / f"{command[0]}-{number}.log"
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "holdfast", *command], stdout=file, stderr=file, env=environment
                )
            jobs.append(Job(command, log, process))
        yield jobs
    finally:
        for job in jobs:
            job.process.terminate()
        for job in jobs:
            job.process.wait()


def _failure(job: Job) -> str:
    said = job.state.removeprefix("holdfast: ")
    return f"`{_shown(job.command)}` failed: {said} Its output is in {job.log}."


def finish(recipe: Recipe, seconds: float, console: Console) -> None:
    """Print the matrices of all runs and where the report is."""
    if recipe.evaluate:
        from holdfast.commands.evaluate import show
        from holdfast.evaluate.engine import matrix
        from holdfast.runs.paths import RunPaths
        from holdfast.runs.run import read_run
        from holdfast.runs.trials import Trials

        for folder in recipe.runs:
            run = read_run(folder)
            console.rule(run.method, align="left")
            with Trials(run.trials) as trials:
                show(run, matrix(run, trials, None), console)
        console.print(f"Report: {RunPaths(recipe.runs[0]).report}", soft_wrap=True)
    console.print(f"{recipe.name} took {seconds / 60:.1f} minutes. Runs: {', '.join(map(str, recipe.runs))}")


def _base(output: Path, dry_run: bool, console: Console) -> int:
    from holdfast.arenas.twin import make_base

    made = make_base(output, console, dry_run)
    if not dry_run:
        console.print(f"The base is in {made}")
    return 0


def _shown(command: Command) -> str:
    return "holdfast " + shlex.join(command)

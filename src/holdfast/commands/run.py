"""`holdfast run RECIPE`: record, train, evaluate, report; finished parts are skipped."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from holdfast.arenas import ARENAS
from holdfast.arenas.arena_file import set_up_arenas
from holdfast.commands.overall_progress import OverallProgress
from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.progress import VARIABLE, last_line, progress_file, read_progress
from holdfast.recipes import RECIPES, SEEDS
from holdfast.recipes.gpus import REFERENCE, Gpus, found, refusal, table, with_gpus
from holdfast.recipes.recipe import Chain, CommandLine, Recipe

_HELP = """\
Run a named experiment: record (if needed), train, evaluate, report. It runs ordinary holdfast commands, printed as they
start; their output goes to OUTPUT/logs. Killed? Run it again: finished parts are skipped, unfinished ones continue.

recipes:
  quickstart      three twin tasks without and with replay, eight minutes on two cores, no GPU
  metaworld-mini  the same in MetaWorld, which is set up first if it is not there
  single_arm      the benchmark's five single-arm tasks in the twin, sequential and er, one GPU
  bimanual        the five two-arm tasks
  heterogeneous   single-arm and two-arm tasks alternating, asymmetric replay
  paper           pi0.5 on real datasets under data/: the paper's whole study; you run the trials
  base            pretrain nano's base on the playground (one GPU, ten minutes)

parts of paper, of which --parts takes some; trainings that several parts need run once:
  single_arm bimanual    finetune, joint, sequential and er
  heterogeneous          er with the uniform and the asymmetric schedule, and finetune
  normalization          er with strategies I, II and III on both streams of one kind
  ratio frequency        er with other rho, and with other f_r, on single_arm
Each training fills a GPU, so they run one after another, on several GPUs through torchrun. docs/paper.md lists where
Holdfast differs from the paper.
"""
_EXAMPLES = """\
examples:
  holdfast run quickstart
  holdfast run paper --dry-run                              all trainings, with the memory that a GPU needs
  holdfast run paper --gpus 8 --gpu-memory 80 --dry-run     the same for a machine that is elsewhere
  holdfast run paper --parts single_arm ratio --accumulate 4
"""


def main(argv: list[str]) -> int:
    """Run the command."""
    args = _parser().parse_args(argv)
    console = Console(highlight=False)
    if args.recipe not in (*RECIPES, "base"):
        raise unknown("recipe", args.recipe, (*RECIPES, "base"))
    usual = SEEDS.get(args.recipe, 1)
    seed = usual if args.seed is None else args.seed
    if seed < 0:
        raise HoldfastError(f"--seed must not be negative, got {seed}.")
    # Every seed is a separate experiment with its own demonstrations.
    output = args.output or Path("runs") / (args.recipe if seed == usual else f"{args.recipe}-{seed}")
    if args.recipe == "base":
        return _base(output, args.dry_run, console)
    recipe = RECIPES[args.recipe](output, seed)
    recipe = recipe.only(args.parts) if args.parts else recipe
    recipe, ranks = _on_gpus(recipe, args, console)
    phases = [*_setting_up(recipe.arena), *recipe.phases(os.cpu_count() or 1)]
    if args.dry_run:
        for command in (command for phase in phases for chain in phase for command in chain):
            print(_shown(command, ranks))
        return 0
    started = time.monotonic()
    overall = OverallProgress([command for phase in phases for chain in phase for command in chain])
    for phase in phases:
        carry_out(phase, output / "logs", console, overall, ranks)
    for folder in recipe.shared:
        shutil.rmtree(folder, ignore_errors=True)
    finish(recipe, time.monotonic() - started, console)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="holdfast run",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument("recipe", help="name of the recipe")
    parser.add_argument("--output", type=Path, help="output folder (runs/RECIPE, or runs/RECIPE-SEED)")
    parser.add_argument("--seed", type=int, help="for demonstrations and training (1, paper 42; the base has its own)")
    parser.add_argument("--parts", nargs="+", metavar="PART", help="only these parts of the recipe (all)")
    gpus = parser.add_argument_group("recipes whose trainings fill a GPU")
    gpus.add_argument("--gpus", type=int, metavar="N", help="GPUs that a training takes (all that are here)")
    gpus.add_argument("--gpu-memory", type=float, metavar="GIB", help="memory of each (that of those that are here)")
    gpus.add_argument(
        "--accumulate", type=int, metavar="N", help="micro-batches per batch, against memory (one per GPU)"
    )
    gpus.add_argument("--parallel", choices=("ddp", "fsdp"), help="fsdp: each GPU holds a part of the policy (ddp)")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and the commands, and stop")
    return parser


def _setting_up(arena: str) -> list[list[Chain]]:
    """What makes an arena that is not there yet."""
    return [] if arena in (*ARENAS, *set_up_arenas()) else [[(("arena", "setup", arena),)]]


def _on_gpus(recipe: Recipe, args: argparse.Namespace, console: Console) -> tuple[Recipe, int]:
    """The recipe as trained on the GPUs that are here or were named, and how many; refuses what does not fit."""
    given = [name for name in ("gpus", "gpu_memory", "accumulate", "parallel") if getattr(args, name) is not None]
    if not recipe.fills_gpu:
        if given:
            flag = given[0].replace("_", "-")
            raise HoldfastError(f"--{flag} is for recipes whose trainings fill a GPU; those of {recipe.name!r} do not.")
        return recipe, 1
    recipe = with_gpus(recipe, args.parallel or "ddp", args.accumulate)
    known = args.dry_run and args.gpus is not None and args.gpu_memory is not None
    here = None if known else found()
    if here is None and not args.dry_run:
        raise HoldfastError(f"Recipe {recipe.name!r} needs a GPU, and torch sees none. Add --dry-run to plan it.")
    if here is None and not given:
        console.print(table(recipe, REFERENCE))
        for gpus in REFERENCE:
            console.print(refusal(recipe, gpus) or f"All of it fits {gpus}.", soft_wrap=True)
        return recipe, 1
    gpus = Gpus.chosen(args.gpus, args.gpu_memory, here)
    if here and not args.dry_run and gpus.count > here.count:
        raise HoldfastError(f"--gpus {gpus.count}: torch sees {here.count}.")
    console.print(table(recipe, (gpus,)))
    problem = refusal(recipe, gpus)
    if problem:
        raise HoldfastError(problem)
    return recipe, gpus.count


@dataclass
class RunningChain:
    """A chain of commands, of which the first is running, and the log of that one."""

    chain: Chain
    ranks: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def command(self) -> CommandLine:
        """The command that is running."""
        return self.chain[0]


def carry_out(phase: list[Chain], logs: Path, console: Console, overall: OverallProgress, ranks: int = 1) -> None:
    """Run the chains of one phase in parallel; the first failure stops the others and is shown.

    Trainings run on `ranks` GPUs each.
    """
    logs.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    trainings = max(1, sum(chain[0][0] == "train" for chain in phase))
    start = partial(_start, trainings=trainings, logs=logs, console=console, ranks=ranks)

    def over(number: int) -> bool:
        """Whether a chain is done; starts its next command when one is."""
        job = jobs[number]
        code = job.process.poll()
        if code:
            raise HoldfastError(_failure(job))
        if code == 0:
            overall.end(job.command)
        if code == 0 and len(job.chain) > 1:
            jobs[number] = start(job.chain[1:], number)
            return False
        return code == 0

    with _started(phase, start) as jobs, Live(console=console, refresh_per_second=2, transient=True) as live:
        while running := [jobs[number] for number in range(len(jobs)) if not over(number)]:
            time.sleep(0.2)
            found = [(job.command, read_progress(job.log)) for job in running]
            lines = [Text(f"  {command[0]}: {now.text}", overflow="ellipsis", no_wrap=True) for command, now in found]
            live.update(Group(overall.update((command, now.share) for command, now in found), *lines))
    console.print(f"  {time.monotonic() - began:.0f} s")


@contextmanager
def _started(phase: list[Chain], start: Callable[[Chain, int], RunningChain]) -> Iterator[list[RunningChain]]:
    jobs: list[RunningChain] = []
    try:
        for number, chain in enumerate(phase):
            jobs.append(start(chain, number))
        yield jobs
    finally:
        for job in jobs:
            job.process.terminate()
        for job in jobs:
            job.process.wait()
        for file in [file for job in jobs for file in job.log.parent.glob(progress_file(Path("*")).name)]:
            file.unlink(missing_ok=True)


def _start(chain: Chain, number: int, trainings: int, logs: Path, console: Console, ranks: int) -> RunningChain:
    """Start the first command of a chain."""
    command = chain[0]
    console.print(Text(_shown(command, ranks), "bold"), soft_wrap=True)
    # Share the cores: on shared cores two torch threads can be slower than one.
    threads = str(max(1, (os.cpu_count() or 1) // (2 * trainings * ranks)))
    log = logs / f"{command[0]}-{_run_name(command) or number + 1}.log"
    progress = progress_file(log).absolute()
    progress.unlink(missing_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1", VARIABLE: str(progress)}
    launched = (*_torchrun(command, ranks), "-m", "holdfast", *command)
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, *launched], stdout=file, stderr=file, env=environment)
    return RunningChain(chain, ranks, log, process)


def _failure(job: RunningChain) -> str:
    said = (last_line(job.log) or f"exit status {job.process.returncode}.").removeprefix("holdfast: ")
    return f"`{_shown(job.command, job.ranks)}` failed: {said} Its output is in {job.log}."


def finish(recipe: Recipe, seconds: float, console: Console) -> None:
    """Print the matrices of all runs and where the report is."""
    if recipe.evaluate:
        from holdfast.commands.metrics import print_metrics
        from holdfast.evaluate.engine import matrix
        from holdfast.runs.paths import RunPaths
        from holdfast.runs.run import read_run
        from holdfast.runs.trials import Trials

        for folder in recipe.runs:
            run = read_run(folder)
            console.rule(run.method, align="left")
            with Trials(run.trials) as trials:
                scores = matrix(run, trials.counted(), recipe.arena)
            print_metrics(scores, run.arrangement == "stream")
        console.print(f"Report: {RunPaths(recipe.runs[0]).report}", soft_wrap=True, markup=False)
    console.print(
        f"{recipe.name} took {seconds / 60:.1f} minutes. Runs: {', '.join(map(str, recipe.runs))}", markup=False
    )


def _base(output: Path, dry_run: bool, console: Console) -> int:
    from holdfast.arenas.twin import make_base

    made = make_base(output, console, dry_run)
    if not dry_run:
        console.print(f"The base is in {made}", markup=False)
    return 0


def _run_name(command: CommandLine) -> str:
    """The name of the run that a command trains or evaluates, or nothing."""
    outputs = [flag.partition("=")[2] for flag in command if flag.startswith("--output=")]
    runs = [] if command[0] != "evaluate" else list(takewhile(lambda word: not word.startswith("--"), command[1:]))
    return "-".join(Path(folder).name for folder in (*outputs, *runs))


def _torchrun(command: CommandLine, ranks: int) -> CommandLine:
    """What starts a training on several GPUs: torchrun, on a port that is free."""
    if command[0] != "train" or ranks == 1:
        return ()
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")


def _shown(command: CommandLine, ranks: int = 1) -> str:
    started = _torchrun(command, ranks)
    return shlex.join(("torchrun", *started[2:], "-m", "holdfast", *command) if started else ("holdfast", *command))

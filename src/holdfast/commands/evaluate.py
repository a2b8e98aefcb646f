"""`holdfast evaluate RUN ...`: run trials of every task after every stage, and print the matrix of scores."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from holdfast.commands.flags import ARENA
from holdfast.commands.metrics import print_metrics
from holdfast.commands.parser import Parser
from holdfast.core.device_name import check_device
from holdfast.core.errors import HoldfastError
from holdfast.core.gpu_driver import has_gpu_driver
from holdfast.core.progress import progress_bar

if TYPE_CHECKING:
    from holdfast.evaluate.engine import Choice, Evaluation
    from holdfast.runs.run import Run

_HELP = """\
Run trials of every task that a run has seen, after every stage, in an arena, usually the twin: N trials per cell, the
same layouts for every checkpoint. Each trial is written to RUN/trials.sqlite as it ends; at the end the matrix of
scores and AS, BWT and FWT are printed. Killed? Run the same command again: finished trials are kept, and the rest gives
the same trials as without the interruption. A later --trials 50 adds 30 to the 20 that are there. The method joint has
one stage; with finetune each stage is tried on its own task only. Tasks that the arena does not have are left out.
Several runs share the processes, so that none waits. Give --arena several times for runs of several simulators. A trial
in which a simulator fails is stored as not valid, with the reason, and does not count.

With --width W a cell stops early, after at least 5 trials, once Wilson's 95 % interval of its mean is narrower than W
points. Layouts are still taken in order, whatever the number of processes.

With --heldout FOLDER every checkpoint is also scored by how well it predicts the demonstrations FOLDER/<task>, which it
must not have been trained on: a cheap signal of forgetting without trials, in RUN/heldout.json.
"""
_EXAMPLES = """\
examples:
  holdfast evaluate runs/single_arm-er
  holdfast evaluate runs/single_arm-sequential runs/single_arm-er --trials 50
  holdfast evaluate runs/single_arm-er --trials 50 --width 20 --videos 1
  holdfast evaluate runs/single_arm-er --stages 5 --tasks stack_bowls hang_cup --unseen
  holdfast evaluate runs/single_arm-er --baseline runs/single_arm-finetune
  holdfast evaluate runs/single_arm-er --heldout heldout --trials 0
  holdfast evaluate runs/cw10-er runs/pusht --arena metaworld --arena pusht
"""


def main(argv: list[str]) -> int:
    """Run `holdfast evaluate`."""
    args = _parser().parse_args(argv)
    from holdfast.arenas import load
    from holdfast.evaluate.engine import Choice, Evaluation, matrix, plan, share_out
    from holdfast.runs.run import read_run
    from holdfast.runs.sources import by_source
    from holdfast.runs.trials import Trials

    console = Console(highlight=False)
    runs = [read_run(folder) for folder in args.runs]
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise HoldfastError(f"A run is given twice: {', '.join(map(str, args.runs))}. Name each once.")
    baseline = read_run(args.baseline) if args.baseline else None
    own = ("runs", "baseline", "heldout", "device", "arena")
    common = {name: value for name, value in vars(args).items() if name not in own}
    named = list(dict.fromkeys(args.arena or ["twin"]))
    choices = {name: Choice(**common, arena=name, device=_device(args.device)) for name in named}
    for run in runs:
        if len(run.stages) < run.planned:
            console.print(f"{run.path}: {len(run.stages)} of {run.planned} stages are finished.", soft_wrap=True)
        if args.heldout:
            _heldout(run, args.heldout, choices[named[0]], console)
    with ExitStack() as files:
        trials = [files.enter_context(Trials(run.trials)) for run in runs]
        parts: dict[str, list[Evaluation]] = {name: [] for name in named}
        for run, file in zip(runs, trials, strict=True):
            shares = share_out(run, list(choices.values())) if args.trials else []
            tried = [task for share in shares for task in share.tasks]
            if not args.tasks and (missing := [name for name in run.names if shares and name not in tried]):
                where = " or ".join(map(repr, named))
                console.print(f"Left out: {', '.join(missing)}. The arena {where} does not have them.")
            for share in shares:
                parts[share.arena].append(Evaluation(run, plan(run, share, file), file))
        _measure([(choices[name], part) for name, part in parts.items()], console)
        judged = [file.counted() for file in trials]
    here = [load(name).name for name in named]
    for run, counted in zip(runs, judged, strict=True):
        if len(runs) > 1:
            console.rule(str(run.path), align="left")
        sources = by_source(counted)
        for arena in [name for name in here if name in sources] or here[:1]:
            if len(here) > 1:
                console.print(f"In the arena {arena!r}:", markup=False)
            print_metrics(matrix(run, counted, arena, baseline), run.arrangement == "stream")
        for source, others in sources.items():
            if source not in here:
                said = f"Not counted here: {len(others)} trials of {source}. `holdfast metrics {run.path}` shows them."
                console.print(escape(said), soft_wrap=True)
    return 0


def _measure(parts: list[tuple[Choice, list[Evaluation]]], console: Console) -> None:
    """Run the trials of each arena, and print every cell that is done and every trial that is not valid."""
    from holdfast.evaluate.engine import measure

    evaluations = [of for _, part in parts for of in part]
    for of in evaluations:
        left = sum(cell.remaining for cell in of.cells)
        if of.cells:
            console.print(f"{len(of.cells)} cells, {left} trials to run, into {of.run.trials}", soft_wrap=True)
    cells = [cell for of in evaluations for cell in of.cells]
    if not cells:
        return
    with progress_bar(console, part=(0.0, 1.0)) as progress:
        bar = progress.add_task("trials", total=sum(cell.remaining for cell in cells), note="starting")

        def watch(steps: int) -> None:
            progress.update(bar, note=f"{steps:,} steps" if steps else "loading the policy")

        written = chain.from_iterable(measure(part, choice, watch) for choice, part in parts)
        for done, (of, cell, trial) in enumerate(written, 1):
            said = f"{cell.task} after stage {cell.stage.number}"
            said = f"{of.run.path.name}: {said}" if len(evaluations) > 1 else said
            if not trial.valid:
                progress.console.print(f"{said}, seed {trial.seed}: not valid. {trial.notes}", markup=False)
            mean = f"{sum(cell.scores) / len(cell.scores):.1f}" if cell.scores else "no score"
            said = f"{said}: {mean} over {len(cell.scores)} trials"
            progress.update(bar, completed=done, total=done + sum(c.remaining for c in cells))
            if cell.settled:
                progress.console.print(said)


def _heldout(run: Run, folder: Path, choice: Choice, console: Console) -> None:
    from holdfast.evaluate.heldout import write_heldout

    with progress_bar(console) as progress:
        bar = progress.add_task("held-out episodes", total=None, note="")
        for done, total, note in write_heldout(run, folder, choice.unseen, choice.device):
            progress.update(bar, completed=done, total=total, note=note)
    console.print(f"wrote {run.paths.heldout}", soft_wrap=True)


def _device(asked: str) -> str:
    check_device(asked)
    if asked == "cpu" or (asked == "auto" and not has_gpu_driver()):  # do not import torch, which takes seconds
        return "cpu"
    from holdfast.policies.device import choose_device

    return choose_device(asked)


def _parser() -> Parser:
    parser = Parser(
        prog="holdfast evaluate",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("runs", type=Path, nargs="+", metavar="RUN", help="folder that `holdfast train` wrote")
    add("--trials", type=int, default=20, help="trials per cell (20); 0 runs none")
    add("--first-seed", type=int, default=0, help="seed of the first layout; later ones count up (0)")
    add("--arena", action="append", help=f"{ARENA}; of several, each task is tried in the first that has it")
    add("--level", help="spread of the objects: nominal, easy, standard, wide in the twin (standard)")
    add("--horizon", type=int, help="steps of a predicted chunk to execute (as saved with the policy)")
    add("--width", type=float, help="stop a cell once its 95 %% interval is narrower than this many points")
    add("--videos", type=int, default=0, help="number of trials of each cell to film (0)")
    add("--stages", type=int, nargs="+", default=(), help="only these stages")
    add("--tasks", nargs="+", default=(), help="only these tasks")
    add("--cells", default="all", help="all, or needed: each task after its own and after the last stage (all)")
    add("--unseen", action="store_true", help="also try tasks that a stage has not learned yet")
    add("--baseline", type=Path, metavar="RUN", help="an evaluated run of method finetune, for FWT")
    add(
        "--heldout",
        type=Path,
        metavar="FOLDER",
        help="also score unseen demonstrations FOLDER/<task>",
    )
    add("--device", default="auto", help="device of the policies: auto, cpu, cuda (auto)")
    add("--processes", type=int, help="environments run in parallel (all cores)")
    add("--workers", default="processes", help="processes, or ray: trials on a Ray cluster (processes)")
    return parser

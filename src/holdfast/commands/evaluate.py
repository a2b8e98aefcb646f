"""`holdfast evaluate RUN ...`: run trials of every task after every stage, and print the matrix of scores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast.commands.metrics import print_metrics
from holdfast.core.records import Matrix
from holdfast.metrics import summarize

if TYPE_CHECKING:
    from holdfast.runs.run import Run

_HELP = """\
Run trials of every task that a run has seen, after every stage, in an arena, usually the twin: N trials per cell, the
same layouts for every checkpoint. Each trial is written to RUN/trials.sqlite as it ends; at the end the matrix of
scores and AS, BWT and FWT are printed. Killed? Run the same command again: finished trials are kept, and the rest gives
the same trials as without the interruption. A later --trials 50 adds 30 to the 20 that are there. The method joint has
one stage; with finetune each stage is tried on its own task only. Tasks that the arena does not have are left out.
Several runs share the processes, so that none waits.

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
"""


def main(argv: list[str]) -> int:
    """Run `holdfast evaluate`."""
    args = _parser().parse_args(argv)
    from holdfast.api.evaluate import evaluate
    from holdfast.evaluate.engine import matrix
    from holdfast.runs.run import read_run
    from holdfast.runs.trials import Trials

    console = Console(highlight=False)
    baseline = read_run(args.baseline) if args.baseline else None
    evaluate(*args.runs, **{k: v for k, v in vars(args).items() if k not in ("runs", "baseline")}, console=console)
    runs, found = [read_run(folder) for folder in args.runs], []
    for run in runs:
        with Trials(run.trials) as trials:
            found.append(matrix(run, trials, baseline))
    for run, scores in zip(runs, found, strict=True):
        if len(runs) > 1:
            console.rule(str(run.path), align="left")
        show(run, scores, console)
    return 0


def show(run: Run, matrix: Matrix, console: Console) -> None:
    """Print the matrix and metrics of a run's trials."""
    if run.arrangement == "stream":
        print_metrics(matrix)
        return
    last = len(run.tasks)
    scores = matrix.baseline or {i: cell for (i, _), cell in matrix.cells.items()}
    for i, task in enumerate(run.names, 1):
        if i in scores:
            console.print(f"{task:>16} {sum(scores[i]) / len(scores[i]):6.1f}  of {len(scores[i])} trials")
    average = summarize(Matrix(run.names, {(i, last): cell for i, cell in scores.items()}))[-1].average_score
    if average.value is not None:
        interval = "" if average.low is None else f" [{average.low:.1f}, {average.high:.1f}]"
        console.print(f"{'mean':>16} {average.value:6.1f}{interval}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast evaluate",
        description=_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", type=Path, nargs="+", metavar="RUN", help="folder that `holdfast train` wrote")
    add("--trials", type=int, default=20, help="trials per cell (20); 0 runs none")
    add("--first-seed", type=int, default=0, help="seed of the first layout; later ones count up (0)")
    add("--arena", default="twin", help="arena: twin, or your own package.module:Class (twin)")
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

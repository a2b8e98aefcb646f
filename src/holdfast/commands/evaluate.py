"""`holdfast evaluate RUN ...`: run trials of every task after every stage, and print the matrix of scores."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from holdfast.commands.flags import ARENA
from holdfast.commands.metrics import print_metrics
from holdfast.commands.parser import Parser
from holdfast.core.progress import working

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
    with working("starting"):
        from holdfast.api.evaluate import evaluate
        from holdfast.arenas import load
        from holdfast.evaluate.engine import matrix
        from holdfast.runs.run import read_baseline, read_run
        from holdfast.runs.sources import by_source
        from holdfast.runs.trials import Trials

    console = Console(highlight=False)
    baseline = read_baseline(args.baseline) if args.baseline else None
    args.arena = args.arena or ["twin"]
    evaluate(*args.runs, **{k: v for k, v in vars(args).items() if k not in ("runs", "baseline")}, console=console)
    runs, here = [read_run(folder) for folder in args.runs], [load(name).name for name in dict.fromkeys(args.arena)]
    for run in runs:
        with Trials(run.trials) as file:
            counted = file.counted()
        if len(runs) > 1:
            console.rule(escape(str(run.path)), align="left")
        sources = by_source(counted)
        for arena in [name for name in here if name in sources] or here[:1]:
            if len(here) > 1:
                console.print(f"In the arena {arena!r}:", markup=False)
            print_metrics(matrix(run, counted, arena, baseline), run.arrangement == "stream")
        for source, others in sources.items():
            if source not in here:
                count = f"{len(others)} trial{'s' if len(others) > 1 else ''}"
                said = f"Not counted here: {count} of {source}. `holdfast metrics {run.path}` shows them."
                console.print(escape(said), soft_wrap=True)
    return 0


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
    add("--processes", type=int, help="processes that run trials (one per core, with a GPU two)")
    add("--wait", action="store_true", help="also wait for stages that are not finished, and evaluate each then")
    add("--workers", default="processes", help="processes, or ray: trials on a Ray cluster (processes)")
    return parser

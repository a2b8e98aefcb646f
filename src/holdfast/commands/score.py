"""`holdfast score RUN [RUN...]`: serve the scoring page; import and export scores; print agreement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.console.agreement import Agreement
    from holdfast.runs.run import Run

_HELP = """\
Serve a page on which people watch attempts, on the robot or on video, and tick the rubric; with keys, or on a tablet.

The order is random over the checkpoints of all RUNs, and the page never shows which checkpoint an attempt belongs to.
On the robot, one layout of a task is tried with every checkpoint before the next; RUN/next.json names the checkpoint to
load. Attempts that `holdfast rollout` has filmed (RUN/rollouts/) are offered as videos; when all are scored, the page
offers videos already scored by others, or by the twin, to measure agreement.

Every tick is written at once to RUN/scoring.sqlite. A saved sheet becomes an ordinary trial in RUN/trials.sqlite, so
metrics and report need nothing more; withdrawing it adds an entry, and no entry is ever changed. A second opinion on
the same video is kept as a rating and does not count as a trial.

The page is served on this machine only. With --host 0.0.0.0 other machines can reach it, and need the token.
"""
_EXAMPLES = """\
examples:
  holdfast score runs/single_arm-er
  holdfast score runs/single_arm-er runs/single_arm-sequential --trials 10 --operator Ada
  holdfast score runs/single_arm-er --host 0.0.0.0 --token-file token     for tablets in the lab
  holdfast score runs/single_arm-er --agreement                           Cohen's kappa of every two raters
  holdfast score runs/single_arm-er --export trials.csv
  holdfast score runs/single_arm-er --import paper.csv                    task, stage, when, operator, milestones
  holdfast score runs/cw10-er --import table.csv --source lab2            task, stage, seed, and success or score
  holdfast score runs/cw10-er --import eval_info.json --stage 3           what lerobot-eval has written

docs/scoring.md shows how a day of scoring goes.
"""


def main(argv: list[str]) -> int:
    """Run `holdfast score`."""
    args = _parser().parse_args(argv)
    if args.trials < 0:
        raise HoldfastError(f"--trials must be at least 0, got {args.trials}.")
    if not 0 <= args.port < 65536:
        raise HoldfastError(f"--port must be between 0 and 65535, got {args.port}.")

    from holdfast.runs.run import read_run

    if not args.read and (args.source or args.task or args.stage is not None):
        raise HoldfastError("--source, --stage and --task say where imported scores come from: add --import FILE.")
    runs = [read_run(folder) for folder in args.runs]
    if args.export:
        from holdfast.console.exchange import export

        print(f"{export(runs, args.export)} trials written to {args.export}")
    elif args.read:
        from holdfast.console.elsewhere import Origin, read_scores

        found, new = read_scores(runs, args.read, Origin(args.source, args.stage, args.task))
        print(f"{found} trials in {args.read}, {new} of them new")
    elif args.agreement:
        _show_agreement(runs)
    else:
        from holdfast.console.server import serve

        serve(runs, args.trials, args.operator, args.host, args.port, args.token_file)
    return 0


def _show_agreement(runs: list[Run]) -> None:
    from holdfast.console.assignments import Assignments
    from holdfast.console.view import pairs

    assignments = Assignments(runs, target=0)
    found = pairs(assignments)
    assignments.close()
    console = Console(highlight=False)
    if not found:
        console.print(
            "No video was rated by two people yet. `holdfast score RUN` offers videos that others have scored."
        )
    for pair in found:
        console.print(f"[bold]{escape(' and '.join(pair.raters))}[/], {pair.videos} videos rated by both")
        table = Table("milestone", box=SIMPLE_HEAD, show_edge=False)
        for name in ("judged", "same answer", "kappa"):
            table.add_column(name, justify="right")
        for name, agreement in (("all milestones", pair.overall), *pair.milestones.items()):
            table.add_row(escape(name), *_row(agreement))
        console.print(table)


def _row(agreement: Agreement) -> tuple[str, str, str]:
    kappa = f"{agreement.kappa:.2f}" if agreement.kappa is not None else agreement.why
    return str(agreement.count), f"{100 * (agreement.observed or 0):.0f} %", kappa


def _parser() -> Parser:
    parser = Parser(
        prog="holdfast score",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("runs", type=Path, metavar="RUN", nargs="+", help="a run's folder")
    add("--trials", type=int, default=20, help="trials per cell on the robot (20)")
    add("--operator", default="", metavar="NAME", help="name that the page suggests")
    add("--host", default="127.0.0.1", help="address to serve on (127.0.0.1: this machine only)")
    add("--port", type=int, default=8765, help="port to serve on (8765; 0 takes a free one)")
    add("--token-file", type=Path, metavar="F", help="file with the token that pages must send")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--agreement", action="store_true", help="print how far raters agree, and exit")
    one.add_argument("--export", type=Path, metavar="F.csv", help="write all trials that were not withdrawn as CSV")
    one.add_argument("--import", dest="read", type=Path, metavar="F", help="add trials; those that exist are skipped")
    judge = "(import) who judged scores without a rubric (imported; lerobot-eval for its files)"
    add("--source", default="", metavar="NAME", help=judge)
    add("--stage", type=int, metavar="K", help="(import) the stage that lerobot-eval has tried")
    add("--task", default="", metavar="NAME", help="(import) the task that it has tried, if the file does not tell")
    return parser

"""`holdfast twin score|sheet|docs`: score and draw scripted policies in the simulated cell."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from holdfast import arenas
from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError
from holdfast.core.progress import working

if TYPE_CHECKING:
    from holdfast.arenas.scripted import Tally

_HELP = """\
Run a scripted policy in the twin, one trial for each seed, and score it by the task's rubric.

  expert        the demonstrator, which reads the simulator's state
  noop          both arms hold still
  blind         the demonstration of the nominal layout, played back open-loop
  open-gripper  the expert with fingers that never close
"""
_EXAMPLES = """\
examples:
  holdfast twin score --task stack_bowls
  holdfast twin score --task stack_bowls --as blind --level wide --seeds 100:200 --json
  holdfast twin sheet --task stack_bowls --seeds 3 --out stack_bowls.png
  holdfast twin docs --out docs
"""


def main(argv: list[str]) -> int:
    """Run `holdfast twin`."""
    twin = arenas.load("twin")
    parser = Parser(
        prog="holdfast twin",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="score|sheet|docs")
    scoring = actions.add_parser("score", help="scores over many seeds")
    scoring.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    scoring.add_argument("--processes", type=int, default=os.cpu_count(), help="trials run in parallel (all cores)")
    drawing = actions.add_parser("sheet", help="a few moments of one episode in five views, as a PNG")
    drawing.add_argument("--out", type=Path, required=True, help="file to write")
    drawing.add_argument("--moments", type=int, default=5, help="columns of the picture (5)")
    writing = actions.add_parser("docs", help="write tasks.md, the page of all tasks, and its pictures")
    writing.add_argument("--out", type=Path, default=Path("docs"), help="folder to write to (docs)")
    writing.add_argument("--task", help="draw only this task's picture")
    for action, seeds in ((scoring, "0:20"), (drawing, "0")):
        action.add_argument("--task", required=True, help=f"one of {', '.join(twin.tasks)}")
        action.add_argument(
            "--as", dest="policy", default="expert", help="expert, noop, blind or open-gripper (expert)"
        )
        action.add_argument("--level", default="standard", help="nominal, easy, standard or wide (standard)")
        action.add_argument("--seeds", default=seeds, help=f"one seed, or A:B for A to B - 1 ({seeds})")
        action.add_argument("--jitter", action="store_true", help="vary the motions as demonstrations are varied")
    args = parser.parse_args(argv)
    if args.task is not None:
        twin.task(args.task)
    if args.action == "docs":
        return _docs(args)
    twin.check_policy(args.policy)
    twin.level(args.level)
    return _score(args) if args.action == "score" else _sheet(args)


def _score(args: argparse.Namespace) -> int:
    from holdfast.arenas.scripted import score

    seeds = _seeds(args.seeds)
    if args.processes < 1:
        raise HoldfastError(f"--processes must be at least 1, got {args.processes}.")
    with working(f"{len(seeds)} trials"):
        tally = score("twin", args.task, args.policy, args.level, seeds, args.processes, args.jitter)
    if args.json:
        found = {
            "task": args.task,
            "level": args.level,
            "seeds": seeds,
            "scores": list(tally.scores),
            "full": tally.full,
            "milestones": tally.milestones,
            "penalties": tally.penalties,
        }
        print(json.dumps(found))
    else:
        _print(args, tally)
    return 0


def _print(args: argparse.Namespace, tally: Tally) -> None:
    console = Console(highlight=False)
    trials = len(tally.scores)
    mean = sum(tally.scores) / trials
    console.print(f"[bold]{args.task}[/] as {args.policy}, level {args.level}, seeds {args.seeds}")
    console.print(f"mean score {mean:.1f}, full score in {tally.full} of {trials} trials\n")
    table = Table("", "trials", box=SIMPLE_HEAD, show_edge=False)
    for name, count in tally.milestones.items():
        table.add_row(name, str(count))
    for name, count in tally.penalties.items():
        table.add_row(f"penalty {name}", str(count))
    console.print(table)


def _sheet(args: argparse.Namespace) -> int:
    from PIL import Image

    from holdfast.arenas.twin import contact_sheet

    seed = _seeds(args.seeds)[0]
    picture = contact_sheet(args.task, args.policy, seed, args.level, args.jitter, args.moments)
    Image.fromarray(picture).save(args.out)
    print(f"wrote {args.out}")
    return 0


def _docs(args: argparse.Namespace) -> int:
    from holdfast.arenas.twin import write_task_page

    for written in write_task_page(args.out, args.task):
        print(f"wrote {written}")
    return 0


def _seeds(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    try:
        seeds = list(range(int(first), int(last))) if colon else [int(first)]
    except ValueError:
        raise HoldfastError(f"--seeds must be a number or A:B, like 0:100, got {text!r}.") from None
    if not seeds or seeds[0] < 0:
        raise HoldfastError(f"--seeds A:B means A to B - 1 with 0 <= A < B, got {text!r}.")
    return seeds

"""`holdfast twin score|sheet|docs`: score and draw scripted policies in the simulated cell."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast import arenas
from holdfast.commands.parser import Parser
from holdfast.commands.scripted_scores import add_processes, read_seeds, show_scores

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
    add_processes(scoring)
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
    if args.action == "sheet":
        return _sheet(args)
    show_scores("twin", args.task, args)
    return 0


def _sheet(args: argparse.Namespace) -> int:
    from PIL import Image

    from holdfast.arenas.twin import contact_sheet

    seed = read_seeds(args.seeds)[0]
    picture = contact_sheet(args.task, args.policy, seed, args.level, args.jitter, args.moments)
    Image.fromarray(picture).save(args.out)
    print(f"wrote {args.out}")
    return 0


def _docs(args: argparse.Namespace) -> int:
    from holdfast.arenas.twin import write_task_page

    for written in write_task_page(args.out, args.task):
        print(f"wrote {written}")
    return 0

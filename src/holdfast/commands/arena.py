"""`holdfast arena ls|check|score|new|setup`: the simulators in which policies are tried."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from holdfast import arenas
from holdfast.arenas.arena_file import SHIPPED, WORKERS, read_arena_file, set_up_arenas
from holdfast.arenas.setups import SETUPS, set_up
from holdfast.commands.flags import ARENA
from holdfast.commands.parser import Parser
from holdfast.commands.scripted_scores import add_processes, show_scores
from holdfast.core.errors import HoldfastError
from holdfast.core.names import check_name

_HELP = """\
Simulators in which policies are tried, recorded and watched. One of them is part of Holdfast, the twin. Any other runs
as a process of its own Python, with packages of its own: a short file says which.

  ls      arenas that are there, and those that can be set up
  setup   make the environment of one that Holdfast knows, with uv
  new     write a simulator of your own to start from, NAME.py and NAME.toml
  check   run the tests that every arena must pass
  score   how often its expert, or another scripted policy, has full score
"""
_EXAMPLES = """\
examples:
  holdfast arena setup metaworld
  holdfast record --arena metaworld --tasks push-v3 --episodes 50 --output data
  holdfast arena new table
  holdfast arena check table.toml
  holdfast arena score metaworld --tasks push-v3 hammer-v3 --seeds 0:100
"""
_FILE = """\
# The arena {name}. Use it with --arena {name}.toml
python = {python}  # any Python with numpy, msgpack and the simulator
worker = "{name}.py"  # beside this file, or one that Holdfast brings: {shipped}
# timeout = 120  # seconds for one answer; after that the trial is not valid and the simulator is started again
"""


def main(argv: list[str]) -> int:
    """Run `holdfast arena`."""
    parser = Parser(prog="holdfast arena", description=_HELP, epilog=_EXAMPLES)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("ls", help="list arenas")
    checking = actions.add_parser("check", help="test an arena")
    checking.add_argument("arena", help=ARENA)
    checking.add_argument("--tasks", nargs="+", metavar="TASK", help="tasks to test (the first)")
    scoring = actions.add_parser("score", help="scores of an arena's expert over many seeds")
    scoring.add_argument("arena", help=ARENA)
    scoring.add_argument("--tasks", nargs="+", metavar="TASK", help="tasks to score (all)")
    scoring.add_argument("--as", dest="policy", default="expert", help="one of its scripted policies (expert)")
    scoring.add_argument("--level", help="how far layouts vary (the arena's default)")
    scoring.add_argument("--seeds", default="0:20", help="one seed, or A:B for A to B - 1 (0:20)")
    scoring.add_argument("--jitter", action="store_true", help="vary the motions as demonstrations are varied")
    scoring.add_argument("--json", action="store_true", help="print one JSON object a task instead of tables")
    add_processes(scoring)
    writing = actions.add_parser("new", help="write a simulator to start from")
    writing.add_argument("name", help="name of the arena and of both files")
    making = actions.add_parser("setup", help="make an arena's environment")
    making.add_argument("name", help=f"one of {', '.join(SETUPS)}")
    args = parser.parse_args(argv)
    console = Console(highlight=False)
    if args.action == "ls":
        _list(console)
    elif args.action == "check":
        _check(args.arena, args.tasks, console)
    elif args.action == "score":
        _score(args)
    elif args.action == "new":
        _new(args.name, console)
    else:
        file = set_up(
            args.name,
            lambda step: console.print(step, soft_wrap=True, markup=False),
            lambda f: _check(str(f), None, console),
        )
        console.print(f"wrote {file}. Use it with --arena {args.name}", soft_wrap=True, markup=False)
    return 0


def _list(console: Console) -> None:
    found = {"twin": "part of Holdfast"}
    for name, file in set_up_arenas().items():
        try:
            found[name] = read_arena_file(file).python
        except HoldfastError as error:
            found[name] = str(error)
    for name in SETUPS:
        found.setdefault(name, f"not set up: holdfast arena setup {name}")
    width = max(map(len, found))
    for name, where in found.items():
        console.print(f"{name:<{width}}  {where}", soft_wrap=True, markup=False)


def _check(name: str, tasks: list[str] | None, console: Console) -> None:
    from holdfast.arenas.contract import run_contract

    arena = arenas.load(name)
    tasks = tasks or list(arena.tasks)[:1]
    for task in tasks:
        arena.task(task)
    for word, names in (("state", arena.state), ("action", arena.action), ("cameras", arena.cameras)):
        console.print(f"{word:>8}  {', '.join(names)}", soft_wrap=True, markup=False)
    expert = "an expert" if "expert" in arena.policies else "no expert"
    number = len(arena.tasks)
    console.print(f"{number} task{'s' * (number > 1)}, {arena.rate} steps a second, {expert}")
    failed = 0
    for task in tasks:
        console.print(f"\n{task}", style="bold", markup=False)
        for test, wrong in run_contract(arena, task):
            failed += bool(wrong)
            console.print(f"{'failed' if wrong else 'ok':>8}  {test}{': ' if wrong else ''}{wrong}", markup=False)
    if failed:
        raise HoldfastError(f"The arena {arena.name!r} fails {failed} of the tests in holdfast/arenas/contract.py.")


def _score(args: argparse.Namespace) -> None:
    arena = arenas.load(args.arena)
    arena.check_policy(args.policy)
    args.level = arena.level(args.level)
    tasks = [arena.task(name).name for name in args.tasks or arena.tasks]
    for task in tasks:
        show_scores(args.arena, task, args)


def _new(name: str, console: Console) -> None:
    check_name(name, "holdfast arena new")
    worker, file = Path(f"{name}.py"), Path(f"{name}.toml")
    for path in (worker, file):
        if path.exists():
            raise HoldfastError(f"{path} exists. Choose another name, or move it away.")
    worker.write_text((WORKERS / "template.txt").read_text())
    file.write_text(_FILE.format(name=name, python=json.dumps(sys.executable), shipped=", ".join(SHIPPED)))
    console.print(f"wrote {worker} and {file}. Next: holdfast arena check {file}", soft_wrap=True, markup=False)

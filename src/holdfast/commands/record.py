"""`holdfast record`: record demonstrations of an arena's expert as LeRobot datasets."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast import arenas, catalog
from holdfast.api.record import FIRST_SEED, record
from holdfast.commands.flags import ARENA
from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError

_HELP = """\
Record demonstrations of the experts of the twin, or of another arena that has experts, into LeRobot v3 datasets
OUTPUT/<task>. Each demonstration has its own layout, tempo and paths. Only those with full score are kept. Killed? Run
the same command again: it continues where it stopped and ends with the same data. With more --episodes a finished
recording is extended, to the same data as all recorded at once; runs that trained on it need it as it was.
"""
_EXAMPLES = """\
examples:
  holdfast record --tasks stack_bowls --episodes 50 --output data
  holdfast record --stream single_arm --episodes 100 --output data --processes 8
  holdfast record --tasks fold_towel hang_cup --episodes 20 --size 480x640 --output large
then:
  holdfast doctor data/stack_bowls
  holdfast train --stream=single_arm --data_root=data
"""


def main(argv: list[str]) -> int:
    """Run `holdfast record`."""
    parser = Parser(
        prog="holdfast record",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--tasks", nargs="+", metavar="TASK", help="from " + ", ".join(arenas.load("twin").tasks))
    what.add_argument("--stream", help=f"all tasks of a stream: {', '.join(catalog.streams())}, or a .toml file")
    parser.add_argument("--arena", default="twin", help=ARENA)
    parser.add_argument("--episodes", type=int, required=True, help="demonstrations of each task")
    parser.add_argument("--output", type=Path, required=True, help="folder of the datasets' folders")
    parser.add_argument("--level", help="spread of the objects: easy, standard, wide (standard)")
    parser.add_argument("--size", default="96", help="size of the images, like 96 or 480x640, height first (96)")
    parser.add_argument("--processes", type=int, help="parallel simulations (all cores)")
    parser.add_argument(
        "--seed", type=int, default=FIRST_SEED, help=f"first layout ({FIRST_SEED}, far from the layouts of trials)"
    )
    args = parser.parse_args(argv)
    tasks = args.tasks or catalog.load_stream(args.stream, str(args.output)).names
    record(
        tasks,
        args.output,
        episodes=args.episodes,
        arena=args.arena,
        level=args.level,
        size=_size(args.size),
        seed=args.seed,
        processes=args.processes,
    )
    return 0


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if not found:
        raise HoldfastError(f"--size must be like 96 or 480x640, height first, got {text!r}.")
    return int(found[1]), int(found[2] or found[1])

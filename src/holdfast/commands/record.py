"""`holdfast record`: record demonstrations of an arena's expert as LeRobot datasets."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from rich.console import Console

from holdfast import arenas, catalog
from holdfast.commands.flags import ARENA
from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError
from holdfast.core.progress import progress_bar

FIRST_SEED = 1_000_000
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
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="parallel simulations (all cores)")
    parser.add_argument(
        "--seed", type=int, default=FIRST_SEED, help=f"first layout ({FIRST_SEED}, far from the layouts of trials)"
    )
    args = parser.parse_args(argv)
    tasks = args.tasks or tuple(dict.fromkeys(catalog.load_stream(args.stream, str(args.output)).names))
    arena = arenas.load(args.arena)
    for task in tasks:
        arena.task(task)
    args.level = arena.level(args.level)
    height, width = _size(args.size)
    for flag, value in (("episodes", args.episodes), ("processes", args.processes)):
        if value < 1:
            raise HoldfastError(f"--{flag} must be at least 1, got {value}.")
    if args.seed < 0:
        raise HoldfastError(f"--seed must not be negative, got {args.seed}.")
    return _record(args, list(dict.fromkeys(tasks)), height, width)


def _record(args: argparse.Namespace, tasks: list[str], height: int, width: int) -> int:
    from holdfast.arenas.demonstrate import RecordingOrder
    from holdfast.arenas.record import record

    console = Console(highlight=False)
    orders = [RecordingOrder(task, args.episodes, args.level, height, width, args.seed, args.arena) for task in tasks]
    with progress_bar(console, part=(0.0, 1.0)) as bar:
        rows = {task: bar.add_task(task, total=args.episodes, note="") for task in tasks}
        whole = bar.add_task("in all", total=args.episodes * len(tasks), note="starting")

        def report(task: str, kept: int, dropped: int) -> None:
            bar.update(rows[task], completed=kept, note=f"{dropped} dropped" if dropped else "")
            bar.update(whole, completed=sum(row.completed for row in bar.tasks if row.id != whole))
            if not console.is_terminal and kept and kept % max(1, args.episodes // 10) == 0:
                console.print(f"{task}  {kept}/{args.episodes}  {dropped} dropped")

        def watch(steps: int) -> None:
            bar.update(whole, note=f"{steps:,} steps" if steps else "starting the simulations")

        recordings = record(orders, args.output, args.processes, report, watch)
    for done in recordings:
        said = f", {len(done.dropped)} without full score dropped" if done.dropped else ", none dropped"
        console.print(f"{done.folder}: {len(done.seeds)} demonstrations{said}", soft_wrap=True)
    return 0


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    height, width = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    # Video codecs halve the resolution of colours and fail on very small images.
    if not all(32 <= side <= 2048 and side % 2 == 0 for side in (height, width)):
        raise HoldfastError(f"--size must be even numbers from 32 to 2048, like 96 or 480x640, got {text!r}.")
    return height, width

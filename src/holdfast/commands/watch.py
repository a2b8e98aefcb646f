"""`holdfast watch`: an episode to look at, with the rubric ticking at its side."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast.core.errors import HoldfastError, unknown
from holdfast.twin.tasks import TASKS

if TYPE_CHECKING:
    from holdfast.twin.env import CellEnv
    from holdfast.twin.scripted import ScriptedPolicy
    from holdfast.twin.watch import Moment

_HELP = """\
Watch an episode in the simulated cell: all four cameras, and the rubric turning green (or red) as it goes. Who acts is
the expert, another scripted policy (--as noop, blind or open-gripper), a trained policy (--policy), or whoever recorded
a dataset (--dataset). Without --out the interactive viewer opens, where there is a screen.
"""
_EXAMPLES = """\
examples:
  holdfast watch --task stack_bowls --out expert.mp4
  holdfast watch --task stack_bowls --as blind --seed 7 --out blind.mp4
  holdfast watch --task stack_bowls --policy runs/single_arm-er/stages/05-push_box/checkpoint --out kept.mp4
  holdfast watch --dataset data/stack_bowls --episode 3 --out recorded.mp4
"""


def main(argv: list[str]) -> int:
    """Run `holdfast watch`."""
    parser = argparse.ArgumentParser(
        prog="holdfast watch",
        description=_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--as", dest="script", default="expert", help="a scripted policy (expert)")
    who.add_argument("--policy", type=Path, metavar="FOLDER", help="a stage's checkpoint or a LeRobot policy")
    who.add_argument("--dataset", help="a recorded dataset, a folder or a hub id")
    parser.add_argument("--task", help=f"one of {', '.join(TASKS)}")
    parser.add_argument("--episode", type=int, default=0, help="of the dataset (0)")
    parser.add_argument("--seed", type=int, default=0, help="of the layout (0)")
    parser.add_argument("--level", default="standard", help="how far objects stray: nominal, easy, standard, wide")
    parser.add_argument("--jitter", action="store_true", help="vary the expert's motions as demonstrations are varied")
    parser.add_argument("--device", default="cpu", help="where a trained policy computes: cpu or cuda (cpu)")
    parser.add_argument("--shadows", action="store_true", help="shadows and smooth edges, at ten times the time")
    parser.add_argument("--out", type=Path, metavar="VIDEO.mp4", help="file to write")
    args = parser.parse_args(argv)
    _check(args)
    console = Console(highlight=False)
    if args.dataset:
        return _recorded(args, console)
    return _acted(args, console)


def _check(args: argparse.Namespace) -> None:
    if bool(args.task) == bool(args.dataset):
        raise HoldfastError("Say what to watch: --task NAME, or --dataset FOLDER, which knows its task.")
    if args.task and args.task not in TASKS:
        raise unknown("task of the twin", args.task, TASKS)
    if args.seed < 0:
        raise HoldfastError(f"--seed must not be negative, got {args.seed}.")
    if args.out is None and (args.dataset or not _has_screen()):
        raise HoldfastError("There is no screen to show it on. Give --out VIDEO.mp4.")
    if args.out is not None and args.out.suffix != ".mp4":
        raise HoldfastError(f"--out must end in .mp4, got {args.out}.")
    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise HoldfastError(f"The folder {args.out.absolute().parent} does not exist.")


def _recorded(args: argparse.Namespace, console: Console) -> int:
    from holdfast.twin.watch import recorded_moments, write_video

    task, shown = recorded_moments(args.dataset, args.episode)
    _close(args, console, write_video(args.out, task, shown))
    return 0


def _acted(args: argparse.Namespace, console: Console) -> int:
    from holdfast.twin.env import CellEnv
    from holdfast.twin.watch import moments, show, write_video

    env = CellEnv(args.task, shadows=args.shadows or args.out is None)
    env.reset(args.seed, args.level)
    policy = _policy(args, env)
    if args.out is None:
        show(env, policy, console.print)
    else:
        _close(args, console, write_video(args.out, env.task.record, moments(env, policy, (240, 320))))
    env.close()
    return 0


def _policy(args: argparse.Namespace, env: CellEnv) -> ScriptedPolicy:
    if args.policy is not None:
        from holdfast.twin.learned import Learned, load

        return Learned(env, load(args.policy, args.device), args.seed)
    from holdfast.twin.scripted import POLICIES

    if args.script not in POLICIES:
        raise unknown("scripted policy", args.script, POLICIES)
    return POLICIES[args.script](env, args.seed if args.jitter else None)


def _close(args: argparse.Namespace, console: Console, last: Moment) -> None:
    said = ""
    if last.trial is not None:
        from holdfast import catalog, rubric

        said = f", score {rubric.score_trial(catalog.task(last.trial.task), last.trial):.0f} of 100"
    console.print(f"wrote {args.out}: {last.seconds:.1f} s{said}", soft_wrap=True)


def _has_screen() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))

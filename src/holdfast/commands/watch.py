"""`holdfast watch`: show an episode with the rubric beside it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast import arenas
from holdfast.commands.flags import ARENA
from holdfast.commands.parser import Parser
from holdfast.core.device_name import check_device
from holdfast.core.errors import HoldfastError
from holdfast.core.progress import working
from holdfast.policies.saved_folder import policy_folder
from holdfast.runs.run import run_of

if TYPE_CHECKING:
    from holdfast.arenas.arena import ActingPolicy
    from holdfast.arenas.scored_episode import ScoredEpisode
    from holdfast.arenas.watch import Shown
    from holdfast.embodiments.embodiment import Embodiment

_HELP = """\
Watch an episode in an arena, usually the twin: all its cameras, and the rubric turning green (or red) as it goes. The
actor is the expert, another scripted policy (in the twin --as noop, blind or open-gripper), a trained policy
(--policy), or a recorded episode (--dataset). Without --out the arena's viewer opens if there is a screen.
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
    parser = Parser(
        prog="holdfast watch",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--as", dest="script", default="expert", help="a scripted policy (expert)")
    who.add_argument("--policy", type=Path, metavar="FOLDER", help="a stage's checkpoint or a LeRobot policy")
    who.add_argument("--dataset", help="a recorded dataset, a folder or a hub id")
    parser.add_argument("--arena", default="twin", help=ARENA)
    parser.add_argument("--task", help="a task of the arena; in the twin: " + ", ".join(arenas.load("twin").tasks))
    parser.add_argument("--episode", type=int, default=0, help="episode of the dataset (0)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the layout (0)")
    parser.add_argument("--level", help="spread of the objects: nominal, easy, standard, wide (standard)")
    parser.add_argument("--jitter", action="store_true", help="vary the expert's motions as demonstrations are varied")
    parser.add_argument("--device", default="cpu", help="device of a trained policy: cpu or cuda (cpu)")
    parser.add_argument("--out", type=Path, metavar="VIDEO.mp4", help="file to write")
    args = parser.parse_args(argv)
    _check(args)
    console = Console(highlight=False)
    if args.dataset:
        with working("opening the dataset"):
            from holdfast.arenas.watch import recorded

            shown = recorded(args.dataset, args.episode, args.arena)
        _write(args, shown, console)
    else:
        _act(args, console)
    return 0


def _check(args: argparse.Namespace) -> None:
    arena = arenas.load(args.arena)
    if bool(args.task) == bool(args.dataset):
        raise HoldfastError("Say what to watch: --task NAME, or --dataset FOLDER, which names its task.")
    check_device(args.device)
    if args.policy:
        policy_folder(args.policy)
    if args.task:
        arena.task(args.task)
        args.level = arena.level(args.level)
    if args.seed < 0:
        raise HoldfastError(f"--seed must not be negative, got {args.seed}.")
    if args.out is None and (args.dataset or not arena.has_viewer or not _has_screen()):
        raise HoldfastError("There is no screen to show it on. Give --out VIDEO.mp4.")
    if args.out is not None and args.out.suffix != ".mp4":
        raise HoldfastError(f"--out must end in .mp4, got {args.out}.")
    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise HoldfastError(f"The folder {args.out.absolute().parent} does not exist.")


def _act(args: argparse.Namespace, console: Console) -> None:
    with working("opening the task"):
        from holdfast.arenas.scored_episode import ScoredEpisode
        from holdfast.arenas.watch import acted, show

        arena = arenas.load(args.arena)
        run = run_of(args.policy) if args.policy else None
        own = {task.name: task for task in run.tasks} if run else {}
        episode = ScoredEpisode(arena, own.get(args.task) or arena.task(args.task))
        episode.begin(args.seed, args.level)
        policy = _policy(args, episode, run.robot if run else None)
    if args.out is None:
        show(episode, policy, console.print)
    else:
        _write(args, acted(episode, policy, (240, 320)), console)
    episode.close()


def _policy(args: argparse.Namespace, episode: ScoredEpisode, robot: Embodiment | None) -> ActingPolicy:
    arena = episode.arena
    if args.policy is not None:
        from holdfast.arenas.learned import LearnedPolicy
        from holdfast.policies.pilot import Pilot

        return LearnedPolicy(episode, Pilot(args.policy, arena.action, args.device), args.seed, robot)
    arena.check_policy(args.script)
    return episode.policy(args.script, args.seed if args.jitter else None)


def _write(args: argparse.Namespace, shown: Shown, console: Console) -> None:
    from holdfast import rubric
    from holdfast.arenas.watch import write_video

    with working("filming"):
        last = write_video(args.out, shown)
    score = "" if last.reached is None else f", score {rubric.score_reached(shown.task, last.reached):.0f} of 100"
    console.print(f"wrote {args.out}: {last.seconds:.1f} s{score}", soft_wrap=True, markup=False)


def _has_screen() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))

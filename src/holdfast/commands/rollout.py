"""`holdfast rollout`: run a policy on a real or simulated robot and record everything that happens."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast import catalog, robots
from holdfast.commands.parser import Parser
from holdfast.core.device_name import check_device
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import check_path
from holdfast.core.outside import read_text
from holdfast.core.progress import working
from holdfast.policies.saved_folder import policy_folder

if TYPE_CHECKING:
    from holdfast.core.records import Task
    from holdfast.robots import NamedRobot
    from holdfast.robots.async_client import AsyncClient
    from holdfast.robots.client import About, Answerer
    from holdfast.robots.loop import Conduct
    from holdfast.robots.session import Book, Session
    from holdfast.runs.run import FinishedStage, Run

_AHEAD = 4  # steps: 133 ms at 30 Hz
_DEADLINE, _FAST_DEADLINE = 0.5, 60.0
_SECONDS = 60.0
_HELP = """\
Run a policy on a robot, with the same code: the simulated cell (--robot twin), any other arena that has an embodiment,
a pair of PiPER-X arms (--robot piper), or a class of your own. The policy must have been trained for the robot's
dimensions, in their order, and at its rate. It runs on a server (--server, see `holdfast serve`) or in this process:
--policy FOLDER, or the stage of a run (--run RUN --stage K).

Every command is limited in joint range, speed, acceleration and workspace. Arms that the task does not use stay where
they are. The next chunk is requested --ahead steps before --horizon steps of the current one are done, so an answer
that takes less than that costs no time. An answer later than --deadline, or a lost server, stops the arms: the trial is
not valid and not scored, and the next one reconnects.

On real arms Space starts and ends an attempt, q or Escape stops everything at once; simulated attempts start by
themselves. With --run each attempt leaves a video in RUN/rollouts, to be scored with `holdfast score RUN`; the twin
writes its own scores to RUN/trials.sqlite, where all trials of a cell must have the same settings. --record keeps
observations and commands as a LeRobot dataset.

docs/robots.md describes the wiring. None of this was tried on real arms.
"""
_EXAMPLES = """\
examples:
  holdfast rollout --task stack_bowls --policy runs/single_arm-er/stages/05-push_box/checkpoint --trials 3
  holdfast serve bundle &
  holdfast rollout --task stack_bowls --server ws://127.0.0.1:8000 --record data/rolled_out
  holdfast rollout --robot piper --config pair.toml --task stack_bowls --server ws://127.0.0.1:8000 \\
      --run runs/single_arm-er --stage 5 --operator mia --trials 10
"""


def main(argv: list[str]) -> int:
    """Run `holdfast rollout`."""
    args = _parser().parse_args(argv)
    robot = robots.find(args.robot)
    _check(args, robot)
    args.deadline = args.deadline or (_FAST_DEADLINE if args.fast else _DEADLINE)
    from holdfast.commands.attempt_text import attempt_text
    from holdfast.robots.async_client import PATIENCE, AsyncClient

    console = Console(highlight=False)
    run, stage = _stage(args)
    task = _task(args, robot, run)
    with ExitStack() as stack:
        waiting = f"waiting for {args.server} (`holdfast serve`), at most {PATIENCE:.0f} s"
        with working(waiting if args.server else "loading the policy", console):
            client = AsyncClient(_answerer(args, robot, stage), args.deadline)
            stack.callback(client.close)
            about = client.connect()
        _check_about(args, about, robot, task, run, stage)
        conduct = _conduct(args, about, robot, task)
        if args.dry_run:
            console.print(_plan(args, about, conduct), soft_wrap=True)
            return 0
        session = _session(args, stack, robot, about, client, conduct, _book(args, run, stage, about, task), console)
        done = 0
        for done, report in enumerate(session.run(args.trials), 1):
            console.print(attempt_text(done, args.trials, report), soft_wrap=True)
    return 0 if done == args.trials else 1


def _check(args: argparse.Namespace, robot: NamedRobot) -> None:
    if args.server and args.policy:
        raise HoldfastError("Give --server or --policy, not both.")
    if not (args.server or args.policy or args.run):
        raise HoldfastError("Say which policy: --server URL, --policy FOLDER, or --run RUN with --stage K.")
    if args.policy and args.run:
        raise HoldfastError("Give --policy, which belongs to no run, or --run RUN --stage K, not both.")
    robot.check_settings(args.config, args.fast)
    if robot.needs_operator and not args.dry_run and not sys.stdin.isatty():
        raise HoldfastError("Real arms need an operator at a terminal, who can stop them by key.")
    check_device(args.device)
    if args.policy:
        policy_folder(args.policy)
    if args.record:
        check_path(args.record, "--record")
    for name in ("trials", "deadline", "seconds"):
        value = getattr(args, name)
        if value is not None and value <= 0:
            raise HoldfastError(f"--{name} must be above 0, got {value}.")


def _stage(args: argparse.Namespace) -> tuple[Run | None, FinishedStage | None]:
    if args.run is None:
        return None, None
    from holdfast.runs.run import read_run

    run = read_run(args.run)
    found = {stage.number: stage for stage in run.stages}
    number = max(found) if args.stage is None else args.stage
    if number not in found:
        raise unknown(f"finished stage of {args.run}", number, found)
    return run, found[number]


def _task(args: argparse.Namespace, robot: NamedRobot, run: Run | None) -> Task:
    own = robot.arena.task(args.task) if robot.arena else None
    if run is None:
        return own or catalog.task(args.task)
    known = {task.name: task for task in run.tasks}
    if args.task not in known:
        raise unknown(f"task of {args.run}", args.task, known)
    return known[args.task]


def _answerer(args: argparse.Namespace, robot: NamedRobot, stage: FinishedStage | None) -> Answerer:
    from holdfast.robots.client import InProcess, PolicyClient

    if args.server:
        return PolicyClient(args.server, _token(args.token_file))
    from holdfast.policies.device import choose_device

    folder = stage.checkpoint.folder if stage else args.policy
    return InProcess(folder, robot.embodiment.names, choose_device(args.device))


def _token(file: Path | None) -> str:
    return read_text(file).strip() if file else ""


def _check_about(
    args: argparse.Namespace,
    about: About,
    robot: NamedRobot,
    task: Task,
    run: Run | None,
    stage: FinishedStage | None,
) -> None:
    """Check that the policy fits the robot, the task and the run."""
    from holdfast.robots.fit import check_fits
    from holdfast.runs.embodiment import find_embodiment

    if run and stage:
        trained_for = find_embodiment(run.paths.embodiment, lambda: None)
        check_fits(about, robot, trained_for, stage.checkpoint.schema["names"])
    else:
        check_fits(about, robot)
    if about.tasks and task.name not in about.tasks:
        raise unknown(f"task of the policy at {args.server}", task.name, about.tasks)
    if stage and about.weights and about.weights != stage.checkpoint.weights_hash:
        raise HoldfastError(
            f"{args.server} serves other weights ({about.weights[:12]}) than stage {stage.number} of {args.run} "
            f"({stage.checkpoint.weights_hash[:12]}). Serve that stage's bundle, or name the stage that is served."
        )


def _conduct(args: argparse.Namespace, about: About, robot: NamedRobot, task: Task) -> Conduct:
    from holdfast.policies.action_queue import check_horizon
    from holdfast.robots.loop import Conduct

    ahead = args.ahead if args.ahead is not None else 0 if args.fast else min(_AHEAD, about.answer_steps - 1)
    given = robot.arena.max_steps(task.name) / robot.rate if robot.arena else _SECONDS
    return Conduct(
        task,
        check_horizon(args.horizon, ahead, about.answer_steps),
        ahead,
        args.seconds or given,
        realtime=not args.fast,
        seed=args.first_seed,
    )


def _book(args: argparse.Namespace, run: Run | None, stage: FinishedStage | None, about: About, task: Task) -> Book:
    from holdfast.robots.recorder import Dataset
    from holdfast.robots.session import Book

    dataset = Dataset(args.record, patient=args.fast) if args.record else None
    if run is None or stage is None:
        return Book(weights=about.weights, normalization=about.normalization, operator=args.operator, dataset=dataset)
    space = stage.checkpoint.normalization.execute(task.name).hash
    return Book(run.path, stage.number, stage.checkpoint.weights_hash, space, args.operator, dataset)


def _session(
    args: argparse.Namespace,
    stack: ExitStack,
    robot: NamedRobot,
    about: About,
    client: AsyncClient,
    conduct: Conduct,
    book: Book,
    console: Console,
) -> Session:
    from holdfast.robots.keys import NoKeys, Terminal
    from holdfast.robots.limits import Limits
    from holdfast.robots.session import Session

    connected = robot.connect(args.config, conduct.task, about.cameras, args.level)
    stack.callback(connected.close)
    limits = Limits(connected.embodiment, connected.workspace)
    if book.dataset:
        stack.enter_context(book.dataset)
    keys = stack.enter_context(Terminal()) if sys.stdin.isatty() else NoKeys()
    return Session(connected, client, limits, conduct, keys, book, console.print)


def _plan(args: argparse.Namespace, about: About, conduct: Conduct) -> str:
    """What a rollout would do, as text."""
    from holdfast.runs.paths import RunPaths

    task = conduct.task
    views = ", ".join(f"{name} {height}x{width}" for name, (height, width) in about.cameras.items())
    source = args.server or args.policy or f"stage {args.stage or 'last'} of {args.run}"
    lines = [
        f"robot     {args.robot}, {args.trials} attempts of at most {conduct.seconds:g} s",
        f"task      {task.name}: {task.instruction} (arms: {', '.join(task.arms)})",
        f"policy    {source}; cameras {views}",
        f"chunks    {conduct.horizon} of {about.answer_steps} steps executed, "
        f"the next one requested {conduct.ahead} steps ahead",
        f"watchdog  arms stop when an answer takes more than {args.deadline:g} s",
        f"video     {RunPaths(args.run).rollouts if args.run else 'none: no --run'}",
        f"dataset   {args.record or 'none: no --record'}",
    ]
    return "\n".join(lines)


def _parser() -> Parser:
    parser = Parser(
        prog="holdfast rollout",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("--robot", default="twin", help="twin, piper, any arena, or package.module:Class of your own (twin)")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="file that describes the robot; of piper its ports and cameras, as TOML",
    )
    add("--task", required=True, help="name of the task to attempt")
    add("--server", metavar="URL", help="policy server, like ws://127.0.0.1:8000")
    add("--token-file", "--token_file", type=Path, metavar="FILE", help="file with the server's token")
    add("--policy", type=Path, metavar="FOLDER", help="a stage's checkpoint or a LeRobot policy, run in this process")
    add("--device", default="auto", help="device of a policy in this process: auto, cpu, cuda (auto)")
    add("--run", type=Path, metavar="RUN", help="run whose stage is tried; attempts are recorded there")
    add("--stage", type=int, metavar="K", help="stage of the run (the last finished one)")
    add("--operator", default=os.environ.get("USER", ""), help="name of the operator ($USER)")
    add("--trials", type=int, default=1, help="number of attempts (1)")
    add("--first-seed", "--first_seed", type=int, default=0, help="first seed of layouts in the twin and of noise (0)")
    add("--level", help="spread of the objects in the twin: nominal, easy, standard, wide (standard)")
    add("--horizon", type=int, metavar="H", help="steps of a chunk to execute (all but those of --ahead)")
    add("--ahead", type=int, help=f"steps by which the next chunk is requested early ({_AHEAD}; 0 with --fast)")
    add("--deadline", type=float, help=f"most seconds for an answer ({_DEADLINE}; {_FAST_DEADLINE} with --fast)")
    add("--seconds", type=float, help=f"most seconds for an attempt (the task's own in the twin, else {_SECONDS})")
    add("--fast", action="store_true", help="run the twin as fast as possible, waiting for every answer; reproducible")
    add("--record", type=Path, metavar="DIR", help="new LeRobot dataset to write")
    add("--dry-run", "--dry_run", action="store_true", help="check everything and print the plan, but move nothing")
    return parser

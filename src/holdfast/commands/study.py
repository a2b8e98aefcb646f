"""`holdfast study`: many runs at once: plan, run, status, report, pack, merge."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.commands.flags import parse
from holdfast.commands.parser import Parser
from holdfast.commands.study_evidence import (
    check_settled,
    find_study,
    merge,
    pack,
    print_report,
    refuse_own_code,
    report,
    report_evidence,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import to_json
from holdfast.core.locks import locked
from holdfast.core.progress import read_progress
from holdfast.core.tables import broken_label, without_empty_columns
from holdfast.studies import Study, shipped
from holdfast.studies.estimate import WorkLeft, disk_text, hours_text
from holdfast.studies.evidence_file import SUFFIX
from holdfast.studies.history import job_states
from holdfast.studies.jobs import StudyFolder, StudyJob, make_jobs
from holdfast.studies.on_node import is_running
from holdfast.studies.on_ray import Cluster, FinishedJob
from holdfast.studies.part import part_of
from holdfast.studies.plan import (
    PlannedRun,
    check_devices,
    check_settings,
    check_tasks,
    complete_jobs,
    make_plan,
    status,
)
from holdfast.train.config import TrainConfig

_HELP = """\
Carry out a study: many runs with different settings and seeds, recorded, trained, tried and reported together.

  plan      print the runs, stages, steps, trials, and about how many hours and how much disk they take
  run       carry it out on Ray, on this machine or a cluster; killed, run it again: nothing is lost or done twice
  status    show how far each run has come, and which jobs are running or have failed
  report    write the page about all runs that have trials
  pack      write all that a report needs into one small file of evidence: no weights, no pixels
  merge     join files of evidence of one study, from machines that never met; named first, a study takes its runs
            from the files of others

STUDY is a TOML file, the folder of a study that was started, or one of: {names}.
Stages that several runs have in common are trained once.
"""
_EXAMPLES = """\
examples:
  holdfast study plan replay-frequency
  holdfast study run replay-frequency --trainings 4
  holdfast study run my_study.toml --output results/mine --address auto
  holdfast study run replay-frequency --only seed=1        # a part; another machine takes seed=2,3
  holdfast study status replay-frequency
  holdfast study pack replay-frequency --output half{suffix}
  holdfast study merge half{suffix} other{suffix} --output whole{suffix}
  holdfast study report whole{suffix}
"""

_GOES_WITH = {"only": ("plan", "run"), "source": ("report",), "address": ("run",), "trainings": ("run",)}
_NUMBERS = 52  # characters of all columns of a plan's table but the first


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = _parser()
    args = parser.parse_args(argv)
    for flag, actions in _GOES_WITH.items():
        if args.action not in actions and getattr(args, flag) != parser.get_default(flag):
            raise HoldfastError(f"--{flag} goes with {' and '.join(actions)}, not with `holdfast study {args.action}`.")
    if args.action == "merge":
        merge(args.study, args.output)
    elif args.action == "report" and any(name.endswith(SUFFIX) for name in args.study):
        report_evidence(args.study, args.output, args.source)
    elif len(args.study) > 1:
        raise HoldfastError(f"`holdfast study {args.action}` takes one study, got {', '.join(args.study)}.")
    elif args.action == "pack":
        pack(*find_study(args.study[0], None), args.output)
    else:
        _act(*find_study(args.study[0], args.output), args)
    return 0


def _act(study: Study, folder: StudyFolder, args: argparse.Namespace) -> None:
    if args.action in ("run", "status", "report"):
        check_settled(study, folder)
    if args.action == "report":
        report(study, folder, args.source)
        return
    if Path(args.study[0]).is_dir():
        refuse_own_code(study, args.study[0])
    part = part_of(study, args.only)
    plan = make_plan(study, folder, lambda flags: parse(TrainConfig, "train", list(flags), ""), part)
    console = Console(highlight=False)
    if args.action in ("plan", "run"):
        check_settings(study, plan)
    if args.action == "plan":
        _print_plan(study, folder, plan, console)
    elif args.action == "status":
        _print_status(study, folder, plan, console)
    else:
        _run(study, folder, plan, args, console)


def _parser() -> Parser:
    parser = Parser(
        prog="holdfast study",
        description=_HELP.format(names=", ".join(shipped())),
        epilog=_EXAMPLES.format(suffix=SUFFIX),
    )
    parser.add_argument("action", choices=("plan", "run", "status", "report", "pack", "merge"))
    parser.add_argument(
        "study", metavar="STUDY", nargs="+", help=f"one study; with report and merge also files that end in {SUFFIX}"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="FLAG=VALUE",
        help="with plan and run: only the runs that have all of these settings, like seed=1,2 method=er",
    )
    parser.add_argument("--output", type=Path, help="the study's folder (runs/NAME); with pack and merge, the file")
    parser.add_argument("--source", help="with report: whose trials (those of the study's arena, or the only ones)")
    parser.add_argument("--address", help="with run: a Ray cluster to join, or auto (default: start Ray here)")
    parser.add_argument("--trainings", type=int, default=1, help="with run: trainings at a time on a GPU or node (1)")
    return parser


def _jobs(study: Study, folder: StudyFolder, plan: Sequence[PlannedRun]) -> list[StudyJob]:
    return make_jobs(study, folder, [planned.run for planned in plan])


def _print_plan(study: Study, folder: StudyFolder, plan: Sequence[PlannedRun], console: Console) -> None:
    table = Table(title=Text(f"{study.name}: {study.question or 'no question given'}"), title_justify="left")
    for heading in ("runs", "seeds", "stages", "of them\nshared", "steps", "trials"):
        table.add_column(heading, justify="left" if heading == "runs" else "right", overflow="fold")
    alike = Counter((one.run.label, len(one.stages), one.shared, one.steps, one.trials) for one in plan)
    for (label, stages, shared, steps, trials), seeds in alike.items():
        name = broken_label(label, console.width - _NUMBERS)
        table.add_row(Text(name), str(seeds), str(stages), str(shared or ""), f"{steps:,}", f"{trials:,}")
    table.caption, table.caption_justify = "stages, steps and trials of each run", "left"
    console.print(without_empty_columns(table))
    stages = sum(len(planned.stages) - planned.shared for planned in plan)
    steps, trials = sum(planned.steps for planned in plan), sum(planned.trials for planned in plan)
    console.print(f"{len(plan)} runs, {stages} different stages, {steps:,} steps, {trials:,} trials", soft_wrap=True)
    console.print(hours_text(study, plan, _jobs(study, folder, plan), folder), soft_wrap=True)
    console.print(disk_text(study, plan, folder), soft_wrap=True)


def _print_status(study: Study, folder: StudyFolder, plan: Sequence[PlannedRun], console: Console) -> None:
    table = Table(title=Text(f"{study.name} in {folder.root}"), title_justify="left")
    for heading in ("run", "stages", "trials"):
        table.add_column(heading, justify="left" if heading == "run" else "right", overflow="fold")
    found = status(folder, plan)
    for run in found:
        stages, trials = f"{run.stages} of {len(run.run.stages)}", f"{run.trials} of {run.run.trials}"
        table.add_row(Text(run.run.run.name), stages, trials, style="green" if run.done else None)
    table.caption = f"{sum(run.done for run in found)} of {len(found)} runs are done"
    table.caption_justify = "left"
    console.print(table)
    states = job_states(_jobs(study, folder, plan), folder, complete_jobs(study, folder, found))
    counts = Counter(one.state for one in states)
    console.print(
        f"jobs: {', '.join(f'{counts[state]} {state}' for state in ('done', 'running', 'failed', 'waiting'))}"
    )
    for one in states:
        if one.state in ("running", "failed"):
            style = "red" if one.state == "failed" else ""
            console.print(Text(f"{one.job.name} {one.state}: {one.note}", style), soft_wrap=True)


def _run(
    study: Study, folder: StudyFolder, plan: Sequence[PlannedRun], args: argparse.Namespace, console: Console
) -> None:
    if args.trainings < 1:
        raise HoldfastError(f"--trainings must be at least 1, got {args.trainings}.")
    check_tasks(study, plan)
    with console.status("Starting Ray"):
        cluster = Cluster(args.address, args.trainings)
    check_devices(plan, cluster.has_gpu)
    with locked(folder.lock, f"{folder.root} is being carried out by another process."):
        _settle(study, folder)
        _print_plan(study, folder, plan, console)
        failed = _carry_out(study, folder, plan, cluster, console)
        if not args.only and all(one.trained for one in status(folder, plan)):  # other parts may share them
            shutil.rmtree(folder.shared, ignore_errors=True)
    if failed:
        raise HoldfastError(f"{failed} jobs failed, see above. Mend the cause and run the same command again.")
    _print_status(study, folder, plan, console)
    if study.evaluate:
        print_report(folder, console)


def _settle(study: Study, folder: StudyFolder) -> None:
    """Store the study's settings, or check that the folder was started with the same."""
    check_settled(study, folder)  # again: another process may have started it by now
    write_text(folder.settings, json.dumps(to_json(study), indent=1))


def _carry_out(
    study: Study, folder: StudyFolder, plan: Sequence[PlannedRun], cluster: Cluster, console: Console
) -> int:
    """Run the jobs that are not done yet under a live display; returns how many failed."""
    folder = StudyFolder(folder.root.absolute())
    jobs = _jobs(study, folder, plan)
    states = job_states(jobs, folder, complete_jobs(study, folder, status(folder, plan)))
    left = [one.job for one in states if one.state != "done" or one.job.kind == "report"]
    work = WorkLeft(study, plan, left, folder)
    failed = 0
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        for outcome in cluster.carry_out(left, folder):
            if outcome:
                work.end(outcome)
                failed += bool(outcome.error)
                _print_outcome(outcome, folder, console)
                if not console.is_terminal:
                    console.print(work.text())
            running = [one for one in left if is_running(folder.log(one))]
            now = {job.name: read_progress(folder.log(job)) for job in running}
            bar = ProgressBar(total=1.0, completed=work.share({name: state.share for name, state in now.items()}))
            said = [f"  {name}: {state.text}" for name, state in now.items()]
            lines = [Text(line, overflow="ellipsis", no_wrap=True) for line in said]
            live.update(Group(bar, Text(work.text()), *lines))
    return failed


def _print_outcome(outcome: FinishedJob, folder: StudyFolder, console: Console) -> None:
    job = outcome.job
    if not outcome.error:
        console.print(f"{job.name} done", soft_wrap=True, markup=False)
        return
    console.print(Text(f"{job.name} failed: {outcome.error}", "red"), soft_wrap=True)
    console.print(f"  holdfast {shlex.join(job.command)}", soft_wrap=True, markup=False)
    console.print(f"  its output: {folder.log(job)}", soft_wrap=True, markup=False)

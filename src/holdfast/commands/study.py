"""`holdfast study`: many runs at once: plan, run, status, report, pack, merge."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.commands.flags import parse
from holdfast.commands.study_evidence import check_settled, find_study, merge, pack, report, report_evidence
from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import to_json
from holdfast.core.locks import locked
from holdfast.studies import Study, shipped
from holdfast.studies.evidence_file import SUFFIX
from holdfast.studies.jobs import StudyFolder, StudyJob, make_jobs
from holdfast.studies.plan import PlannedRun, make_plan, status
from holdfast.train.config import TrainConfig

_HELP = """\
Carry out a study: many runs with different settings and seeds, recorded, trained, tried and reported together.

  plan      print the runs, stages, steps and trials
  run       carry it out on Ray, on this machine or a cluster; killed, run it again: nothing is lost or done twice
  status    show how far each run has come
  report    write the page about all runs that have trials
  pack      write all that a report needs into one small file of evidence: no weights, no pixels
  merge     join files of evidence of one study, from machines that never met

STUDY is a TOML file, the folder of a study that was started, or one of: {names}.
Stages that several runs have in common are trained once.
"""
_EXAMPLES = """\
examples:
  holdfast study plan replay-frequency
  holdfast study run replay-frequency --trainings 4
  holdfast study run my_study.toml --output results/mine --address auto
  holdfast study status replay-frequency
  holdfast study pack replay-frequency --output half{suffix}
  holdfast study merge half{suffix} other{suffix} --output whole{suffix}
  holdfast study report whole{suffix}
"""


def main(argv: list[str]) -> int:
    """Run the command."""
    args = _parser().parse_args(argv)
    if args.action == "merge":
        merge(args.study, args.output)
    elif args.action == "report" and any(name.endswith(SUFFIX) for name in args.study):
        report_evidence(args.study, args.output)
    elif len(args.study) > 1:
        raise HoldfastError(f"`holdfast study {args.action}` takes one study, got {', '.join(args.study)}.")
    elif args.action == "pack":
        pack(*find_study(args.study[0], None), args.output)
    else:
        _act(*find_study(args.study[0], args.output), args)
    return 0


def _act(study: Study, folder: StudyFolder, args: argparse.Namespace) -> None:
    if args.action == "report":
        report(study, folder)
        return
    plan = make_plan(study, folder, lambda flags: parse(TrainConfig, "train", list(flags), ""))
    console = Console(highlight=False)
    if args.action == "plan":
        console.print(_plan_table(study, plan))
    elif args.action == "status":
        console.print(_status_table(study, folder, plan))
    else:
        _run(study, folder, plan, args, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast study",
        description=_HELP.format(names=", ".join(shipped())),
        epilog=_EXAMPLES.format(suffix=SUFFIX),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("plan", "run", "status", "report", "pack", "merge"))
    parser.add_argument(
        "study", metavar="STUDY", nargs="+", help=f"one study; with report and merge also files that end in {SUFFIX}"
    )
    parser.add_argument("--output", type=Path, help="the study's folder (runs/NAME); with pack and merge, the file")
    parser.add_argument("--address", help="a Ray cluster to join, or auto (default: start Ray on this machine)")
    parser.add_argument("--trainings", type=int, default=1, help="trainings at a time on each GPU or machine (1)")
    return parser


def _plan_table(study: Study, plan: Sequence[PlannedRun]) -> Table:
    table = Table(title=f"{study.name}: {study.question or 'no question given'}", title_justify="left")
    for heading in ("run", "stages", "of them shared", "steps", "trials"):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    for planned in plan:
        shared = str(planned.shared) if planned.shared else ""
        cells = str(len(planned.stages)), shared, f"{planned.steps:,}", f"{planned.trials:,}"
        table.add_row(planned.run.name, *cells)
    stages = sum(len(planned.stages) - planned.shared for planned in plan)
    steps, trials = sum(planned.steps for planned in plan), sum(planned.trials for planned in plan)
    table.caption = f"{len(plan)} runs, {stages} different stages, {steps:,} steps, {trials:,} trials"
    table.caption_justify = "left"
    return table


def _status_table(study: Study, folder: StudyFolder, plan: Sequence[PlannedRun]) -> Table:
    table = Table(title=f"{study.name} in {folder.root}", title_justify="left")
    for heading in ("run", "stages", "trials"):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    found = status(folder, plan)
    for one in found:
        stages, trials = f"{one.stages} of {len(one.run.stages)}", f"{one.trials} of {one.run.trials}"
        table.add_row(one.run.run.name, stages, trials, style="green" if one.done else None)
    table.caption = f"{sum(one.done for one in found)} of {len(found)} runs are done"
    table.caption_justify = "left"
    return table


def _run(
    study: Study, folder: StudyFolder, plan: Sequence[PlannedRun], args: argparse.Namespace, console: Console
) -> None:
    if args.trainings < 1:
        raise HoldfastError(f"--trainings must be at least 1, got {args.trainings}.")
    with locked(folder.lock, f"{folder.root} is being carried out by another process."):
        _settle(study, folder)
        console.print(_plan_table(study, plan))
        failed = _carry_out(make_jobs(study, folder, os.cpu_count() or 1), folder, args, console)
    if failed:
        raise HoldfastError(f"{failed} jobs failed, see above. Mend the cause and run the same command again.")
    console.print(_status_table(study, folder, plan))
    if study.evaluate:
        console.print(f"Report: {folder.report}", soft_wrap=True)


def _settle(study: Study, folder: StudyFolder) -> None:
    """Store the study's settings, or check that the folder was started with the same."""
    if folder.settings.exists():
        check_settled(study, folder)
    write_text(folder.settings, json.dumps(to_json(study), indent=1))


def _carry_out(jobs: Sequence[StudyJob], folder: StudyFolder, args: argparse.Namespace, console: Console) -> int:
    """Run the jobs under a live display; returns how many failed."""
    from holdfast.studies.on_ray import Resources, carry_out, last_line

    began, done, failed = time.monotonic(), 0, 0
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        live.update(Text("Starting Ray"))
        for outcome, running in carry_out(jobs, folder.logs, Resources(args.address, args.trainings)):
            if outcome and outcome.error:
                failed += 1
                console.print(Text(f"{outcome.job.name} failed: {outcome.error}", "red"), soft_wrap=True)
                console.print(f"  holdfast {shlex.join(outcome.job.command)}", soft_wrap=True)
                console.print(f"  its output: {folder.logs / outcome.job.name}.log", soft_wrap=True)
            elif outcome:
                done += 1
                console.print(f"{outcome.job.name} done", soft_wrap=True)
            head = Text(f"{done} of {len(jobs)} jobs done, {time.monotonic() - began:.0f} s")
            states = [f"  {job.name}: {last_line(folder.logs / f'{job.name}.log')}" for job in running]
            live.update(Group(head, *(Text(state, overflow="ellipsis", no_wrap=True) for state in states)))
    return failed

"""`holdfast doctor TARGET...`: check datasets for faults before training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from holdfast import catalog, embodiments
from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError, printable, unknown
from holdfast.core.hub import looks_like_hub_id
from holdfast.core.json_records import finite
from holdfast.core.progress import progress_bar
from holdfast.core.records import Mapping
from holdfast.data.doctor.checks import Examination, examine
from holdfast.data.doctor.findings import Expected, Finding, Summary
from holdfast.data.lerobot.source import camera_name

_HELP = """\
Check datasets for faults before training, and say what to do about each.

A TARGET is a LeRobot v3 dataset (a folder or a hub id), or a stream (a .toml file, or one of the catalog's:
{streams}). For a stream all datasets are examined, and more can be checked: which arms should
move, how fast the robot can move, and whether all datasets agree.

Every image is decoded, and every file is hashed and compared with what it was when Holdfast first saw it. That takes
a while for long videos; --fast leaves it out.

Kinds of faults:

  unreadable      files that are missing, damaged, empty, or of another version
  wrong-counts    meta/info.json counts other episodes or frames than the tables have
  nan             values that are NaN or infinite
  mapping         the stream's cameras, dimensions or rate do not fit the dataset
  dimensions      action, embodiment and the other tasks do not name the same dimensions in the same order
  missing-camera, camera-size
                  cameras that differ between the datasets of a stream
  camera-key      a camera stored under a key that policies do not read; a stream file can rename it
  wrong-fps       timestamps, videos and meta/info.json disagree about the frame rate
  video-frames    a video that lost frames, so that images and actions are out of step
  damaged-images  images that the decoder cannot decode, or cannot decode without guessing
  altered-file    a file with other bytes than when it was first seen, but the same size: damage, not editing
  uniform-camera, constant-camera
                  a camera that was covered, unplugged or frozen (a few images of three episodes are decoded)
  frozen-joint    a joint that never moves, or an action that never changes, though the task uses its arm; an episode in
                  which nothing moves
  jumping-joint   a joint that moves further in one frame than is possible
  action-state    actions with the name of a state that are no targets for it: increments, switches, other units
  action-kind     actions that are not of the kind, or not within the limits, that the embodiment declares
  short-episode   shorter than a chunk, or a fifth of the usual length
  instruction     the dataset's instruction is not the stream's (training uses the stream's)
  duplicate       an episode that occurs twice

Exit code: 0 no error was found (there may be warnings), 1 at least one error, 2 wrong usage.
"""
_EXAMPLES = """\
examples:
  holdfast doctor data/stack_bowls
  holdfast doctor data/*
  holdfast doctor kitchen.toml
  holdfast doctor single_arm --data_root=data
  holdfast doctor lerobot/aloha_sim_insertion_human --json
"""
_COLOURS = {"error": "red", "warning": "yellow"}


def main(argv: list[str]) -> int:
    """Run `holdfast doctor`."""
    parser = Parser(
        prog="holdfast doctor",
        description=_HELP.format(streams=", ".join(catalog.streams())),
        epilog=_EXAMPLES,
    )
    parser.add_argument("targets", metavar="TARGET", nargs="+", help="a dataset folder, a hub id, or a stream")
    parser.add_argument("--data_root", "--data-root", metavar="DIR", help="folder of a stream's dataset folders")
    parser.add_argument("--fast", action="store_true", help="find neither damaged-images nor altered-file")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    args = parser.parse_args(argv)

    # Parse all targets before opening the first, so that a typo is reported at once.
    targets = [_datasets(target, args.data_root) for target in args.targets]
    # A pipe has no width of its own.
    console = Console(stderr=args.json, width=max(100, Console().width), highlight=False)
    mappings = {dataset: expected.mapping for datasets in targets for dataset, expected in datasets}
    examinations: list[Examination] = []
    for datasets in targets:
        for examination in _examine(datasets, args.fast, console):
            examinations.append(examination)
            if not args.json:
                _print(examination, mappings.get(examination.dataset), console)
    findings = [finding for examination in examinations for finding in examination.findings]
    if args.json:
        summaries = [asdict(e.summary) for e in examinations if e.summary]
        seen = {dataset: str(mapping) for dataset, mapping in mappings.items() if mapping}
        found = {"datasets": summaries, "findings": [asdict(f) for f in findings], "mappings": seen}
        print(json.dumps(finite(found), allow_nan=False))
    else:
        console.print(_closing(findings, len(examinations)))
    return int(any(finding.severity == "error" for finding in findings))


def _datasets(target: str, data_root: str | None) -> list[tuple[str, Expected]]:
    """The datasets of a target, each with what is known about it."""
    if Path(target).is_dir():
        return [(target, Expected())]
    if target.endswith(".toml") or target.partition(":")[0] in catalog.streams():
        stream = catalog.load_stream(target, data_root)
        robot = embodiments.load(stream.embodiment) if stream.embodiment else None
        for entry in stream.tasks:
            if robot is not None:
                robot.active(entry.task.arms)  # an unknown arm is an error of the stream, not of the data
        return [(entry.dataset, Expected(entry.task, robot, mapping=entry.mapping)) for entry in stream.distinct]
    if looks_like_hub_id(target):
        return [(target, Expected())]
    raise HoldfastError(
        f"{unknown('target', target, catalog.streams())} Or give a dataset folder, a stream's .toml file, or a hub id "
        "`user/name`."
    )


def _examine(datasets: list[tuple[str, Expected]], fast: bool, console: Console) -> Iterator[Examination]:
    """Examine datasets in order, each against the first that could be read."""
    first: Summary | None = None
    for dataset, expected in datasets:
        with progress_bar(console) as bar:
            task = bar.add_task(f"examining {escape(dataset)}", total=None, note="")
            advance = partial(_advance, bar, task)
            examination = examine(dataset, replace(expected, first=first), fast=fast, advance=advance)
        first = first or examination.summary
        yield examination


def _advance(bar: Progress, task: TaskID, more: int, total: int) -> None:
    bar.update(task, advance=more, total=total)


def _print(examination: Examination, mapping: Mapping | None, console: Console) -> None:
    console.print(f"[bold]{escape(examination.dataset)}[/]", soft_wrap=True)
    if mapping is not None:
        console.print(f"  mapped by the stream: {escape(str(mapping))}", style="dim", soft_wrap=True)
    if examination.summary:
        console.print(f"  {escape(_describe(examination.summary))}", style="dim", soft_wrap=True)
    for finding in examination.findings:
        where, detail, advice = (escape(printable(text)) for text in (finding.where, finding.detail, finding.advice))
        entry = Table.grid(padding=(0, 2))
        entry.add_column(width=9)
        title = f"[bold]{escape(finding.kind)}[/]  {where}"
        entry.add_row(f"  [{_COLOURS[finding.severity]}]{finding.severity}[/]", f"{title}\n{detail}")
        console.print(entry)
        # Advice may contain a command to copy, so it is not wrapped here.
        console.print(f"           [green]->[/] {advice}", soft_wrap=True)
    console.print()


def _describe(summary: Summary) -> str:
    cameras = ", ".join(f"{camera_name(key)} {height}x{width}" for key, (height, width) in summary.cameras.items())
    minutes = summary.minutes
    duration = f"{minutes:.1f} minutes" if minutes >= 1 else f"{60 * minutes:.0f} seconds"
    return (
        f"{_plural(summary.episodes, 'episode')} of {summary.mean_length:.0f} frames on average, {summary.frames} "
        f"frames at {summary.fps:g} per second, {duration}; {cameras}"
    )


def _closing(findings: list[Finding], datasets: int) -> str:
    where = _plural(datasets, "dataset")
    if not findings:
        return f"[green]nothing found[/] in {where}"
    counts = {severity: sum(f.severity == severity for f in findings) for severity in _COLOURS}
    said = [f"[{_COLOURS[s]}]{_plural(n, s)}[/]" for s, n in counts.items() if n]
    return f"{', '.join(said)} in {where}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")

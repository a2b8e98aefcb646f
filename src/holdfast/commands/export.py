"""`holdfast export buffer|policy RUN`: write a run's kept episodes as a LeRobot dataset, or its policy as pi05."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast import catalog, embodiments
from holdfast.commands.parser import Parser
from holdfast.core import outside
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import check_path
from holdfast.core.progress import progress_bar, working
from holdfast.core.records import Stream, StreamTask

if TYPE_CHECKING:
    from holdfast.data.lerobot.export import EpisodeChoice
    from holdfast.embodiments.embodiment import Embodiment
    from holdfast.replay.buffer import Kept

_HELP = """\
Write exactly the episodes that a run keeps for replay as one LeRobot v3 dataset, which LeRobot can open, merge and push
to the hub. Every task has one instruction, that of the stream. Videos are copied packet by packet where possible, else
encoded without loss. meta/provenance.json says where each episode comes from.

Or write a stage's pi05_fast policy as a folder that LeRobot's own pi05 loads, without Holdfast.
"""
_EXAMPLES = """\
examples:
  holdfast export buffer runs/kitchen-er --output=kept
  holdfast export buffer runs/kitchen-er --stage=2 --output=kept_after_two
  holdfast export buffer imported.json --stream=kitchen.toml --output=kept
  holdfast export policy runs/kitchen-er --stage=2 --output=pi05_after_two
"""


def main(argv: list[str]) -> int:
    """Run `holdfast export`."""
    parser = Parser(
        prog="holdfast export",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument("what", choices=["buffer", "policy"], help="what to export")
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder, or a buffer.json of `holdfast import`")
    parser.add_argument("--stage", type=int, metavar="K", help="the stage (the last finished one)")
    parser.add_argument("--stream", help="the stream of the tasks (the run's)")
    parser.add_argument("--data_root", "--data-root", metavar="DIR", help="folder of a catalog stream's datasets")
    parser.add_argument("--instruction", help="of --method=adapters: the task whose LoRA is merged into the policy")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="the new dataset or policy")
    args = parser.parse_args(argv)
    check_path(args.output, "--output")
    if os.path.lexists(args.output):  # a link that leads nowhere, too
        raise HoldfastError(f"{args.output} exists already. Choose another --output, or delete it first.")
    file = args.run if args.run.is_file() else _buffer_file(args.run, args.stage)
    if args.what == "policy":
        return _export_policy(file.with_name("policy"), args.output, args.instruction)
    stream = _stream(file, args.stream, args.data_root)
    embodiment = embodiments.load(stream.embodiment) if stream.embodiment else None

    with working("reading the kept episodes"):
        from holdfast.core import checked_folder
        from holdfast.data.lerobot.export import write_episodes
        from holdfast.replay.store import read_buffer, size

        buffer = read_buffer(file)
        entries = {entry.task.name: entry for entry in stream.tasks}
        parts = [_part(kept, entries, embodiment, args.run) for kept in buffer.tasks]
    note = {"run": str(args.run), "stage": len(parts), "ratio": buffer.ratio}
    episodes = sum(len(part.episodes) for part in parts)
    with progress_bar(Console(stderr=True), part=(0.0, 1.0)) as bar:
        total = sum(len(part.episodes) * len(part.source.cameras) for part in parts)
        row = bar.add_task("copying and comparing videos", total=total, note=f"of {episodes} episodes")
        checked_folder.write(args.output, lambda folder: write_episodes(folder, parts, note, lambda: bar.advance(row)))
    print(f"{episodes} episodes of {len(parts)} tasks, {size(args.output) / 2**20:.1f} MiB, in {args.output}")
    return 0


def _export_policy(folder: Path, output: Path, instruction: str | None) -> int:
    with working("converting the policy"):
        from holdfast.core import checked_folder
        from holdfast.policies.pi05.stock import write_stock

        checked_folder.write(output, lambda target: write_stock(folder, target, instruction))
    print(f"LeRobot's pi05 loads {output}: --policy.path={output}")
    return 0


def _buffer_file(run: Path, stage: int | None) -> Path:
    """The buffer of a run's stage."""
    from holdfast.runs.paths import RunPaths
    from holdfast.runs.run import started_stages

    files = {stage.number: stage.checkpoint.buffer_file for stage in started_stages(RunPaths(run))}
    found = {number: file for number, file in files.items() if file.exists()}
    if not found:
        raise HoldfastError(f"{run} is not a run with a finished stage: there is no stages/*/checkpoint/buffer.json.")
    if stage is not None and stage not in found:
        raise unknown("finished stage", stage, found)
    return found[max(found) if stage is None else stage]


def _stream(file: Path, stream: str | None, data_root: str | None) -> Stream:
    """The given stream, or the one recorded beside a run's buffer."""
    beside = file.with_name("config.json")
    if stream is None and not beside.is_file():
        raise HoldfastError(f"{file} does not say which stream its tasks belong to. Add --stream=FILE.")
    if stream is None:
        config = outside.read_json(beside, finite=False)
        match config:
            case {"stream": str() as stream, "data_root": str() | None as root}:
                data_root = data_root or root
            case _:
                raise HoldfastError(f"{beside} does not name a stream and a data_root. Add --stream=FILE.")
    try:
        return catalog.load_stream(stream, data_root)
    except HoldfastError as error:
        raise HoldfastError(f"{error} Or give another with --stream=FILE.") from None


def _part(kept: Kept, entries: dict[str, StreamTask], embodiment: Embodiment | None, run: Path) -> EpisodeChoice:
    """The kept episodes of a task, from the run's own copy if there is one, else from its dataset."""
    from holdfast.data.lerobot.export import EpisodeChoice
    from holdfast.data.lerobot.source import open_source
    from holdfast.data.mapping import apply
    from holdfast.replay.store import EpisodeStore
    from holdfast.runs.paths import RunPaths

    if kept.task not in entries:
        raise unknown("task in the stream", kept.task, entries)
    entry = entries[kept.task]
    whose = {"task": kept.task, "dataset": entry.dataset, "fingerprint": kept.fingerprint}
    origin = {**whose, "episodes": list(kept.episodes)}
    store = EpisodeStore(RunPaths(run).buffer)
    copy = store.place(kept)
    if kept.copy is not None and copy.is_dir():
        store.check(kept)
        source = apply(open_source(str(copy)), entry.mapping, embodiment)
        return EpisodeChoice(source, kept.places, origin, entry.task.instruction)
    source = apply(open_source(entry.dataset), entry.mapping, embodiment)
    if not source.matches(kept.fingerprint):
        raise HoldfastError(
            f"Dataset {entry.dataset} of task {kept.task!r} or its mapping has changed since the episodes were chosen."
        )
    return EpisodeChoice(source, kept.episodes, origin, entry.task.instruction)

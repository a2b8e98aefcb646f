"""`holdfast import dataset|tasks|buffer`: convert data in other formats."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from rich.console import Console

from holdfast import catalog, embodiments
from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import to_json
from holdfast.core.names import check_path
from holdfast.core.progress import progress_bar
from holdfast.core.records import StreamTask

_HELP = """\
Convert data in other formats. Originals are never changed.

  dataset FOLDER   a LeRobot v2.1 dataset, converted to v3.0 by LeRobot's own script. For HDF5 (ALOHA) and RLDS
                   LeRobot 0.6.1 has no converter; the command then says what to do.
  tasks DATASET    a dataset of many tasks, a folder or a hub id: OUTPUT/TASK gets the episodes of each task of the
                   stream, those with exactly its instruction. Videos are copied without loss.
  buffer FILE...   task1_buffer.json, task2_buffer.json, ... of the paper's released code, for tasks 1, 2, ... of the
                   stream, checked against its datasets. `holdfast export buffer` makes a dataset of the result.

A norm_stats.json needs no import: `holdfast train --norm.stats=norm_stats.json` reads it.
"""
_EXAMPLES = """\
examples:
  holdfast import dataset old/stack_bowls --output=data/stack_bowls
  holdfast import tasks me/libero --stream=libero_goal --output=data
  holdfast import buffer buffers/task*_buffer.json --stream=kitchen.toml --output=kept.json
"""


def main(argv: list[str]) -> int:
    """Run `holdfast import`."""
    parser = Parser(
        prog="holdfast import",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument("kind", choices=["dataset", "tasks", "buffer"], help="what to import")
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="the folder, or the files")
    parser.add_argument(
        "--output", required=True, type=Path, help="the new dataset's folder, that of all (tasks), or the new file"
    )
    parser.add_argument("--stream", help="(tasks, buffer) the stream whose tasks they are")
    parser.add_argument("--data_root", "--data-root", metavar="DIR", help="folder of a catalog stream's datasets")
    parser.add_argument("--ratio", type=float, default=0.2, help="(buffer) the budget it was built with; default 0.2")
    args = parser.parse_args(argv)
    check_path(args.output, "--output")
    if os.path.lexists(args.output):  # a link that leads nowhere, too
        raise HoldfastError(f"{args.output} exists already. Choose another --output, or delete it first.")
    if args.kind == "buffer":
        return _import_buffer(args.paths, args.stream, args.data_root, args.ratio, args.output)
    if len(args.paths) > 1:
        raise HoldfastError(f"One dataset at a time, got {len(args.paths)}: {', '.join(map(str, args.paths))}.")
    if args.kind == "tasks":
        return _import_tasks(str(args.paths[0]), args.stream, args.output)
    return _import_dataset(args.paths[0], args.output)


def _import_dataset(folder: Path, output: Path) -> int:
    from holdfast.core import checked_folder
    from holdfast.data.lerobot.convert import check_convertible, convert
    from holdfast.data.lerobot.source import open_source

    check_convertible(folder)

    def fill(target: Path) -> None:
        convert(folder, target)
        open_source(str(target))

    checked_folder.write(output, fill)
    print(f"{output} has version v3.0; {folder} is unchanged. Next: holdfast doctor {output}")
    return 0


def _import_tasks(dataset: str, stream: str | None, output: Path) -> int:
    from holdfast.core import checked_folder
    from holdfast.data.lerobot.export import EpisodeChoice, write_episodes
    from holdfast.data.lerobot.instructions import episodes_by_instruction
    from holdfast.data.lerobot.source import open_source

    if stream is None:
        raise HoldfastError("A dataset of many tasks is shared out to those of a stream. Add --stream=NAME or FILE.")
    tasks = [entry.task for entry in catalog.load_stream(stream, str(output)).distinct]
    source = open_source(dataset)
    found = {words: episodes for words, episodes in episodes_by_instruction(source).items() if episodes}
    told = [task.instruction for task in tasks]
    for task in tasks:
        if task.instruction not in found:
            raise unknown(f"instruction of {dataset}, for the task {task.name!r}", task.instruction, found)
        if told.count(task.instruction) > 1:
            raise HoldfastError(f"Several tasks of {stream} have the instruction {task.instruction!r}.")
    total = sum(len(found[words]) for words in told)

    def fill(folder: Path) -> None:
        for task in tasks:
            episodes = found[task.instruction]
            origin = {"task": task.name, "dataset": dataset, "fingerprint": source.fingerprint}
            choice = EpisodeChoice(source, episodes, {**origin, "episodes": list(episodes)})
            (folder / task.name).mkdir()
            write_episodes(folder / task.name, [choice], {"stream": stream}, lambda: bar.advance(row))

    with progress_bar(Console(stderr=True), part=(0.0, 1.0)) as bar:
        row = bar.add_task("copying and comparing", total=total * len(source.cameras), note=f"{total} episodes")
        checked_folder.write(output, fill)
    for task in tasks:
        print(f"{task.name}: {len(found[task.instruction])} episodes")
    others = len(source.starts) - total
    print(f"{others} other episodes were left out. " * bool(others) + f"Next: holdfast doctor {output / tasks[0].name}")
    return 0


def _import_buffer(files: list[Path], stream: str | None, data_root: str | None, ratio: float, output: Path) -> int:
    from holdfast.core.files import write_text
    from holdfast.data.lerobot.source import open_source
    from holdfast.data.mapping import apply
    from holdfast.replay.buffer import Buffer, Kept
    from holdfast.replay.released import read_episodes

    if stream is None:
        raise HoldfastError("A buffer does not say which tasks it belongs to. Add --stream=FILE.")
    loaded = catalog.load_stream(stream, data_root)
    embodiment = embodiments.load(loaded.embodiment) if loaded.embodiment else None
    tasks = []
    for number, file in sorted((_number(file), file) for file in files):
        entry = _entry(loaded.tasks, number, file)
        source = apply(open_source(entry.dataset), entry.mapping, embodiment)
        episodes = read_episodes(file, source.raw.starts.tolist(), source.raw.ends.tolist())
        tasks.append(Kept(entry.task.name, source.fingerprint, len(source.starts), episodes))
        print(f"{entry.task.name}: {len(episodes)} of {len(source.starts)} episodes")
    write_text(output, json.dumps(to_json(Buffer(ratio, tuple(tasks))), indent=1))
    print(f"Written to {output}. As a dataset: holdfast export buffer {output} --stream={stream} --output=FOLDER")
    return 0


def _number(file: Path) -> int:
    found = re.fullmatch(r"task(\d+)_buffer\.json", file.name)
    if not found:
        raise HoldfastError(
            f"{file} must be named task1_buffer.json, task2_buffer.json, ...: the number is that of the task."
        )
    return int(found[1])


def _entry(tasks: tuple[StreamTask, ...], number: int, file: Path) -> StreamTask:
    if not 1 <= number <= len(tasks):
        raise unknown(f"task of the stream, for {file}", number, range(1, len(tasks) + 1))
    return tasks[number - 1]

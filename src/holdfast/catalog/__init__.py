"""The benchmark as data: tasks, cameras, streams and published figures; and the reader of users' own streams."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.catalog.field import field_stream, field_streams
from holdfast.catalog.field import metaworld_group as metaworld_group
from holdfast.catalog.published import Paper as Paper
from holdfast.catalog.published import paper as paper
from holdfast.catalog.reader import build, check_keys, convert, read, toml_keys
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.hub import looks_like_hub_id
from holdfast.core.names import LONGEST_FILE, check_name, check_path
from holdfast.core.records import Mapping, Stream, StreamTask, Task

_HERE = Path(__file__).parent
_PLACE = ("dataset", *toml_keys(Mapping))  # keys of a stream's task about its dataset and mapping
_MOST_TASKS = 1000  # of a stream


@dataclass(frozen=True)
class CellCamera:
    """A camera of the benchmark's cell and the images it records."""

    name: str
    height: int
    width: int
    fps: int


def tasks() -> dict[str, Task]:
    """All tasks of the catalog by name, one-arm tasks first."""
    return dict(_tasks())


def task(name: str) -> Task:
    """The catalog task called `name`."""
    if name not in _tasks():
        raise unknown("task", name, _tasks())
    return _tasks()[name]


def cameras() -> tuple[CellCamera, ...]:
    """The benchmark's cameras."""
    return convert(tuple[CellCamera, ...], read(_HERE / "tasks.toml")["camera"], "camera")


def streams() -> tuple[str, ...]:
    """Names of the catalog's streams: the benchmark's, then those of the field."""
    return (*_streams(), *field_streams())


def load_stream(name_or_path: str, data_root: str | None = None) -> Stream:
    """Load a stream of the catalog by name, or one from a TOML file; no dataset is opened.

    LIBERO's suites have 21 orders: `libero_goal:3`.

    Args:
        name_or_path: One of `streams()`, or the path of a TOML file.
        data_root: Folder with one dataset folder per task, for tasks that do not name a dataset.
    """
    known = _streams().get(name_or_path) or field_stream(name_or_path)
    if known:
        return _stream(known, _HERE, data_root, f"catalog stream {name_or_path!r}")
    path = Path(os.path.expanduser(name_or_path))
    if not os.path.exists(path):
        raise HoldfastError(
            f"{unknown('stream', name_or_path, streams())} There is no file of that name either; "
            "for your own stream, give the path of its TOML file."
        )
    return _stream(read(path), path.parent, data_root, str(path))


@cache
def _tasks() -> dict[str, Task]:
    tables = read(_HERE / "tasks.toml")["task"]
    return {table["name"]: _task(table, f"task {table['name']!r}") for table in tables}


@cache
def _streams() -> dict[str, dict[str, Any]]:
    return {table["name"]: table for table in read(_HERE / "streams.toml")["stream"]}


def _stream(table: dict[str, Any], folder: Path, data_root: str | None, where: str) -> Stream:
    check_keys(table, ("name", "embodiment", "task"), where)
    name = convert(str, table.get("name"), f"{where}: 'name'")
    check_name(name, where)
    embodiment = table.get("embodiment")
    if embodiment is not None:
        embodiment = convert(str, embodiment, f"{where}: 'embodiment'")
        beside = os.path.join(folder, os.path.expanduser(embodiment))
        embodiment = beside if os.path.isfile(beside) else embodiment
    entries = table.get("task", [])
    if not isinstance(entries, list) or not entries:
        raise HoldfastError(f"{where} lists no task. Add a table [[task]] with a name and a dataset for each.")
    if len(entries) > _MOST_TASKS:
        raise HoldfastError(f"{where} lists {len(entries)} tasks. Use at most {_MOST_TASKS}.")
    built: dict[int, StreamTask] = {}
    for n, entry in enumerate(entries, 1):
        back = [known for known in built.values() if entry == {"name": known.task.name}]  # a task that comes back
        built[n] = back[0] if back else _stream_task(entry, folder, data_root, embodiment, f"{where}: task {n}")
    try:
        return Stream(name, tuple(built.values()), embodiment)
    except HoldfastError as error:
        raise HoldfastError(f"{where}: {error}") from None


def _only_arm(embodiment: str | None) -> dict[str, list[str]]:
    """The arms of a task that names none: the robot's only arm; `arm`, if the stream names no robot."""
    if embodiment is None:
        return {"arms": ["arm"]}
    from holdfast import embodiments  # imports numpy, which most streams do not need

    arms = embodiments.load(embodiment).arms
    return {"arms": list(arms)} if len(arms) == 1 else {}


def _stream_task(entry: object, folder: Path, data_root: str | None, embodiment: str | None, where: str) -> StreamTask:
    """A task of a stream: one of the catalog by name, or a new one defined in place."""
    if not isinstance(entry, dict):
        raise HoldfastError(f"{where} must be a table [[task]], got {entry!r}.")
    check_keys(entry, (*_PLACE, *toml_keys(Task)), where)
    name = convert(str, entry.get("name"), f"{where}: 'name'")
    where = f"{where} ({name!r})"
    definition = {key: value for key, value in entry.items() if key not in _PLACE}
    if name in _tasks():
        if len(definition) > 1:
            extra = ", ".join(sorted(definition.keys() - {"name"}))
            raise HoldfastError(
                f"{where} is a task of the catalog, whose definition is fixed. Drop {extra}, or choose another name."
            )
        found = _tasks()[name]
    elif "instruction" not in entry:
        raise HoldfastError(
            f"{where}: {unknown('task', name, _tasks())} To define a new one, add instruction and arms."
        )
    else:
        found = _task(definition if "arms" in definition else {**_only_arm(embodiment), **definition}, where)
    return StreamTask(found, _dataset(entry, name, folder, data_root, where), _mapping(entry, where))


def _mapping(entry: dict[str, Any], where: str) -> Mapping | None:
    """The mapping of the dataset, if the stream has one."""
    table = {key: entry[key] for key in toml_keys(Mapping) if key in entry}
    return build(Mapping, table, where) if table else None


def _dataset(entry: dict[str, Any], name: str, folder: Path, data_root: str | None, where: str) -> str:
    """The dataset of a task: an absolute path, or a hub id as written."""
    if "dataset" not in entry:
        if not data_root:
            raise HoldfastError(
                f"{where} names no dataset. Give --data_root=FOLDER to use FOLDER/{name}"
                + (", or write dataset = ... in the file." if folder != _HERE else " and likewise for the other tasks.")
            )
        path = os.path.abspath(os.path.join(os.path.expanduser(data_root), name))
        check_path(path, "--data_root", LONGEST_FILE)
        return path
    dataset = convert(str, entry["dataset"], f"{where}: 'dataset'")
    if not dataset.strip():
        raise HoldfastError(f"{where} has an empty dataset. Write a folder, or a hub id like 'user/name'.")
    path = os.path.abspath(os.path.join(folder, os.path.expanduser(dataset)))
    check_path(path, f"{where}: the dataset's name", LONGEST_FILE)
    return dataset if looks_like_hub_id(dataset) and not os.path.exists(path) else path


def _task(table: dict[str, Any], where: str) -> Task:
    built = build(Task, table, where)
    names = [penalty.name for penalty in built.penalties]
    if len(set(names)) != len(names):
        raise HoldfastError(f"{where} has two penalties of the same name: {names}.")
    return built

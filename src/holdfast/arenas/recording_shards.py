"""The shards of a recording: each is a complete dataset with the demonstrations of a few seeds.

So shards are recorded in parallel, a kill loses only those in progress, and a restart sees on disk what is missing.
Frames are not put into the frame cache: it holds them at a policy's size, which is not known yet.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import arenas
from holdfast.arenas.arena import Arena
from holdfast.arenas.demonstrate import Demonstration, RecordingOrder, demonstrate
from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.outside import read_json
from holdfast.data.doctor.findings import Expected
from holdfast.data.doctor.pictures import lost_frames
from holdfast.data.lerobot.folder import ACTION, STATE, read_cameras, read_info, read_names
from holdfast.data.lerobot.source import camera_name, open_source
from holdfast.data.lerobot.writer import add_patiently, dataset_writer, frame, merge_datasets

SHARD = 5  # seeds per shard: the most a kill loses in each process, and the most that others wait for at the end
NOTES = Path("meta") / "recording.json"
FRAMES = "frames"  # folder of images that are not encoded yet
BEFORE = "before"  # a finished recording, while a longer one takes its place
_BROKEN = 3  # layouts of a shard: if the arena fails in all of them, it is not the layouts
_SMALL = 224  # smaller images are stored with colours in full resolution


def missing_shards(order: RecordingOrder, work: Path, begun: Path | None = None) -> list[range]:
    """Seeds of the shards to record next; none when all episodes are recorded. `begun` is a shorter recording."""
    return [seeds for seeds in _planned(order, work, begun) if not _place(work, seeds).exists()]


def finished_shards(order: RecordingOrder, work: Path, begun: Path | None = None) -> list[Path]:
    """Folders of the finished shards, in the order of their seeds; a shorter recording is the first."""
    shards = [shard for seeds in _planned(order, work, begun) if (shard := _place(work, seeds)).exists()]
    return [begun, *shards] if begun else shards


def _planned(order: RecordingOrder, work: Path, begun: Path | None) -> list[range]:
    """Seeds of all shards, as far as known: further seeds replace those whose demonstrations failed.

    A recording ends with the seed of its last episode, so a longer one goes on after it as if it had never stopped.
    """
    planned: list[range] = []
    first, kept = order.seed, 0
    if begun:
        seeds, dropped = seeds_of([begun])
        first, kept = first + len(seeds) + len(dropped), len(seeds)
    while kept < order.episodes:
        end = first + order.episodes - kept
        shards = [range(seed, min(seed + SHARD, end)) for seed in range(first, end, SHARD)]
        planned += shards
        if not all(_place(work, seeds).exists() for seeds in shards):
            break
        kept += sum(len(_notes_of(_place(work, seeds))["seeds"]) for seeds in shards)
        first = end
    return planned


def record_shard(
    order: RecordingOrder, work: Path, seeds: range, count: Callable[[bool], None], stepped: Callable[[], None]
) -> list[str]:
    """Record the demonstrations of some seeds into a shard of their own, which gets its name when it is complete.

    Returns why layouts were dropped in which the arena failed. If it fails in all of several, that is an error.

    Args:
        order: What to record.
        work: Folder of the shards.
        seeds: Layouts to demonstrate.
        count: Called after each demonstration with whether it is kept.
        stepped: Called after each control step.
    """
    writing = work / f"writing-{seeds.start}"
    shutil.rmtree(writing, ignore_errors=True)
    kept: list[int] = []
    failures: list[str] = []
    with ExitStack() as stack:
        dataset = None
        for seed in seeds:
            demonstration = demonstrate(order, seed, work / FRAMES, stepped)
            if demonstration.full:
                if dataset is None:
                    dataset = stack.enter_context(_open(order, writing))
                _encode(order, dataset, demonstration)
                kept.append(seed)
            if demonstration.failure:
                failures.append(f"layout {seed} is dropped. {demonstration.failure}")
            else:
                count(demonstration.full)
    if len(failures) == len(seeds) >= _BROKEN:
        raise HoldfastError(f"The arena failed in all of {len(seeds)} layouts, as in {failures[-1]}")
    for _ in failures:  # only now it is sure that they are dropped
        count(False)
    if kept:
        _verify(writing)
    _write_notes(writing, order, kept, [seed for seed in seeds if seed not in kept])
    writing.rename(_place(work, seeds))
    return failures


def join_shards(order: RecordingOrder, shards: list[Path], work: Path, final: Path) -> None:
    """Make one dataset of all shards, which gets its name when it is complete.

    A shorter recording of that name, which is the first of the shards, is kept in `work` until then.
    """
    seeds, dropped = seeds_of(shards)
    filled = [shard for shard in shards if _notes_of(shard)["seeds"]]
    whole = work / "whole"  # a shard keeps its own notes: after a kill it counts again
    shutil.rmtree(whole, ignore_errors=True)
    if len(filled) > 1:
        merge_datasets(filled, whole)
        _verify(whole)
    else:
        shutil.copytree(filled[0], whole)
    _write_notes(whole, order, seeds, dropped)
    if final.exists():
        final.rename(work / BEFORE)
    whole.rename(final)


def seeds_of(shards: list[Path]) -> tuple[list[int], list[int]]:
    """Seeds of the episodes of shards, and of demonstrations dropped on the way."""
    notes = [_notes_of(shard) for shard in shards]
    return [seed for n in notes for seed in n["seeds"]], [seed for n in notes for seed in n["dropped"]]


def read_notes(dataset: Path) -> dict[str, Any] | None:
    """A recording's `order`, `seeds` and `dropped`; None if the dataset is not a recording of an arena."""
    try:
        notes = read_json(dataset / NOTES)
    except HoldfastError:
        return None
    match notes:
        case {"order": {"task": str(), "level": str()}, "seeds": [*seeds], "dropped": [*dropped]}:
            return notes if all(isinstance(seed, int) for seed in (*seeds, *dropped)) else None
    return None


def check_same(order: RecordingOrder, begun: Any, where: Path) -> None:
    """Refuse to continue what was begun `where` with another order."""
    if not isinstance(begun, dict):
        raise HoldfastError(f"{where} does not say what it records. Choose another --output, or delete it.")
    _refuse(_changes(begun, order), where)


def check_arena(order: RecordingOrder, shards: list[Path]) -> None:
    """Refuse to add to shards that the arena, which may have changed since, would make in another way."""
    arena = arenas.load(order.arena)
    now = {
        "rate": arena.rate,
        "robot": _robot(arena),
        "state": arena.state,
        "action": arena.action,
        "cameras": sorted(arena.cameras),
    }
    for shard in shards:
        if _notes_of(shard)["seeds"]:
            info = read_info(shard)
            was = {
                "rate": info["fps"],
                "robot": info.get("robot_type"),
                "state": read_names(shard, info, STATE),
                "action": read_names(shard, info, ACTION),
                "cameras": sorted(camera_name(camera.key) for camera in read_cameras(shard, info)),
            }
            _refuse(_changed(was, now), shard)


def delete_foreign(order: RecordingOrder, work: Path) -> None:
    """Delete shards of another order: a deletion of theirs was killed. How many episodes it wanted changes no shard."""
    for shard in work.glob("part-*"):
        if _changes(_notes_of(shard)["order"] | {"episodes": order.episodes}, order):
            shutil.rmtree(shard)


def _changes(begun: dict[str, Any], order: RecordingOrder) -> list[str]:
    return _changed({"arena": "twin", **begun}, asdict(order))  # recordings of earlier versions do not name it


def _changed(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [f"{k} was {was.get(k)!r}, now {v!r}" for k, v in now.items() if was.get(k) != v]


def _refuse(changes: list[str], where: Path) -> None:
    if changes:
        raise HoldfastError(
            f"{where} was recorded with other settings: {'; '.join(changes)}. Use the same to continue, or another "
            "--output for a new recording."
        )


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content))


def _open(order: RecordingOrder, folder: Path) -> Any:
    arena = arenas.load(order.arena)
    small = min(order.height, order.width) < _SMALL
    return dataset_writer(
        folder,
        fps=arena.rate,
        names=arena.action,
        state_names=arena.state,
        cameras=arena.cameras,
        height=order.height,
        width=order.width,
        robot=_robot(arena),
        full_colour=small,
        inline=small,
    )


def _robot(arena: Arena) -> str:
    return arena.embodiment.name if arena.embodiment else arena.name


def _encode(order: RecordingOrder, dataset: Any, demonstration: Demonstration) -> None:
    arena = arenas.load(order.arena)
    shape = (len(demonstration.actions), len(arena.cameras), order.height, order.width, 3)
    frames = np.asarray(np.memmap(demonstration.frames, np.uint8, "r", shape=shape))
    instruction = arena.task(order.task).instruction
    for state, action, views in zip(demonstration.states, demonstration.actions, frames, strict=True):
        add_patiently(dataset, frame(instruction, state, action, dict(zip(arena.cameras, views, strict=True))))
    dataset.save_episode()
    demonstration.frames.unlink()


def _verify(dataset: Path) -> None:
    """Check that videos have as many frames as the tables have rows: a slow encoder drops some silently."""
    for finding in lost_frames(open_source(str(dataset)), Expected()):
        raise HoldfastError(f"Recording {dataset} failed: {finding.where}: {finding.detail} Run the command again.")


def _place(work: Path, seeds: range) -> Path:
    """Folder of the shard with these seeds; earlier versions began recordings with this name."""
    return work / f"part-{seeds.start}-{len(seeds)}"


def _notes_of(shard: Path) -> dict[str, Any]:
    notes = read_notes(shard)
    if notes is None:
        raise HoldfastError(f"{shard / NOTES} is damaged. Delete {shard.parent} to record again.")
    return notes


def _write_notes(dataset: Path, order: RecordingOrder, seeds: list[int], dropped: list[int]) -> None:
    write_json(dataset / NOTES, {"order": asdict(order), "seeds": seeds, "dropped": dropped})

"""Records expert demonstrations: worker processes simulate and render, this process encodes, a kill costs little.

A dataset is made of parts of a few episodes, each a whole dataset of its own, so that a recording that was killed goes
on after its last part; when all episodes are there the parts are joined. What is recorded depends on the seed alone,
never on the number of processes.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.catalog import task as catalog_task
from holdfast.data.findings import Expected
from holdfast.data.pictures import lost_frames
from holdfast.data.source import open_source
from holdfast.data.writer import add_patiently, dataset_writer, frame, merge_datasets
from holdfast.embodiment import EMBODIMENTS
from holdfast.errors import HoldfastError
from holdfast.twin.cell import CAMERAS, CONTROL_HZ
from holdfast.twin.demonstrate import Demonstration, Demonstrators, Order

PART = 10  # episodes a kill can cost at most
NOTES = Path("meta") / "recording.json"
_PATIENCE = 20  # demonstrations dropped before it matters that most are
_SMALL = 224  # below this, an image's colours need its full resolution
_ROBOT = EMBODIMENTS["piper_x_pair"]

type Report = Callable[[int, int], None]  # demonstrations kept and dropped so far


@dataclass(frozen=True)
class Recording:
    """A finished recording: the seeds of its episodes in order, and those whose demonstration was dropped."""

    folder: Path
    seeds: tuple[int, ...]
    dropped: tuple[int, ...]


def record(order: Order, output: Path, processes: int, report: Report = lambda kept, dropped: None) -> Recording:
    """Record a task into the dataset `output/<task>`, going on with what is there already.

    Args:
        order: What to record.
        output: Folder of the dataset's folder.
        processes: How many simulate and render side by side.
        report: Called after each demonstration.
    """
    final, work = output / order.task, output / f".{order.task}.recording"
    if not final.exists():
        with _locked(work):
            _begin(work, order)
            _record_parts(order, work, processes, report)
            _join(order, work, final)
    notes = read_notes(final)
    if notes is None:
        raise HoldfastError(f"{final} exists and is no recording of the twin. Choose another --output.")
    _check_same(order, notes["order"], final)
    shutil.rmtree(work, ignore_errors=True)
    return Recording(final, tuple(notes["seeds"]), tuple(notes["dropped"]))


def read_notes(dataset: Path) -> dict[str, Any] | None:
    """What the recorder wrote down about a dataset: `order`, `seeds` and `dropped`; None if it is not ours."""
    try:
        notes: dict[str, Any] = json.loads((dataset / NOTES).read_text())
    except (OSError, ValueError):
        return None
    return notes


def _record_parts(order: Order, work: Path, processes: int, report: Report) -> None:
    seeds, dropped = _done(work)
    report(len(seeds), len(dropped))
    frames = work / "frames"
    shutil.rmtree(frames, ignore_errors=True)
    frames.mkdir()
    first = max([order.seed - 1, *seeds, *dropped]) + 1
    with Demonstrators(order, first, frames, processes) as demonstrators:
        demonstrators.begin(order.episodes - len(seeds))  # they work while this process loads the encoder
        while len(seeds) < order.episodes:
            _record_part(order, work, demonstrators, seeds, dropped, report)


def _record_part(
    order: Order, work: Path, demonstrators: Demonstrators, seeds: list[int], dropped: list[int], report: Report
) -> None:
    """Record the next episodes into a part of their own, which gets its name when it is whole."""
    writing, part = work / "writing", work / f"part-{len(seeds) // PART:04d}"
    shutil.rmtree(writing, ignore_errors=True)
    kept, lost, end = len(seeds), len(dropped), min(len(seeds) + PART, order.episodes)
    with dataset_writer(
        writing,
        fps=CONTROL_HZ,
        names=_ROBOT.names,
        cameras=CAMERAS,
        height=order.height,
        width=order.width,
        robot=_ROBOT.name,
        full_colour=min(order.height, order.width) < _SMALL,
    ) as dataset:
        while len(seeds) < end:
            demonstration = demonstrators.take(order.episodes - len(seeds))
            if demonstration.full:
                _encode(order, dataset, demonstration)
                seeds.append(demonstration.seed)
            else:
                dropped.append(demonstration.seed)
                _check_worth(order, len(seeds), len(dropped))
            report(len(seeds), len(dropped))
    _verify(writing)
    _write_notes(writing, order, seeds[kept:], dropped[lost:])
    writing.rename(part)


def _encode(order: Order, dataset: Any, demonstration: Demonstration) -> None:
    shape = (len(demonstration.actions), len(CAMERAS), order.height, order.width, 3)
    frames: np.ndarray = np.memmap(demonstration.frames, np.uint8, "r", shape=shape)
    instruction = catalog_task(order.task).instruction
    for state, action, views in zip(demonstration.states, demonstration.actions, frames, strict=True):
        add_patiently(dataset, frame(instruction, state, action, dict(zip(CAMERAS, views, strict=True))))
    dataset.save_episode()
    demonstration.frames.unlink()


def _join(order: Order, work: Path, final: Path) -> None:
    parts = _parts(work)
    seeds, dropped = _done(work)
    whole = parts[0]
    if len(parts) > 1:
        whole = work / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        merge_datasets(parts, whole)
        _verify(whole)
    _write_notes(whole, order, seeds, dropped)
    whole.rename(final)


def _parts(work: Path) -> list[Path]:
    return sorted(work.glob("part-*"))


def _done(work: Path) -> tuple[list[int], list[int]]:
    """Seeds of the finished parts' episodes, and of demonstrations dropped on the way."""
    seeds: list[int] = []
    dropped: list[int] = []
    for part in _parts(work):
        notes = read_notes(part)
        if notes is None:
            raise HoldfastError(f"{part / NOTES} is damaged. Delete {work} to record again.")
        seeds += notes["seeds"]
        dropped += notes["dropped"]
    return seeds, dropped


def _verify(dataset: Path) -> None:
    """Videos must have as many frames as the tables have rows: an encoder that falls behind loses some silently."""
    for finding in lost_frames(open_source(str(dataset)), Expected()):
        raise HoldfastError(f"Recording {dataset} failed: {finding.where}: {finding.detail} Run the command again.")


def _check_worth(order: Order, kept: int, dropped: int) -> None:
    if dropped > max(_PATIENCE, kept):
        raise HoldfastError(
            f"The expert of {order.task} failed in {dropped} of {kept + dropped} layouts of level {order.level!r}; "
            "there is too little to demonstrate. Try --level standard."
        )


def _begin(work: Path, order: Order) -> None:
    file = work / "order.json"
    if file.exists():
        _check_same(order, json.loads(file.read_text()), work)
    else:
        _write_json(file, asdict(order))


def _check_same(order: Order, begun: dict[str, Any], where: Path) -> None:
    changed = [f"{k} was {begun.get(k)!r}, now {v!r}" for k, v in asdict(order).items() if begun.get(k) != v]
    if changed:
        raise HoldfastError(
            f"{where} was recorded with other settings: {'; '.join(changed)}. Use the same to go on, or another "
            "--output for a new recording."
        )


def _write_notes(dataset: Path, order: Order, seeds: list[int], dropped: list[int]) -> None:
    _write_json(dataset / NOTES, {"order": asdict(order), "seeds": seeds, "dropped": dropped})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_suffix(".writing")
    temporary.write_text(json.dumps(content))
    temporary.rename(path)


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Keep the folder to this process; the lock goes with the process, however it ends."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        file = (work / ".lock").open("w")
    except OSError as error:
        raise HoldfastError(f"{work.parent} cannot be written ({error.strerror}).") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HoldfastError(f"Another process is recording into {work}. Wait for it or stop it.") from None
        yield

"""Records expert demonstrations: every worker process simulates, renders and encodes parts of the dataset.

A part holds the demonstrations of a few seeds and is a whole dataset of its own, so that parts are recorded side by
side and a kill costs only those under way; when all episodes are there the parts are joined. What is recorded depends
on the seeds alone, never on the number of processes.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import active_children, get_context
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
from holdfast.twin.demonstrate import Demonstration, Order, demonstrate, end_with_parent

PART = 10  # seeds of a part; what a kill can cost each process
NOTES = Path("meta") / "recording.json"
_PATIENCE = 20  # demonstrations dropped before it matters that most are
_SMALL = 224  # below this, an image's colours need its full resolution
_ROBOT = EMBODIMENTS["piper_x_pair"]

FRAMES = "frames"  # folder of images that are not encoded yet
KEPT, DROPPED = 0, 1
_since: Any = None  # in a worker process: how many demonstrations of each kind all of them have made

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
    """Record what is missing, round by round: where demonstrations failed, further seeds take their place."""
    shutil.rmtree(work / FRAMES, ignore_errors=True)
    (work / FRAMES).mkdir()
    earlier = [len(which) for which in _done(work)]
    since = get_context("spawn").Array("i", 2)  # demonstrations kept and dropped from now on
    told: list[int] = []
    with _workers(processes, since) as pool:
        while parts := _missing(order, work):
            jobs = [pool.submit(_record_part, order, work, seeds) for seeds in parts]
            waiting = set(jobs)
            while waiting:
                _, waiting = wait(waiting, timeout=0.2)
                counts = [earlier[kind] + since[kind] for kind in (KEPT, DROPPED)]
                if counts != told:
                    report(*counts)
                    told = counts
                    _check_worth(order, *counts)
            for job in jobs:
                job.result()


@contextmanager
def _workers(processes: int, since: Any) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_enter, initargs=(since,))
    try:
        yield pool
    except BrokenProcessPool:
        raise HoldfastError(
            "A worker process died, perhaps for lack of memory. Run the same command again to go on, with fewer "
            "--processes."
        ) from None
    except BaseException:  # an error or a key press: nobody waits for the parts under way
        for child in active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _missing(order: Order, work: Path) -> list[range]:
    """Seeds of the parts to record next; nothing when all episodes are there."""
    first, kept = order.seed, 0
    while kept < order.episodes:
        end = first + order.episodes - kept
        parts = [range(seed, min(seed + PART, end)) for seed in range(first, end, PART)]
        if missing := [seeds for seeds in parts if not _place(work, seeds).exists()]:
            return missing
        kept += sum(len(_notes_of(_place(work, seeds))["seeds"]) for seeds in parts)
        first = end
    return []


def _enter(since: Any) -> None:
    """Make a worker process ready: it counts what it does, and ends when the recorder does."""
    global _since
    _since = since
    end_with_parent()


def _record_part(order: Order, work: Path, seeds: range) -> None:
    """Record the demonstrations of some seeds into a part of their own, which gets its name when it is whole."""
    writing = work / f"writing-{seeds.start}"
    shutil.rmtree(writing, ignore_errors=True)
    kept: list[int] = []
    with ExitStack() as stack:
        dataset = None
        for seed in seeds:
            demonstration = demonstrate(order, seed, work / FRAMES)
            if demonstration.full:
                if dataset is None:
                    dataset = stack.enter_context(_open(order, writing))
                _encode(order, dataset, demonstration)
                kept.append(seed)
            with _since.get_lock():
                _since[KEPT if demonstration.full else DROPPED] += 1
    if kept:
        _verify(writing)
    _write_notes(writing, order, kept, [seed for seed in seeds if seed not in kept])
    writing.rename(_place(work, seeds))


def _open(order: Order, folder: Path) -> Any:
    return dataset_writer(
        folder,
        fps=CONTROL_HZ,
        names=_ROBOT.names,
        cameras=CAMERAS,
        height=order.height,
        width=order.width,
        robot=_ROBOT.name,
        full_colour=min(order.height, order.width) < _SMALL,
    )


def _encode(order: Order, dataset: Any, demonstration: Demonstration) -> None:
    shape = (len(demonstration.actions), len(CAMERAS), order.height, order.width, 3)
    frames = np.asarray(np.memmap(demonstration.frames, np.uint8, "r", shape=shape))
    instruction = catalog_task(order.task).instruction
    for state, action, views in zip(demonstration.states, demonstration.actions, frames, strict=True):
        add_patiently(dataset, frame(instruction, state, action, dict(zip(CAMERAS, views, strict=True))))
    dataset.save_episode()
    demonstration.frames.unlink()


def _join(order: Order, work: Path, final: Path) -> None:
    parts = [part for part in _parts(work) if _notes_of(part)["seeds"]]
    seeds, dropped = _done(work)
    whole = parts[0]
    if len(parts) > 1:
        whole = work / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        merge_datasets(parts, whole)
        _verify(whole)
    _write_notes(whole, order, seeds, dropped)
    whole.rename(final)


def _place(work: Path, seeds: range) -> Path:
    """Where the part of some seeds lies; sorted by name, parts are in the order of their seeds."""
    return work / f"part-{seeds.start:012d}"


def _parts(work: Path) -> list[Path]:
    return sorted(work.glob("part-*"))


def _done(work: Path) -> tuple[list[int], list[int]]:
    """Seeds of the finished parts' episodes, and of demonstrations dropped on the way."""
    notes = [_notes_of(part) for part in _parts(work)]
    return [seed for n in notes for seed in n["seeds"]], [seed for n in notes for seed in n["dropped"]]


def _notes_of(part: Path) -> dict[str, Any]:
    notes = read_notes(part)
    if notes is None:
        raise HoldfastError(f"{part / NOTES} is damaged. Delete {part.parent} to record again.")
    return notes


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
    path.parent.mkdir(parents=True, exist_ok=True)
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

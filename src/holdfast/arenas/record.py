"""Records expert demonstrations: one pool of processes for all tasks, each of which simulates, renders and encodes.

What is recorded depends only on the seeds, never on the number of processes. The first task comes first, since a
training may wait for it, then long tasks, so that the last shards to finish are short. A task whose shards are all
recorded is joined while others are still in progress.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from holdfast import arenas
from holdfast.arenas.demonstrate import RecordingOrder
from holdfast.arenas.recording_shards import (
    BEFORE,
    FRAMES,
    check_arena,
    check_same,
    delete_foreign,
    finished_shards,
    join_shards,
    missing_shards,
    read_notes,
    record_shard,
    seeds_of,
    write_json,
)
from holdfast.core.checked_folder import check_no_links
from holdfast.core.errors import HoldfastError
from holdfast.core.locks import locked
from holdfast.core.names import check_length, check_path
from holdfast.core.outside import read_json
from holdfast.core.processes import FORKED, worker_pool
from holdfast.core.progress import WatchSteps
from holdfast.data.lerobot.writer import WRITER_MODULE

_ORDER, _LOCK = "order.json", ".lock"  # in the folder of the shards
_PATIENCE = 20  # dropped demonstrations that are accepted, even if most are dropped
# In a worker process: shared counts of demonstrations kept and dropped, by task, and last of the steps of all.
_since: Any = None

type RecordingJob = Callable[[], list[str] | None]  # may return why the arena failed
type ReportCounts = Callable[[str, int, int], None]  # task; demonstrations kept and dropped so far
type Tell = Callable[[str], None]


@dataclass(frozen=True)
class Recording:
    """A finished recording: the seeds of its episodes in order, and those whose demonstration was dropped."""

    folder: Path
    seeds: tuple[int, ...]
    dropped: tuple[int, ...]


@dataclass(frozen=True)
class Work:
    """A recording in progress: its order, the folder of its shards, and the dataset it becomes."""

    order: RecordingOrder
    folder: Path
    final: Path

    @property
    def left(self) -> bool:
        """Whether something is left to record. Refuses a dataset that is no recording, or one of another kind."""
        if not self.final.exists():
            return True
        notes = _notes(self.final)
        shorter = len(notes["seeds"]) < self.order.episodes
        begun = replace(self.order, episodes=len(notes["seeds"])) if shorter else self.order
        check_same(begun, notes["order"], self.final)
        return shorter

    def check_links(self) -> None:
        """Refuse links in the folder of the shards, which is ours alone, and one that leads nowhere as the dataset."""
        check_no_links(self.folder)
        if self.final.is_symlink() and not self.final.exists():
            raise HoldfastError(f"{self.final} is a link that leads nowhere. Delete it, or choose another --output.")

    def locked(self) -> AbstractContextManager[None]:
        """Keeps other processes from the folder of the shards, or is refused if one is there."""
        busy = f"Another process is recording into {self.folder}. Wait for it or stop it."
        return locked(self.folder / _LOCK, busy)

    def begin(self) -> None:
        """Store the order; refuse to continue a recording with another one, or in an arena that has changed."""
        file = self.folder / _ORDER
        if file.exists():
            check_same(self.order, read_json(file), self.folder)
        delete_foreign(self.order, self.folder)
        if (self.folder / BEFORE).exists() and not self.final.exists():  # killed while a longer one took its place
            (self.folder / BEFORE).rename(self.final)
        check_arena(self.order, self.shards)
        write_json(file, asdict(self.order))
        shutil.rmtree(self.folder / BEFORE, ignore_errors=True)
        shutil.rmtree(self.folder / FRAMES, ignore_errors=True)
        (self.folder / FRAMES).mkdir()

    def tidy(self) -> None:
        """Delete what a killed process left of the finished recording, but no shards of a longer one."""
        if (self.folder / _ORDER).exists():
            with suppress(HoldfastError), self.locked():
                check_same(self.order, read_json(self.folder / _ORDER), self.folder)
                self.delete()

    def delete(self) -> None:
        """Delete the folder of the shards: their order after them, to say whose a kill has left, and the lock last."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in (_ORDER, _LOCK):
                path.unlink()
        (self.folder / _ORDER).unlink(missing_ok=True)
        (self.folder / _LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # another process has come
            self.folder.rmdir()

    @property
    def shards(self) -> list[Path]:
        """The shards that are finished, the shorter recording that is extended among them."""
        return finished_shards(self.order, self.folder, self._begun)

    @property
    def _begun(self) -> Path | None:
        return self.final if self.final.exists() else None

    def next_jobs(self, row: int) -> list[RecordingJob]:
        """The jobs to run when none of this recording is running: record missing shards, then join them all."""
        if not self.left:
            return []
        shards = missing_shards(self.order, self.folder, self._begun)
        jobs: list[RecordingJob] = [partial(_record_shard, self.order, self.folder, seeds, row) for seeds in shards]
        return jobs or [partial(join_shards, self.order, self.shards, self.folder, self.final)]


def record(
    orders: Sequence[RecordingOrder],
    output: Path,
    processes: int,
    report: ReportCounts = lambda task, kept, dropped: None,
    watch: WatchSteps = lambda steps: None,
    tell: Tell = lambda failure: None,
) -> list[Recording]:
    """Record tasks into the datasets `output/<task>`, continuing what exists already.

    A finished recording that has fewer episodes is extended: it ends as if all had been recorded at once.

    Args:
        orders: What to record, each task once.
        output: Folder of the datasets' folders.
        processes: Number of processes that simulate and render.
        report: Called after demonstrations of a task.
        watch: Called several times a second.
        tell: Called with the reason of each demonstration that is dropped because the arena failed.
    """
    check_path(output, "--output")
    for order in orders:
        _check_order(order)
    works = [Work(order, output / f".{order.task}.recording", output / order.task) for order in orders]
    for work in works:
        work.check_links()
    missing = [work for work in works if work.left]
    for work in works:
        if work not in missing:  # other settings are refused before the rest is recorded
            done = _finished(work)
            work.tidy()
            report(work.order.task, len(done.seeds), len(done.dropped))
    with ExitStack() as locks:
        for work in missing:
            locks.enter_context(work.locked())
            work.begin()
        _run_jobs(missing, processes, report, watch, tell)
        for work in missing:
            work.delete()
    return [_finished(work) for work in works]


def _check_order(order: RecordingOrder) -> None:
    arena = arenas.load(order.arena)
    arena.task(order.task)
    check_length(order.task, "The task's name")
    arena.level(order.level)
    if "expert" not in arena.policies:
        raise HoldfastError(f"The arena {arena.name!r} has no policy 'expert', so there is nothing to record.")


def _finished(work: Work) -> Recording:
    notes = _notes(work.final)
    check_same(work.order, notes["order"], work.final)
    return Recording(work.final, tuple(notes["seeds"]), tuple(notes["dropped"]))


def _notes(final: Path) -> dict[str, Any]:
    notes = read_notes(final)
    if notes is None:
        raise HoldfastError(f"{final} exists and is not a recording of an arena. Choose another --output.")
    return notes


def _run_jobs(works: list[Work], processes: int, report: ReportCounts, watch: WatchSteps, tell: Tell) -> None:
    """Run all jobs of all recordings, those of the first task first, then those of the longest."""
    works = works[:1] + sorted(works[1:], key=lambda work: -arenas.load(work.order.arena).max_steps(work.order.task))
    counts = _Counts(works, report)
    queues = [work.next_jobs(row) for row, work in enumerate(works)]
    running: dict[Future[list[str] | None], int] = {}
    with _workers(processes, counts.since) as pool:
        while True:
            for row, queue in enumerate(queues):
                while queue and len(running) < processes:
                    running[pool.submit(queue.pop(0))] = row
            if not running:
                break
            done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            counts.update()
            watch(counts.since[-1])
            for job in done:
                row = running.pop(job)
                for failure in job.result() or ():
                    tell(f"{works[row].order.task}, {failure}")
                if not queues[row] and row not in running.values():
                    queues[row] = works[row].next_jobs(row)


class _Counts:
    """Counts of demonstrations kept and dropped, by recording: those on disk, and those since."""

    def __init__(self, works: list[Work], report: ReportCounts) -> None:
        self.since = FORKED.Array("i", 2 * len(works) + 1)
        self._works, self._report = works, report
        finished = [work.shards for work in works]
        self._earlier = [len(which) for shards in finished for which in seeds_of(shards)]
        self._reported = [0] * len(self._earlier)

    def update(self) -> None:
        """Report recordings whose counts changed; raise an error if an expert mostly fails."""
        counts = [earlier + since for earlier, since in zip(self._earlier, self.since[:-1], strict=True)]
        for row, work in enumerate(self._works):
            mine = slice(2 * row, 2 * row + 2)
            if counts[mine] != self._reported[mine]:
                self._report(work.order.task, *counts[mine])
                _check_expert(work.order, *counts[mine])
        self._reported = counts


@contextmanager
def _workers(processes: int, since: Any) -> Iterator[ProcessPoolExecutor]:
    pool = worker_pool(processes, ["holdfast.arenas.record", WRITER_MODULE], _enter, since)
    try:
        yield pool
    except BrokenProcessPool:
        raise HoldfastError(
            "A worker process died, perhaps for lack of memory. Run the same command again to continue, with fewer "
            "--processes."
        ) from None
    except BaseException:  # after an error or Ctrl-C, do not wait for shards in progress
        for child in active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _enter(since: Any) -> None:
    """Prepare a worker process: it counts demonstrations."""
    global _since
    _since = since


def _record_shard(order: RecordingOrder, work: Path, seeds: range, row: int) -> list[str]:
    return record_shard(order, work, seeds, partial(_count, row), _count_step)


def _count(row: int, kept: bool) -> None:
    with _since.get_lock():
        _since[2 * row + (not kept)] += 1


def _count_step() -> None:
    with _since.get_lock():
        _since[-1] += 1


def _check_expert(order: RecordingOrder, kept: int, dropped: int) -> None:
    if dropped > max(_PATIENCE, kept):
        raise HoldfastError(
            f"The expert of {order.task} failed in {dropped} of {kept + dropped} layouts of level {order.level!r}; "
            "there are too few demonstrations. Try another --level."
        )

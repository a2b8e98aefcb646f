"""`holdfast.record`: what `holdfast record` does with its settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from holdfast import arenas
from holdfast.arenas.arena import Arena
from holdfast.arenas.demonstrate import RecordingOrder
from holdfast.core.errors import HoldfastError
from holdfast.core.progress import progress_bar

FIRST_SEED = 1_000_000  # far from the layouts of trials


def record(
    tasks: Sequence[str],
    output: str | Path,
    *,
    episodes: int,
    arena: str | type[Arena] = "twin",
    level: str | None = None,
    size: int | tuple[int, int] = 96,
    seed: int = FIRST_SEED,
    processes: int | None = None,
    console: Console | None = None,
) -> dict[str, Path]:
    """Record demonstrations of an arena's expert as LeRobot datasets, and return the folder of each task's.

    A recording that was stopped continues, and ends with the same data. One that is finished is not changed.

    Args:
        tasks: Tasks of the arena.
        output: Folder of the datasets' folders.
        episodes: Demonstrations of each task.
        arena: The arena's name, the path of one of your own, `package.module:Class`, or its class.
        level: How far layouts vary; None takes the arena's default.
        size: Size of the images: the side of a square, or height and width.
        seed: First layout; later ones count up.
        processes: Simulations in parallel; None takes all cores.
        console: Where progress is printed; `Console(quiet=True)` prints nothing.
    """
    if isinstance(tasks, str):
        raise HoldfastError(f"tasks must be a list of names, got the text {tasks!r}.")
    processes = processes if processes is not None else os.cpu_count() or 1
    for name, value, least in (("episodes", episodes, 1), ("processes", processes, 1), ("seed", seed, 0)):
        if value < least:
            raise HoldfastError(f"--{name} must be at least {least}, got {value}.")
    path = arenas.path_of(arena)
    where = arenas.load(path)
    names = [where.task(task).name for task in dict.fromkeys(tasks)]
    image = _check_size(*((size, size) if isinstance(size, int) else size))
    orders = [RecordingOrder(name, episodes, where.level(level), *image, seed, path) for name in names]
    return _carry_out(orders, Path(output), processes, console or Console(highlight=False))


def _carry_out(orders: list[RecordingOrder], output: Path, processes: int, console: Console) -> dict[str, Path]:
    from holdfast.arenas.record import record as record_all

    with progress_bar(console, part=(0.0, 1.0)) as bar:
        totals = {order.task: order.episodes for order in orders}
        rows = {task: bar.add_task(task, total=total, note="") for task, total in totals.items()}
        whole = bar.add_task("in all", total=sum(totals.values()), note="starting")

        def report(task: str, kept: int, dropped: int) -> None:
            bar.update(rows[task], completed=kept, note=f"{dropped} dropped" if dropped else "")
            bar.update(whole, completed=sum(row.completed for row in bar.tasks if row.id != whole))
            if not console.is_terminal and kept and kept % max(1, totals[task] // 10) == 0:
                console.print(f"{task}  {kept}/{totals[task]}  {dropped} dropped")

        def watch(steps: int) -> None:
            bar.update(whole, note=f"{steps:,} steps" if steps else "starting the simulations")

        def tell(failure: str) -> None:
            bar.console.print(failure, markup=False, soft_wrap=True)

        recordings = record_all(orders, output, processes, report, watch, tell)
    for done in recordings:
        said = f", {len(done.dropped)} without full score dropped" if done.dropped else ", none dropped"
        console.print(f"{done.folder}: {len(done.seeds)} demonstrations{said}", soft_wrap=True, markup=False)
    return {order.task: done.folder for order, done in zip(orders, recordings, strict=True)}


def _check_size(height: int, width: int) -> tuple[int, int]:
    # Video codecs halve the resolution of colours and fail on very small images.
    if not all(32 <= side <= 2048 and side % 2 == 0 for side in (height, width)):
        raise HoldfastError(f"--size must be even numbers from 32 to 2048, like 96 or 480x640, got {height}x{width}.")
    return height, width

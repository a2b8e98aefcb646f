"""Frames per second of processes that share a GPU: each frame read back at once, against many together.

Every process draws four cameras at 96 px, as recordings do, and does nothing else. All draw in the same way at the same
time; the ways take turns, so other work on the machine changes both. Mesa draws on the CPU: there the processor's time
is the fairer figure, since other work changes it little.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

from holdfast.twin.cell import CAMERAS
from holdfast.twin.env import CellEnv

SIZE = (96, 96)
ROUNDS = 4


def draw(barrier: Barrier, seconds: float) -> np.ndarray:
    """Of this process: frames per second and processor milliseconds per frame, at once and together."""
    env = CellEnv("stack_bowls")
    world = env.world

    def measure(take: Callable[[], object], finish: Callable[[], object]) -> tuple[float, float]:
        barrier.wait()
        frames, begun, worked = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() < begun + seconds:
            take()
            frames += 1
        finish()
        return frames / (time.perf_counter() - begun), 1000 * (time.process_time() - worked) / frames

    ways = (
        (lambda: world.render(CAMERAS, *SIZE), lambda: None),
        (lambda: world.render_later(*SIZE), lambda: world.rendered(*SIZE)),
    )
    for take, finish in ways:  # makes the buffers
        take()
        finish()
    rounds = [[measure(*way) for way in ways] for _ in range(ROUNDS)]
    env.close()
    return np.mean(rounds, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=1.5, help="of each way in each of four rounds (1.5)")
    options = parser.parse_args()
    table = Table("processes", "at once, frames/s", "together", "ratio", "at once, processor ms a frame", "together")
    context = get_context("spawn")
    for processes in options.processes:
        with context.Manager() as manager, context.Pool(processes) as pool:
            work = [(manager.Barrier(processes), options.seconds)] * processes
            found = pool.starmap(draw, work, chunksize=1)
        (at_once, together), (before, after) = np.sum(found, axis=0)[:, 0], np.mean(found, axis=0)[:, 1]
        figures = f"{at_once:.0f}", f"{together:.0f}", f"{together / at_once:.2f}", f"{before:.2f}", f"{after:.2f}"
        table.add_row(str(processes), *figures)
    Console().print(table)


if __name__ == "__main__":
    main()

"""Ratio of the twin's speed to real time on one core, for each task: physics alone, and with four cameras at 96 px.

The expert runs first; then its actions alone are timed, so that the simulator, the scorer and the cameras are measured,
not the planning. Time is that of the processor, all threads added up, and the best of several rounds counts: so a busy
machine changes little, and a renderer gains nothing from more cores.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

from holdfast.core.errors import unknown
from holdfast.twin.cell import CONTROL_HZ
from holdfast.twin.env import CellEnv
from holdfast.twin.scripted import expert, run
from holdfast.twin.tasks import TASKS

CLOTH = ("fold_towel", "fold_tshirt")
SIZE = (96, 96)
RIGID_BAR, CLOTH_BAR, RENDERED_BAR = 30, 6, 4


def ratio(env: CellEnv, actions: list[np.ndarray], size: tuple[int, int] | None) -> float:
    """Simulated seconds for each second of computing."""
    env.reset(0)
    begun = time.process_time()
    for action in actions:
        env.observe(size)
        env.step(action)
    return len(actions) / CONTROL_HZ / (time.process_time() - begun)


def measure(task: str, rounds: int) -> tuple[float, float]:
    """Best ratios without and with rendering."""
    env = CellEnv(task)
    env.reset(0)
    actions = run(env, expert(env, None))
    env.observe(SIZE)  # makes the renderer
    plain = max(ratio(env, actions, None) for _ in range(rounds))
    rendered = max(ratio(env, actions, SIZE) for _ in range(rounds))
    env.close()
    return plain, rendered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", action="append", help="only this one; may be given several times")
    options = parser.parse_args()
    table = Table("task", "physics", "bar", "with four cameras", "bar", "")
    for task in options.task or TASKS:
        if task not in TASKS:
            raise unknown("task of the twin", task, TASKS)
        plain, rendered = measure(task, options.rounds)
        bar = CLOTH_BAR if task in CLOTH else RIGID_BAR
        rendered_bar = None if task in CLOTH else RENDERED_BAR
        good = plain >= bar and (rendered_bar is None or rendered >= rendered_bar)
        table.add_row(
            task,
            f"{plain:.1f}x",
            f"{bar}x",
            f"{rendered:.1f}x",
            f"{rendered_bar}x" if rendered_bar else "",
            "[green]met" if good else "[red]missed",
        )
    Console().print(table)


if __name__ == "__main__":
    main()

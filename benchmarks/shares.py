"""Where the seconds of recordings and trials go: imports, physics, drawing, read-back, encoding, decoding, policy.

One process records demonstrations as `holdfast record` does, reads them into a frame cache, and runs trials of an
untrained nano (64 px, width 128) as a worker of `holdfast evaluate` does. Seconds are those of the processor, all
threads added up, so other work on the machine changes little. Waiting is what the clock shows beyond them: for a GPU or
the disk, and on a busy machine for a core. Parts that call each other are counted apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parents[1] / "tests" / "evaluate"))

from rich.console import Console
from rich.table import Table

TASKS = ("stack_bowls", "press_button", "push_box")
SIZE, SEED = 96, 1_010_000
CPU_SIZED = {"image_size": 64, "width": 128, "heads": 4}


class Shares:
    """Processor seconds by part."""

    def __init__(self, whole: str) -> None:
        self._whole, self._begun = whole, time.perf_counter()
        self.seconds: dict[str, float] = defaultdict(float)
        self._within: list[float] = [0.0]  # seconds of inner parts, for each part that is running

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what happens inside as a part, except for the parts within it."""
        begun = time.process_time()
        self._within.append(0.0)
        try:
            yield
        finally:
            took = time.process_time() - begun
            self.seconds[name] += took - self._within.pop()
            self._within[-1] += took

    def watch(self, owner: Any, function: str, name: str) -> None:
        """Count all later calls of a function as a part."""
        original: Callable[..., Any] = getattr(owner, function)

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return original(*args, **kwargs)

        setattr(owner, function, counted)

    def print(self, units: int, unit: str) -> None:
        """Print all parts, the largest first, and how long one of `units` took."""
        waited = time.perf_counter() - self._begun - sum(self.seconds.values())
        total = sum(self.seconds.values())
        table = Table("part", "seconds", "share", f"ms a {unit}", title=f"{self._whole}, {units} {unit}s")
        for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            table.add_row(name, f"{seconds:.2f}", f"{seconds / total:.0%}", f"{1000 * seconds / units:.2f}")
        table.add_row("all", f"{total:.2f}", "", f"{1000 * total / units:.2f}")
        table.add_row("waiting", f"{max(0.0, waited):.2f}", "", "")
        Console().print(table)


def record(tasks: list[str], episodes: int, scratch: Path) -> None:
    """Shares of a recording."""
    shares = Shares("recording")
    with shares.part("importing MuJoCo and the arena"):
        from holdfast.arenas import recording_shards
        from holdfast.arenas.demonstrate import RecordingOrder

        watch_twin(shares)
    with shares.part("importing LeRobot"):
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from holdfast.twin.expert import Expert

    shares.watch(Expert, "act", "expert")
    shares.watch(recording_shards, "_encode", "encoding and tables")
    shares.watch(LeRobotDataset, "finalize", "encoding and tables")
    shares.watch(recording_shards, "_verify", "checking the videos")
    frames = 0
    for task in tasks:
        order = RecordingOrder(task, episodes, "standard", SIZE, SIZE, SEED)
        work = scratch / f".{task}"
        (work / recording_shards.FRAMES).mkdir(parents=True)
        with shares.part("everything else"):
            recording_shards.record_shard(order, work, range(SEED, SEED + episodes), lambda kept: None, lambda: None)
            shards = recording_shards.finished_shards(order, work)
            recording_shards.join_shards(order, shards, work, scratch / task)
        frames += count_frames(scratch / task)
    shares.print(frames, "frame")


def decode(tasks: list[str], scratch: Path) -> None:
    """Shares of the frame cache."""
    shares = Shares("frame cache")
    with shares.part("importing torch and the decoder"):
        from holdfast.data.cache.cache import open_cache
        from holdfast.data.cache.config import CacheConfig
        from holdfast.data.lerobot import video  # noqa: F401
        from holdfast.data.lerobot.source import Source, open_source
        from holdfast.data.resize import Resize
    shares.watch(Source, "images", "decoding")
    frames = 0
    for task in tasks:
        with shares.part("everything else"):
            source = open_source(str(scratch / task))
            resize = Resize(CPU_SIZED["image_size"], CPU_SIZED["image_size"], antialias=True)
            # One worker: threads that decode side by side would be counted twice.
            open_cache(source, resize, CacheConfig(root=str(scratch / "cache"), workers=1), Console(quiet=True))
        frames += len(source.state)
    shares.print(frames, "frame")


def evaluate(tasks: list[str], trials: int, scratch: Path) -> None:
    """Shares of trials."""
    shares = Shares("trials")
    from holdfast.arenas.scored_episode import ScoredEpisode
    from holdfast.evaluate.engine import Choice, _orders, plan
    from holdfast.evaluate.workers import Setup, run_share
    from holdfast.runs.run import read_run
    from holdfast.runs.trials import Trials

    with shares.part("importing torch and LeRobot"):
        from holdfast.policies.pilot import Pilot
    from runs import make_run

    watch_twin(shares)
    shares.watch(Pilot, "__init__", "loading policies")
    shares.watch(Pilot, "begin", "policy")
    shares.watch(ScoredEpisode, "_reached", "scoring")
    run = read_run(make_run(scratch / "run", tuple(tasks), chunk=8, size=CPU_SIZED["image_size"], options=CPU_SIZED))
    choice = Choice(trials=trials, stages=(len(tasks),))
    with Trials(run.trials) as file, shares.part("everything else"):
        found = run_share(Setup("cpu"), list(_orders(run, choice, plan(run, choice, file))))
    shares.print(len(found), "trial")


def watch_twin(shares: Shares) -> None:
    """Count the parts of the twin."""
    import holdfast.twin  # chooses MuJoCo's renderer  # isort: skip
    import mujoco

    from holdfast.twin.env import CellEnv
    from holdfast.twin.frame_queue import FrameQueue
    from holdfast.twin.views import Views

    for function, name in (
        ("mj_step", "physics"),
        ("mj_forward", "physics"),
        ("mjr_render", "drawing"),
        ("mjr_readPixels", "drawing, read-back"),
    ):
        shares.watch(mujoco, function, name)
    shares.watch(Views, "__init__", "opening tasks")
    shares.watch(Views, "draw", "drawing")
    shares.watch(Views, "draw_later", "drawing")
    shares.watch(FrameQueue, "read", "drawing, read-back")
    shares.watch(CellEnv, "__init__", "opening tasks")
    shares.watch(CellEnv, "step", "scoring")
    assert holdfast.twin


def count_frames(dataset: Path) -> int:
    from holdfast.data.lerobot.source import open_source

    return len(open_source(str(dataset)).state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--episodes", type=int, default=5, help="demonstrations of each task (5)")
    parser.add_argument("--trials", type=int, default=5, help="trials of each task (5)")
    parser.add_argument("--only", choices=("recording", "trials"))
    options = parser.parse_args()
    tasks = list(options.tasks)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if options.only != "trials":
            record(tasks, options.episodes, scratch)
            decode(tasks, scratch)
        if options.only != "recording":
            evaluate(tasks, options.trials, scratch)


if __name__ == "__main__":
    main()

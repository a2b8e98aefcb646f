"""The share of its time a GPU waits for data while nano trains on four cameras at 224 px from a cache on disk.

The path is the engine's: Batches makes and copies batches ahead, Stepper takes the steps, the ledger reads the losses.
Between the end of one step and the start of the next the device has nothing to do but wait for the batch: CUDA events
around each step measure that. On a CPU, where there are no events, the time the loop waits for a batch is measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from holdfast.core.records import Task
from holdfast.data.cache.build import Writer
from holdfast.data.cache.cache import read_cache
from holdfast.data.cache.files import CacheFiles
from holdfast.data.cache.quantiles import measure
from holdfast.data.cache.spec import make_spec
from holdfast.data.lerobot.source import Source, open_source
from holdfast.data.lesson import Lesson
from holdfast.data.loader import Batches
from holdfast.data.sampler import Pool, Sampler
from holdfast.embodiments import load
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter
from holdfast.policies.config import PolicyChoice
from holdfast.train.config import TrainConfig
from holdfast.train.log import LossTotals
from holdfast.train.state import TrainingState
from holdfast.train.step import Stepper

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from toy_world import write_dataset

TASK = Task("bench", "Reach for the mark.", ("left", "right"))
CAMERAS = ("head", "front", "left_wrist", "right_wrist")
LENGTH = 100  # frames of an episode


def lengthen(source: Source, frames: int) -> Source:
    """The same dataset with as many frames as asked for, its cameras said to be 480 x 640."""
    ends = np.arange(LENGTH, frames + 1, LENGTH)
    state, action = (np.resize(values, (int(ends[-1]), values.shape[1])) for values in (source.state, source.action))
    cameras = tuple(replace(camera, height=480, width=640) for camera in source.cameras)
    return replace(source, cameras=cameras, state=state, action=action, starts=ends - LENGTH, ends=ends)


def fill(files: CacheFiles, source: Source) -> None:
    """Write a cache of noise: what the pixels show costs nothing."""
    files.folder.mkdir(parents=True)
    files.write_numbers(source.state, source.action, np.stack([source.starts, source.ends]))
    writer, generator = Writer(files), torch.Generator().manual_seed(0)
    for camera, size in files.spec.cameras.items():
        noise = torch.randint(0, 256, (512, 3, *size), dtype=torch.uint8, generator=generator)
        noise = torch.nn.functional.avg_pool2d(noise.float(), 5, 1, 2).to(torch.uint8)
        put = writer.write_raw if files.spec.format == "raw" else writer.write_jpeg
        for number, (first, end) in enumerate(files.spec.blocks):
            files.finished(put(camera, number, (noise[i % 512][None] for i in range(first, end))))


class Clock:
    """When steps began and ended, on the device where it has a clock."""

    def __init__(self, device: str) -> None:
        self._cuda = device.startswith("cuda")
        self._marks: list[tuple[object, object]] = []
        self.host = 0.0

    def mark(self) -> object:
        """This moment."""
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, begun: object, ended: object) -> None:
        """Note one step."""
        self._marks.append((begun, ended))

    def read(self) -> tuple[float, float]:
        """Seconds between the steps, and seconds in all."""
        if self._cuda:
            torch.cuda.synchronize()
        waits = [self._between(a[1], b[0]) for a, b in zip(self._marks, self._marks[1:], strict=False)]
        return sum(waits), self._between(self._marks[0][0], self._marks[-1][1])

    def _between(self, one: object, other: object) -> float:
        return one.elapsed_time(other) / 1000 if self._cuda else other - one


def run(adapter: Adapter, source: Source, batches: Batches, device: str, options: argparse.Namespace) -> None:
    config = TrainConfig(stream="bench", batch_size=options.batch_size, steps=options.steps, device=device)
    lesson = Lesson(TASK, source, np.ones(14, bool), hold=False)
    preprocess = transforms.build_training(adapter.config, [measure(lesson, adapter.layout)])
    total = options.warmup + options.steps
    step = Stepper(config, adapter, preprocess, None, 1, total, device)
    sampler = Sampler(0, 1, total, options.batch_size, (Pool(0, np.arange(len(source.state)), 1.0),))
    state = TrainingState(adapter.policy.train(), config.optim)
    ledger, clock = LossTotals(["bench"], adapter.names, ["all"] * 14, device), Clock(device)
    asked = time.perf_counter()
    for number, draw, batch in batches.iterate(sampler, 0):
        host = time.perf_counter() - asked
        begun = clock.mark()
        ledger.add(draw, batch["task_index"], *step(state, batch))
        if state.step % config.log.every == 0:
            ledger.read(state.step, 0.0)  # waits for the device, as a line of the log does
        ended = clock.mark()
        if number >= options.warmup:
            clock.add(begun, ended)
            clock.host += host if number > options.warmup else 0.0
        asked = time.perf_counter()
    waited, took = clock.read()
    print(
        f"{device}: waited for data {waited / took:.1%} of the time (bar: 5 %), the loop {clock.host / took:.1%}; "
        f"{options.steps * options.batch_size / took:.0f} samples/s, {options.steps} steps of {options.batch_size} "
        f"from {len(source.state)} {options.format} frames"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--frames", type=int, default=20_000, help="9 GB raw at the default")
    parser.add_argument("--format", default="raw", choices=("raw", "jpeg"))
    parser.add_argument("--width", type=int, default=256, help="of nano")
    parser.add_argument("--cache-root", help="where the cache is written (a temporary folder)")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory(dir=options.cache_root) as folder:
        root = Path(folder) / "bench"
        write_dataset(root, TASK, load("piper_x_pair"), episodes=1, length=LENGTH, size=32, cameras=CAMERAS)
        source = lengthen(open_source(str(root)), options.frames)
        choice = PolicyChoice("nano", options={"image_size": "224", "width": str(options.width)})
        adapter = adapters.build(choice, source, device, 0)
        files = CacheFiles(Path(folder), make_spec(source, adapter.resize, options.format, 0))
        Console().print(f"writing {files.spec.bytes / 2**30:.1f} GiB")
        fill(files, source)
        lesson = Lesson(TASK, source, np.ones(14, bool), hold=False)
        batches = Batches([lesson], [read_cache(files)], adapter.layout, device)
        run(adapter, source, batches, device, options)
        batches.close()


if __name__ == "__main__":
    main()

"""Samples per second from the frame cache against LeRobotDataset, same machine, same run, same batches.

Source: four cameras of 480 x 640 in AV1; a sample is one moment of all four and a chunk of ten actions; images leave as
uint8 on the host, fitted into 224 x 224 (168 x 224: the bars are added by the policy). LeRobot decodes with its default
decoder into uint8 and resizes by torch's fastest way. Rounds alternate and the best of each counts: others on the
machine can only slow them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

from holdfast.core.records import Task
from holdfast.data.cache.build import find_missing
from holdfast.data.cache.cache import Cache, blank_cache, open_cache, read_cache
from holdfast.data.cache.config import CacheConfig
from holdfast.data.cache.files import Block, CacheFiles
from holdfast.data.cache.spec import make_spec
from holdfast.data.lerobot.source import IMAGES, Camera, Source, open_source
from holdfast.data.lerobot.writer import add_patiently, dataset_writer, frame
from holdfast.data.lesson import Layout, Lesson
from holdfast.data.loader import Batches
from holdfast.data.resize import Resize
from holdfast.data.sampler import Pool, Sampler

CAMERAS = ("head", "front", "left_wrist", "right_wrist")
NAMES = tuple(f"joint_{i}.pos" for i in range(14))
BATCH, CHUNK, FPS = 16, 10, 30
SIZE = Resize(224, 224, antialias=True)
LAYOUT = Layout(None, tuple(range(CHUNK)), np.zeros(len(NAMES), bool))
TASK = Task("bench", "Pick up the cube.", ("left", "right"))
QUIET = Console(quiet=True)


def record(root: Path, episodes: int, length: int) -> None:
    """A cluttered table under a moving arm, with the noise of a sensor."""
    rng = np.random.default_rng(0)
    with dataset_writer(root, fps=FPS, names=NAMES, cameras=CAMERAS, height=480, width=640, robot="none") as dataset:
        for _ in range(episodes):
            rooms = {camera: make_room(rng) for camera in CAMERAS}
            for t in range(length):
                images = {camera: look(room, t, rng) for camera, room in rooms.items()}
                numbers = np.sin(t / 30 + np.arange(14)).astype(np.float32)
                add_patiently(dataset, frame(TASK.instruction, numbers, numbers, images))
            dataset.save_episode()


def make_room(rng: np.random.Generator) -> np.ndarray:
    coarse = torch.from_numpy(rng.uniform(60, 190, (1, 3, 12, 16)).astype(np.float32))
    fine = torch.from_numpy(rng.normal(0, 8, (1, 3, 120, 160)).astype(np.float32))
    room = F.interpolate(coarse, (480, 640), mode="bicubic") + F.interpolate(fine, (480, 640), mode="bilinear")
    picture = room[0].permute(1, 2, 0).numpy()
    for _ in range(12):
        y, x, h, w = rng.integers(0, (400, 560, 120, 120))
        picture[y : y + h + 8, x : x + w + 8] = rng.uniform(20, 235, 3)
    return picture


def look(room: np.ndarray, t: int, rng: np.random.Generator) -> np.ndarray:
    picture = room.copy()
    x, y = int(260 + 220 * np.sin(t / 25)), int(190 + 150 * np.cos(t / 19))
    picture[y : y + 110, x : x + 70] = (210, 210, 215)
    picture[y + 90 : y + 130, x + 15 : x + 55] = (30, 60, 200)
    return (picture + rng.normal(0, 2.5, (480, 640, 1))).clip(0, 255).astype(np.uint8)


def lerobot_batches(root: Path, frames: int) -> Iterator[dict[str, torch.Tensor]]:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    chunk = {"action": [i / FPS for i in range(CHUNK)]}
    dataset = LeRobotDataset("local/bench", root=root, delta_timestamps=chunk, return_uint8=True)
    rng, size = np.random.default_rng(1), SIZE.fit(480, 640)
    while True:
        items = [dataset[int(i)] for i in rng.integers(0, frames, BATCH)]
        batch = {key: torch.stack([item[key] for item in items]) for key in items[0] if key != "task"}
        for camera in CAMERAS:
            batch[IMAGES + camera] = F.interpolate(batch[IMAGES + camera], size, mode="bilinear", antialias=True)
        yield batch


def our_batches(source: Source, cache: Cache, seed: int = 1) -> tuple[Batches, Iterator[dict[str, torch.Tensor]]]:
    """The path of training: draws, gathers, decodes, ahead of time in the background."""
    batches = Batches([Lesson(TASK, source, np.ones(14, bool), hold=False)], [cache], LAYOUT)
    sampler = Sampler(seed, 1, 10**9, BATCH, (Pool(0, np.arange(len(source.state)), 1.0),))
    return batches, (batch for _, _, batch in batches.iterate(sampler, 0))


def speed(batches: Iterator[dict[str, torch.Tensor]], seconds: float) -> float:
    """Samples per second, the first batch not counted."""
    next(batches)
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        next(batches)
        count += BATCH
    return count / (time.perf_counter() - begun)


def cold(cache_folder: Path, source: Source, cache: Callable[[], Cache]) -> float:
    """Samples per second of the first batches after the pages were dropped from memory."""
    for path in cache_folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
    batches, stream = our_batches(source, cache(), seed=2)
    begun = time.perf_counter()
    for _ in range(6):
        next(stream)
    took = time.perf_counter() - begun
    stream.close()
    batches.close()
    return 6 * BATCH / took


def disk(folder: Path, *ends: str) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.suffix in ends)


def synthetic(root: Path, episodes: int, length: int, seed: int) -> Source:
    """A dataset as LeRobot lays it out, whose videos are empty: to be opened, not to be decoded."""
    frames, numbers = episodes * length, {"dtype": "float32", "shape": [14], "names": list(NAMES)}
    pixels = {"dtype": "video", "shape": [480, 640, 3], "names": ["height", "width", "channels"]}
    info = {
        "codebase_version": "v3.0", "fps": FPS, "total_episodes": episodes, "total_frames": frames,
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": {"observation.state": numbers, "action": numbers, **{IMAGES + c: pixels for c in CAMERAS}},
    }  # fmt: skip
    for folder in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / folder).mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    values = np.random.default_rng(seed).normal(size=(frames, 14)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 14)
    clock = np.tile(np.arange(length) / FPS, episodes).astype(np.float32)
    table = {"observation.state": column, "action": column, "timestamp": clock}
    table["episode_index"] = np.repeat(np.arange(episodes), length)
    pq.write_table(pa.table(table), root / "data/chunk-000/file-000.parquet")
    edges = np.arange(episodes + 1) * length
    table = {"episode_index": np.arange(episodes), "dataset_from_index": edges[:-1], "dataset_to_index": edges[1:]}
    for camera in CAMERAS:
        key = f"videos/{IMAGES}{camera}"
        zeros = np.zeros(episodes, int)
        table |= {f"{key}/chunk_index": zeros, f"{key}/file_index": zeros}
        table |= {f"{key}/from_timestamp": edges[:-1] / FPS, f"{key}/to_timestamp": edges[1:] / FPS}
        path = root / f"videos/{IMAGES}{camera}/chunk-000/file-000.mp4"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"-")
    pq.write_table(pa.table(table), root / "meta/episodes/chunk-000/file-000.parquet")
    return open_source(str(root))


def fill_sparse(source: Source, root: Path) -> None:
    """A cache of the right shape whose pixels are holes: as large to open as a real one, and free to make."""
    files = CacheFiles(root, make_spec(source, SIZE, "raw", 0))
    files.folder.mkdir(parents=True)
    files.write_numbers(source.state, source.action, np.stack([source.starts, source.ends]))
    for camera in files.spec.cameras:
        with files.pixels(camera).open("wb") as file:
            file.truncate(files.spec.frames * files.spec.frame_bytes(camera))
        for number, (first, end) in enumerate(files.spec.blocks):
            size = files.spec.frame_bytes(camera)
            files.finished(Block(camera, number, first * size, (end - first) * size, 0))


def open_ten(folder: Path) -> tuple[float, float]:
    """Seconds, and seconds of a core, until ten datasets of 500 episodes can be read; checksums come on top."""
    for number in range(10):
        fill_sparse(synthetic(folder / f"ten-{number}", 500, 300, number), folder / "ten")
    begun, cpu = time.perf_counter(), time.process_time()
    for number in range(10):
        source = open_source(str(folder / f"ten-{number}"))
        read_cache(CacheFiles(folder / "ten", make_spec(source, SIZE, "raw", 0)))
    return time.perf_counter() - begun, time.process_time() - cpu


def check_speed(root: Path, source: Source) -> float:
    """GB per second of checking a whole cache, as at the start of a run, pages in memory."""
    files, times = CacheFiles(root, make_spec(source, SIZE, "raw", 0)), []
    for _ in range(3):
        begun = time.perf_counter()
        find_missing(files, os.cpu_count() or 1, QUIET)
        times.append(time.perf_counter() - begun)
    return files.spec.bytes / 1e9 / min(times)


def flat_cost(frames: int) -> float:
    """Milliseconds per batch of a dataset of that many frames, its pixels made up."""
    ends = np.arange(300, frames + 1, 300)
    numbers = np.zeros((ends[-1], 14), np.float32)
    cameras = tuple(Camera(IMAGES + c, 168, 224, "image") for c in CAMERAS)
    info = {"features": {camera.key: {"dtype": "image"} for camera in cameras}}
    source = Source(
        "synthetic", Path("/"), FPS, NAMES, NAMES, tuple(range(14)), cameras, numbers, numbers, numbers[:, 0],
        ends - 300, ends, info, {},
    )  # fmt: skip
    source.__dict__["fingerprint"] = ""
    batches, stream = our_batches(source, blank_cache(source, SIZE))
    rate = speed(stream, 1.5)
    stream.close()
    batches.close()
    return 1000 * BATCH / rate


def memory(source: Source, cache: Cache) -> float:
    """MB that a forked worker has for itself while it makes batches."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        _, stream = our_batches(source, cache)
        for _ in range(20):
            next(stream)
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        size = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
        os.write(write, str(size["Private_Dirty"] + size["Private_Clean"]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return float(os.read(read, 1000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        measure(Path(scratch), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    root = folder / "bench"
    record(root, options.episodes, options.length)
    source = open_source(str(root))
    video, caches, built = disk(root, ".mp4"), {}, {}
    for kind in ("jpeg", "raw"):
        begun = time.perf_counter()
        caches[kind] = open_cache(source, SIZE, CacheConfig(str(folder / kind), kind), QUIET)
        built[kind] = len(source.state) / (time.perf_counter() - begun)
    own = memory(source, caches["jpeg"])
    streams = {"lerobot": (None, lerobot_batches(root, len(source.state)))}
    streams |= {kind: our_batches(source, cache) for kind, cache in caches.items()}
    rates: dict[str, list[float]] = {name: [] for name in streams}
    for _ in range(options.rounds):
        for name, (_, stream) in streams.items():
            rates[name].append(speed(stream, options.seconds))
    for batches, stream in streams.values():
        stream.close()
        if batches:
            batches.close()
    del streams, caches
    base = max(rates["lerobot"])
    out = Table("", "samples/s", "x LeRobot", "cold samples/s", "x disk", "built frames/s", "bar", title="loader")
    out.add_row("LeRobotDataset + resize", f"{base:.0f}", "1", "", "1", "", "")
    for kind, bar in (("jpeg", "20 x, 2.5 x disk"), ("raw", "60 x")):
        used = disk(folder / kind, f".{kind}") / video
        again = CacheConfig(str(folder / kind), kind)
        first = cold(folder / kind, source, lambda: open_cache(source, SIZE, again, QUIET))  # noqa: B023
        out.add_row(
            f"{kind} cache", f"{max(rates[kind]):.0f}", f"{max(rates[kind]) / base:.0f}", f"{first:.0f}", f"{used:.2f}",
            f"{built[kind]:.0f}", bar,
        )  # fmt: skip
    console = Console(width=110)
    console.print(out)
    flat = ", ".join(f"{n:,}: {flat_cost(n):.2f} ms" for n in (10_000, 100_000, 1_000_000))
    console.print(f"a batch of {BATCH} by frames of the dataset: {flat}")
    console.print(f"checksums are checked at {check_speed(folder / 'raw', source):.1f} GB/s (bar: 1 GB/s)")
    wall, cpu = open_ten(folder)
    console.print(f"ten datasets of 500 episodes open in {wall:.2f} s, {cpu:.2f} s of a core (bar: 1 s)")
    console.print(f"a forked worker adds {own:.0f} MB (bar: 300 MB)")
    shutil.rmtree(folder / "ten")


if __name__ == "__main__":
    main()

"""What it costs to read a dataset whole, and what it finds.

Cost: hashing (XXH3-128 as in the fingerprint, SHA-256 beside it), recalling a dataset's hashes, decoding every frame as
the doctor does. All of it is CPU time on one core, with files in the page cache; a disk may well be slower than the
hash. Rounds alternate and the best of each counts: others on the machine can only slow them.

Damage: 200 bytes in a row are altered at random places of a video as our recorder writes it, AV1 and H.264. Counted are
the videos whose images change, and those that a plain decoder, the doctor's decoder and the fingerprint see.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import xxhash
from loader import look, make_room
from rich.console import Console
from rich.table import Table

from holdfast.data.doctor import whole
from holdfast.data.lerobot import fingerprint
from holdfast.data.lerobot.fingerprint import hash_files
from holdfast.data.lerobot.source import open_source
from holdfast.data.lerobot.writer import add_patiently, dataset_writer, frame

ALTERED, LARGE = 200, 2**28  # bytes


def record(root: Path, full_colour: bool, episodes: int, length: int) -> None:
    rng = np.random.default_rng(0)
    size = {"height": 480, "width": 640}
    with dataset_writer(
        root, fps=30, names=("joint.pos",), cameras=("head",), robot="none", full_colour=full_colour, **size
    ) as dataset:
        for _ in range(episodes):
            room = make_room(rng)
            for t in range(length):
                value = np.array([t / length], np.float32)
                add_patiently(dataset, frame("Go.", value, value, {"head": look(room, t, rng)}))
            dataset.save_episode()


def best(rounds: int, *jobs: Callable[[], object]) -> list[float]:
    seconds = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for number, job in enumerate(jobs):
            start = time.process_time()
            job()
            seconds[number] = min(seconds[number], time.process_time() - start)
    return seconds


def cost(root: Path, rounds: int, table: Table) -> None:
    source = open_source(str(root))
    video = min(root.rglob("*.mp4"))
    size, frames = video.stat().st_size / 1e6, len(source.state)
    hash_files(root, source.files)  # remembers them
    large = root.with_suffix(".bin")
    large.write_bytes(np.random.default_rng(0).bytes(LARGE))

    def sha256() -> None:
        with large.open("rb") as file:
            hashlib.file_digest(file, "sha256")

    xxh3, sha, known, decoded = best(
        rounds,
        lambda: fingerprint._hash(large),
        sha256,
        lambda: hash_files(root, source.files),
        lambda: sum(1 for _ in whole.decode(video)),
    )
    hashed, shown = LARGE / 1e6 / xxh3, size / decoded
    table.add_row(
        root.name,
        f"{size:.1f} MB, {frames}",
        f"{hashed:.0f}",
        f"{sha / xxh3:.1f}",
        f"{1e3 * known:.1f}",
        f"{frames / decoded:.0f}",
        f"{shown:.1f}",
        f"{hashed / shown:.0f}",
    )


def pixels(path: Path) -> list[bytes]:
    """A digest of every image as a plain decoder shows it."""
    shown = []
    with av.open(str(path)) as container:
        for picture in container.decode(video=0):
            shown.append(xxhash.xxh3_128_digest(np.ascontiguousarray(picture.to_ndarray())))
    return shown


def plainly(path: Path) -> list[bytes] | None:
    try:
        return pixels(path)
    except av.FFmpegError:
        return None


def damage(root: Path, trials: int, scratch: Path, table: Table) -> None:
    video = min(root.rglob("*.mp4"))
    good, shown, digest = video.read_bytes(), pixels(video), fingerprint._hash(video)
    rng = np.random.default_rng(1)
    counts = {"changed": 0, "plain": 0, "doctor": 0, "doctor of changed": 0, "fingerprint": 0}
    for _ in range(trials):
        content = bytearray(good)
        place = int(rng.integers(0, len(good) - ALTERED))
        content[place : place + ALTERED] = rng.bytes(ALTERED)
        path = scratch / "altered.mp4"
        path.write_bytes(content)
        now = plainly(path)
        changed = now != shown
        try:
            told = any(error for _, error in whole.decode(path)) or len(list(whole.decode(path))) != len(shown)
        except (av.FFmpegError, IndexError):
            told = True
        counts["changed"] += changed
        counts["plain"] += now is None or len(now) != len(shown)
        counts["doctor"] += told
        counts["doctor of changed"] += told and changed
        counts["fingerprint"] += fingerprint._hash(path) != digest
    table.add_row(root.name, str(trials), *(str(count) for count in counts.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--length", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=100)
    args = parser.parse_args()
    av.logging.set_level(av.logging.PANIC)
    costs = Table(
        "codec",
        "video, frames",
        "hash MB/s",
        "SHA-256 / hash",
        "recall, ms",
        "images/s",
        "decode MB/s",
        "hash / decode",
    )
    damages = Table(
        "codec", "trials", "images change", "plain decoder", "doctor's decoder", "of changed", "fingerprint"
    )
    scratch = Path(tempfile.mkdtemp())
    os.environ["HOLDFAST_CACHE"] = str(scratch / "cache")
    try:
        for name, full_colour in (("AV1", False), ("H.264", True)):
            record(scratch / name, full_colour, args.episodes, args.length)
            time.sleep(3)  # younger files are not remembered
            cost(scratch / name, args.rounds, costs)
            damage(scratch / name, args.trials, scratch, damages)
    finally:
        shutil.rmtree(scratch)
    console = Console(width=140)
    console.print(costs)
    console.print(damages)


if __name__ == "__main__":
    main()

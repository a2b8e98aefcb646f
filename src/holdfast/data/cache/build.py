"""Builds the blocks of a frame cache that are missing or damaged: decode, resize, encode, write.

With one or two workers, or few images, threads do the work. Otherwise processes do: PyAV holds the GIL for every
image, so sixteen threads are no faster than two.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import numpy as np
import torch
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.processes import worker_pool
from holdfast.core.progress import progress_bar
from holdfast.data.cache.files import Block, CacheFiles, first_crc
from holdfast.data.cache.listing import say_size
from holdfast.data.doctor.findings import Expected
from holdfast.data.doctor.pictures import lost_frames
from holdfast.data.lerobot.source import Camera, Source
from holdfast.data.resize import scale

QUALITY = 90  # of JPEG; compared with 95: a third less disk, faster to decode, 0.4 of 255 more mean error
_LARGE = 2 * 2**30  # bytes above which checking shows a progress bar
_TOGETHER = 64  # frames decoded at once by a worker: 60 MB at 480 x 640
_FEW = 20_000  # images that threads build before processes have started

type DecodeBlock = Callable[[Camera, int], Block]
_here: tuple[Writer, Source]  # set in a worker process


def find_missing(files: CacheFiles, threads: int, console: Console) -> list[tuple[str, int]]:
    """Check every existing block, and list those to build: (camera, number). Reports damaged ones."""
    wanted = [(camera, number) for number in range(len(files.spec.blocks)) for camera in files.spec.cameras]
    built = files.read_blocks()
    blocks = [built[place] for place in wanted if place in built]
    large = sum(block.size for block in blocks) > _LARGE
    with ThreadPoolExecutor(threads) as pool, progress_bar(console if large else Console(quiet=True)) as bar:
        checked = bar.add_task("checking the frame cache", total=len(blocks), note="")
        sound = set()
        for block, good in zip(blocks, pool.map(files.is_sound, blocks), strict=True):
            bar.advance(checked)
            if good:
                sound.add(block)
    if damaged := [block for block in blocks if block not in sound]:
        where = ", ".join(f"{b.camera} block {b.number}" for b in damaged[:3]) + (", ..." if len(damaged) > 3 else "")
        console.print(
            f"[yellow]Frame cache {files.folder} of {files.spec.dataset} is damaged in {len(damaged)} of {len(wanted)} "
            f"blocks ({where}). They are built again; is the disk healthy?[/yellow]",
            soft_wrap=True,
        )
    if len(sound) != len(built):
        files.forget(sound)
    present = {(block.camera, block.number) for block in sound}
    return [place for place in wanted if place not in present]


def build(files: CacheFiles, source: Source, missing: list[tuple[str, int]], workers: int, console: Console) -> None:
    """Build the missing blocks, after checking that the videos are complete and that there is room."""
    _check_recording(source)
    _check_room(files, missing)
    cameras = {camera.key: camera for camera in source.cameras}
    images = sum(files.spec.blocks[number][1] - files.spec.blocks[number][0] for _, number in missing)
    start = _threads if workers <= 2 or images < _FEW else _processes
    pool, work = start(Writer(files), source, min(workers, len(missing)))
    try:
        with progress_bar(console) as bar:
            task = bar.add_task("building the frame cache", total=len(missing), note="")
            jobs = [pool.submit(work, cameras[camera], number) for camera, number in missing]
            for job in as_completed(jobs):
                files.finished(job.result())
                bar.advance(task)
    except BrokenProcessPool:
        raise HoldfastError(
            f"A worker process died, perhaps out of memory. Finished blocks of {files.folder} are kept; run the "
            "same command again with fewer --cache.workers."
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HoldfastError(
            f"The disk is full: the frame cache {files.folder} could not be finished. Finished blocks are kept. Free "
            "some space (`holdfast cache ls`) or choose --cache.format=jpeg or another --cache.root; then run the same "
            "command again."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _threads(writer: Writer, source: Source, workers: int) -> tuple[Executor, DecodeBlock]:
    return ThreadPoolExecutor(workers, thread_name_prefix="cache"), partial(_build, writer, source)


def _processes(writer: Writer, source: Source, workers: int) -> tuple[Executor, DecodeBlock]:
    return worker_pool(workers, [__name__, "holdfast.data.lerobot.video"], _enter, writer, source), _build_here


def _enter(writer: Writer, source: Source) -> None:
    """Initialize a worker process: writer and source are sent once, not with every block."""
    global _here
    _here = writer, source
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    torch.set_num_threads(1)


def _build_here(camera: Camera, number: int) -> Block:
    return _build(*_here, camera, number)


def _build(writer: Writer, source: Source, camera: Camera, number: int) -> Block:
    spec = writer.files.spec
    pictures = (
        scale(source.images(camera, frames), spec.cameras[camera.key], spec.rule == "antialiased")
        for frames in _runs(source, *spec.blocks[number])
    )
    write = writer.write_raw if spec.format == "raw" else writer.write_jpeg
    return write(camera.key, number, pictures)


def _runs(source: Source, first: int, end: int) -> Iterator[np.ndarray]:
    """Frames of a block, in batches from one episode each."""
    for episode in range(int(source.episode_of(np.array([first]))[0]), len(source.ends)):
        if source.starts[episode] >= end:
            return
        for start in range(int(source.starts[episode]), int(source.ends[episode]), _TOGETHER):
            yield np.arange(start, min(start + _TOGETHER, int(source.ends[episode])))


class Writer:
    """Writes blocks into the cameras' files. Not memory-mapped: a full disk raises an error instead of SIGBUS."""

    def __init__(self, files: CacheFiles) -> None:
        self.files = files
        ends = dict.fromkeys(files.spec.cameras, 0)
        for block in files.read_blocks().values():
            ends[block.camera] = max(ends[block.camera], block.offset + block.size)
        for camera, end in ends.items():
            size = files.spec.frames * files.spec.frame_bytes(camera) if files.spec.format == "raw" else end
            with files.pixels(camera).open("ab") as file:
                file.truncate(size)  # for JPEG, drops what a kill left after the last complete block

    def write_raw(self, camera: str, number: int, pictures: Iterator[torch.Tensor]) -> Block:
        """Write pixels at their offset."""
        offset = place = self.files.spec.blocks[number][0] * self.files.spec.frame_bytes(camera)
        crc = first_crc(camera, number)
        for images in pictures:
            data = images.contiguous().numpy().reshape(-1).data
            crc = zlib.crc32(data, crc)
            self._put(camera, data, place)
            place += len(data)
        return Block(camera, number, offset, place - offset, crc)

    def write_jpeg(self, camera: str, number: int, pictures: Iterator[torch.Tensor]) -> Block:
        """Encode a block's images and append them."""
        from torchvision.io import encode_jpeg

        encoded = [encode_jpeg(image, QUALITY).numpy().tobytes() for images in pictures for image in images]
        data = memoryview(np.array([len(e) for e in encoded], np.uint32).tobytes() + b"".join(encoded))
        offset = self._reserve(camera, len(data))
        self._put(camera, data, offset)
        return Block(camera, number, offset, len(data), zlib.crc32(data, first_crc(camera, number)))

    def _reserve(self, camera: str, size: int) -> int:
        """Extend a camera's file, under a lock between threads and processes."""
        with self.files.pixels(camera).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return file.truncate(file.seek(0, os.SEEK_END) + size) - size

    def _put(self, camera: str, data: memoryview, place: int) -> None:
        handle = os.open(self.files.pixels(camera), os.O_WRONLY)
        try:
            while data:
                written = os.pwrite(handle, data, place)
                data, place = data[written:], place + written
        finally:
            os.close(handle)


def _check_recording(source: Source) -> None:
    """Refuse videos that lost frames: every later image would be of another moment."""
    for finding in lost_frames(source, Expected()):
        raise HoldfastError(
            f"Dataset {source.dataset} cannot be trained on: {finding.where}: {finding.detail} {finding.advice}"
        )


def _check_room(files: CacheFiles, missing: list[tuple[str, int]]) -> None:
    spec = files.spec
    pixels = sum((spec.blocks[n][1] - spec.blocks[n][0]) * spec.frame_bytes(camera) for camera, n in missing)
    needed, free = pixels * spec.bytes // max(1, spec.raw_bytes), shutil.disk_usage(files.folder).free
    if needed > free:
        raise HoldfastError(
            f"The frame cache of {spec.dataset} needs {say_size(needed)} in {files.folder.parent}, where "
            f"{say_size(free)} are free. Remove others (`holdfast cache ls`), choose --cache.format=jpeg, or name "
            "another disk with --cache.root."
        )

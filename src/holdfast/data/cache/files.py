"""The files of one frame cache, with checksums.

    cache.json      what the cache holds (its Spec), and the checksums of the arrays
    blocks.jsonl    one line per finished block and camera: its offset, size and checksum
    state.npy action.npy episodes.npy
    <camera>.raw    uint8 (frames, 3, height, width)
    <camera>.jpeg   blocks in any order, each the lengths of its images (uint32) followed by the images

A block's line is written after the block, and only blocks with a line count. So a killed build continues where it
stopped, and a damaged block loses its line and is rebuilt alone. Checksums are CRC-32 (zlib, 3 GB/s per core): they
detect disk faults, not tampering.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import Timeout

from holdfast.core.errors import HoldfastError
from holdfast.core.files import replacing, write_text
from holdfast.core.locks import file_lock
from holdfast.core.outside import open_file
from holdfast.data.cache.listing import HEADER, JOURNAL, LOCK
from holdfast.data.cache.spec import Spec

_PIECE = 8 * 2**20  # bytes read at once


@dataclass(frozen=True)
class Block:
    """A finished block of one camera: bytes offset..offset+size of the camera's file."""

    camera: str
    number: int
    offset: int
    size: int
    crc: int


class CacheFiles:
    """One cache's folder."""

    def __init__(self, root: Path, spec: Spec) -> None:
        self.spec = spec
        self.folder = root / spec.key

    def pixels(self, camera: str) -> Path:
        """The file of a camera's images."""
        return self.folder / f"{camera}.{self.spec.format}"

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Keep other builders out; call `waiting` if there is one. The lock is released when the process ends."""
        lock = file_lock(self.folder / LOCK)
        blocking = False
        while not lock.is_locked:
            try:
                lock.acquire(blocking=blocking)  # creates the folder if needed
            except Timeout:
                waiting()
                blocking = True
            except FileNotFoundError:  # the folder was just removed: try again
                continue
            except OSError as error:
                raise HoldfastError(
                    f"The frame cache {self.folder.parent} cannot be written ({error.strerror}). "
                    "Name another folder with --cache.root or $HOLDFAST_CACHE."
                ) from None
        try:
            yield
        finally:
            lock.release()

    def write_numbers(self, state: np.ndarray, action: np.ndarray, episodes: np.ndarray) -> None:
        """Write the header, and the arrays that differ from those on disk."""
        content: dict[str, Any] = {"spec": self.spec.to_json(), "numbers": {}}
        for name, values in (("state", state), ("action", action), ("episodes", episodes)):
            values = np.ascontiguousarray(values)
            content["numbers"][name] = zlib.crc32(values)
            path = self.folder / f"{name}.npy"
            if not _holds(path, values):
                with replacing(path) as file:
                    np.save(file, values)
        write_text(self.folder / HEADER, json.dumps(content, indent=1))

    def read_blocks(self) -> dict[tuple[str, int], Block]:
        """Every block that was finished, by camera and number. A line truncated by a kill is skipped."""
        found: dict[tuple[str, int], Block] = {}
        for line in self._read_journal():
            try:
                block = Block(**json.loads(line))
            except (ValueError, TypeError):
                continue
            found[block.camera, block.number] = block
        return found

    @property
    def whole(self) -> bool:
        """Whether every block was finished."""
        return len(self.read_blocks()) >= len(self.spec.blocks) * len(self.spec.cameras)

    def _read_journal(self) -> list[str]:
        try:
            with open_file(self.folder / JOURNAL) as file:
                return file.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def forget(self, keep: Iterable[Block]) -> None:
        """Keep only the lines of these blocks."""
        write_text(self.folder / JOURNAL, "".join(json.dumps(asdict(block)) + "\n" for block in keep))

    def finished(self, block: Block) -> None:
        """Write a block's line."""
        with (self.folder / JOURNAL).open("a") as file:
            file.write(json.dumps(asdict(block)) + "\n")

    def is_sound(self, block: Block) -> bool:
        """Whether a block has the bytes that were written."""
        try:
            with open_file(self.pixels(block.camera)).detach() as file:
                file.seek(block.offset)
                crc, left = first_crc(block.camera, block.number), block.size
                piece = memoryview(bytearray(min(_PIECE, left)))
                while left and (count := file.readinto(piece[: min(left, _PIECE)])):
                    crc, left = zlib.crc32(piece[:count], crc), left - count
        except (HoldfastError, OSError, ValueError, TypeError):  # impossible offset: the line itself is damaged
            return False
        return not left and crc == block.crc


def first_crc(camera: str, number: int) -> int:
    """The start value of a block's checksum, so that a damaged line cannot match another block."""
    return zlib.crc32(f"{camera} {number}".encode())


def _holds(path: Path, values: np.ndarray) -> bool:
    try:
        stored = np.load(path)
    except (OSError, ValueError, EOFError):
        return False
    return stored.dtype == values.dtype and stored.shape == values.shape and bool((stored == values).all())

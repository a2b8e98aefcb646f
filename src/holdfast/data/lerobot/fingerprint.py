"""The identity of a dataset: a hash over every byte that decides a frame or a value.

Files are hashed with XXH3-128, which is faster than any disk. It detects accidents, not tampering. The hashes of a
dataset are remembered in one record below the cache folder, and used again while a file's size, times and inode stay
the same. A record that is damaged or cannot be written costs time and nothing else.

A record also keeps the hashes with which the files were first seen. Editing or recording again changes a file's size,
and then it counts as new. Other bytes in a file of its old size are damage.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import xxhash
from rich.console import Console

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.files import cache_folder, write_text
from holdfast.core.json_records import from_json, to_json
from holdfast.core.locks import file_lock
from holdfast.core.progress import progress_bar

FOLDER = "hashes"  # below the cache folder
RECENT = 2 * 10**9  # nanoseconds; a file changed so shortly before could change again within one tick of its clock
_LARGEST = 2**30  # bytes of a record: some datasets have a video for every episode
_LARGE = 2 * 2**30  # bytes above which hashing shows a progress bar
_ENDS = 2**16  # bytes at the start and end of a video that older fingerprints covered


@dataclass(frozen=True)
class FileHash:
    """The hash of a file now, and when it was first seen. Without a `stamp` the file is hashed again next time."""

    size: int
    stamp: tuple[int, int, int] | None  # times of the last change of content and of inode, and the inode
    hash: str
    first: str
    seen: str  # the date of `first`

    @property
    def altered(self) -> bool:
        """Whether the bytes were others when the file was first seen."""
        return self.hash != self.first


@dataclass(frozen=True)
class _Record:
    root: str
    files: dict[str, FileHash]


def fingerprint(hashes: Mapping[str, FileHash]) -> str:
    """The fingerprint of a dataset, from the hashes of its files."""
    listed = "".join(f"{name}\0{hashes[name].hash}\n" for name in sorted(hashes))
    return hashlib.sha256(os.fsencode(listed)).hexdigest()


def hash_files(root: Path, files: Iterable[Path], *, anew: bool = False) -> dict[str, FileHash]:
    """Hashes of a dataset's files by their paths inside it. With `anew` every byte is read, whatever is remembered."""
    paths = {os.path.relpath(path, root): path for path in files}
    with _remembering(root) as (known, remember):
        stats = {name: _stat(path) for name, path in paths.items()}
        found = {
            name: known[name] for name, stat in stats.items() if name in known and known[name].stamp == _stamp(stat)
        }
        new = {name: stat for name, stat in stats.items() if anew or name not in found}
        found |= {name: _compare(known.get(name), new[name], digest) for name, digest in _read_all(paths, new).items()}
        if found != known:
            remember(found)
    return found


def record_file(root: Path) -> Path:
    """The file in which the hashes of a dataset folder are remembered."""
    return cache_folder() / FOLDER / f"{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:20]}.json"


@contextmanager
def _remembering(root: Path) -> Iterator[tuple[dict[str, FileHash], Callable[[dict[str, FileHash]], None]]]:
    """What is remembered of a dataset, and a function to replace it. Other processes wait and need not hash again."""
    file = record_file(root)
    lock = file_lock(file.with_suffix(".lock"))
    try:
        lock.acquire()
    except OSError:  # the folder cannot be written
        yield {}, lambda found: None
        return
    try:
        yield _read(file), lambda found: _write(file, _Record(str(root.resolve()), found))
    finally:
        lock.release()


def _read(file: Path) -> dict[str, FileHash]:
    with suppress(HoldfastError, KeyError, TypeError):  # none yet, or damaged
        content = outside.parse_json(outside.read_text(file, _LARGEST), file)
        if content["digest"] == _digest(content["record"]):
            return from_json(_Record, content["record"], str(file)).files
    return {}


def _write(file: Path, record: _Record) -> None:
    content = to_json(record)
    with suppress(OSError):
        write_text(file, json.dumps({"digest": _digest(content), "record": content}))


def _digest(content: object) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(content, sort_keys=True).encode())


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read ({error.strerror}).") from None


def _stamp(stat: os.stat_result) -> tuple[int, int, int]:
    """Changes whenever a file is written; ctime too, because a program can set mtime back."""
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _compare(before: FileHash | None, stat: os.stat_result, digest: str) -> FileHash:
    """What to remember of a file that was just hashed. `stat` is from before, so that a change meanwhile shows."""
    young = time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) < RECENT
    now = FileHash(stat.st_size, None if young else _stamp(stat), digest, digest, _today())
    return replace(now, first=before.first, seen=before.seen) if before and before.size == now.size else now


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _read_all(paths: Mapping[str, Path], stats: Mapping[str, os.stat_result]) -> dict[str, str]:
    """Hash files in parallel: hashing releases the GIL."""
    total = sum(stat.st_size for stat in stats.values())
    pool, found = ThreadPoolExecutor(os.cpu_count()), {}
    try:
        with progress_bar(Console(stderr=True, quiet=total < _LARGE)) as bar:
            task = bar.add_task("hashing files", total=total // 2**20, note="MiB")
            for name, digest in zip(stats, pool.map(_hash, (paths[name] for name in stats)), strict=True):
                found[name] = digest
                bar.advance(task, stats[name].st_size / 2**20)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the files that have not begun
    return found


def _hash(path: Path) -> str:
    try:
        with outside.open_file(path) as file:
            return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read ({error.strerror}). Restore it from a backup.") from None


def partial_fingerprint(root: Path) -> str:
    """The fingerprint of older versions, by which their runs are continued: of videos it covers the two ends only."""
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix in (".json", ".parquet", ".mp4")):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(root)}:{size}\n".encode())
        if path.suffix == ".parquet":
            digest.update(path.read_bytes())
        elif path.suffix == ".mp4":
            with path.open("rb") as file:
                digest.update(file.read(_ENDS))
                file.seek(max(0, size - _ENDS))
                digest.update(file.read())
    return digest.hexdigest()

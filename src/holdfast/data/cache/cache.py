"""Decoded frames on disk, read in batches by training.

A cache is opened, checked against its checksums once per process, and built or repaired where needed. The files are
memory-mapped, so that reading survives a fork and all processes of a machine share one copy.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from holdfast.data.cache.build import build, find_missing
from holdfast.data.cache.config import CacheConfig
from holdfast.data.cache.files import CacheFiles
from holdfast.data.cache.listing import HEADER, say_size
from holdfast.data.cache.spec import JPEG_SHARE, Spec, choose_format, kept_sizes, make_spec
from holdfast.data.lerobot.folder import read_cameras, read_info
from holdfast.data.lerobot.source import Source
from holdfast.data.resize import Resize

_CHECKED: set[Path] = set()  # caches whose checksums this process has verified


@dataclass(frozen=True)
class Cache:
    """Frames of one dataset. `state` and `action` are the dataset's values, `images` reads pixels."""

    spec: Spec
    state: np.ndarray
    action: np.ndarray
    _pixels: dict[str, torch.Tensor] = field(repr=False)
    _places: dict[str, np.ndarray] = field(repr=False)  # of JPEG: offset and length of every image

    def images(self, camera: str, frames: torch.Tensor, out: torch.Tensor) -> None:
        """Fill `out`, uint8 (n, 3, height, width), with the images of `frames`."""
        pixels = self._pixels[camera]
        if self.spec.format == "raw":
            torch.index_select(pixels, 0, frames, out=out)
            return
        from torchvision.io import ImageReadMode, decode_jpeg

        for image, (offset, size) in zip(out, self._places[camera][frames.numpy()].tolist(), strict=True):
            image.copy_(decode_jpeg(pixels[offset : offset + size], ImageReadMode.RGB))


def open_cache(source: Source, resize: Resize | None, config: CacheConfig, console: Console) -> Cache:
    """Open the cache of a dataset at the size a policy reads, after building or repairing missing blocks."""
    return open_planned(source, plan_cache(source, resize, config), config, console)


def open_planned(source: Source, spec: Spec, config: CacheConfig, console: Console, check: bool = True) -> Cache:
    """Open the cache that `plan_cache` has described.

    Without `check` it is not verified: another process of this machine has just done that.
    """
    files = CacheFiles(config.folder, spec)
    if (check and files.folder not in _CHECKED) or not (files.folder / HEADER).exists() or not files.whole:
        with files.locked(lambda: console.print(f"Waiting for another process that builds {files.folder}.")):
            files.write_numbers(source.state, source.action, np.stack([source.starts, source.ends]))
            missing = find_missing(files, config.parallel, console)
            if missing:
                about = "" if spec.format == "raw" else "about "
                console.print(
                    f"Frame cache of {spec.dataset}: {spec.frames} frames of {len(spec.cameras)} cameras, {about}"
                    f"{say_size(spec.bytes)} as {spec.format} in {files.folder}",
                    soft_wrap=True,
                )
                build(files, source, missing, config.parallel, console)
        _CHECKED.add(files.folder)
    (files.folder / HEADER).touch()  # last used
    return read_cache(files)


def plan_cache(source: Source, resize: Resize | None, config: CacheConfig) -> Spec:
    """What the cache of a dataset will hold. With format=auto an existing cache decides the format."""
    planned = make_spec(source, resize, config.format, _free(config))
    for present in ("raw", "jpeg") if config.format == "auto" else ():
        spec = replace(planned, format=present)
        if (config.folder / spec.key / HEADER).exists():
            return spec
    return planned


def read_cache(files: CacheFiles) -> Cache:
    """Memory-map a complete cache."""
    spec = files.spec
    pixels, places = {}, {}
    for camera, (height, width) in spec.cameras.items():
        mapped = _map(files.pixels(camera))
        if spec.format == "raw":
            pixels[camera] = mapped.view(spec.frames, 3, height, width)
        else:
            pixels[camera], places[camera] = mapped, np.empty((spec.frames, 2), np.int64)
    for block in files.read_blocks().values() if places else ():
        first, end = spec.blocks[block.number]
        start = block.offset + 4 * (end - first)
        lengths = pixels[block.camera][block.offset : start].numpy().view(np.uint32).astype(np.int64)
        places[block.camera][first:end] = np.stack([start + np.cumsum(lengths) - lengths, lengths], axis=1)
    state, action = (np.asarray(np.load(files.folder / f"{n}.npy", mmap_mode="r")) for n in ("state", "action"))
    return Cache(spec, state, action, pixels, places)


def _map(path: Path) -> torch.Tensor:
    """A file's bytes, mapped read-only: a private mapping larger than memory would be refused."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(np.memmap(path, np.uint8, "r")))


def plan_bytes(dataset: Path, resize: Resize | None, config: CacheConfig) -> int:
    """Bytes that the cache of a dataset will take at most, from its header alone; 0 if it is not present."""
    if not (dataset / "meta" / "info.json").is_file():
        return 0
    info = read_info(dataset)
    sizes = kept_sizes(read_cameras(dataset, info), resize).values()
    raw = info["total_frames"] * sum(3 * height * width for height, width in sizes)
    chosen = choose_format(raw, _free(config)) if config.format == "auto" else config.format
    return raw if chosen == "raw" else int(raw * JPEG_SHARE)


def blank_cache(source: Source, resize: Resize | None) -> Cache:
    """Black frames of the right number and size without a file, to time steps before anything is decoded."""
    spec = make_spec(source, resize, "raw", 0)
    pixels = {
        camera: torch.zeros(1, 3, *size, dtype=torch.uint8).expand(spec.frames, -1, -1, -1)
        for camera, size in spec.cameras.items()
    }
    return Cache(spec, source.state, source.action, pixels, {})


def _free(config: CacheConfig) -> int:
    """Free bytes on the disk of the caches."""
    return shutil.disk_usage(next(p for p in (config.folder, *config.folder.parents) if p.exists())).free

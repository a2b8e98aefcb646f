"""What a frame cache holds, derived from a dataset and a policy: its key, blocks and size."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from holdfast.data.lerobot.source import Camera, Source
from holdfast.data.resize import Resize

VERSION = 1  # of files and pixels; raise it when either would come out differently
BLOCK = 64 * 2**20  # bytes of raw pixels per camera that are built, checked and rebuilt as one
RAW_LIMIT = 256 * 2**30  # a larger cache is not raw unless --cache.format=raw
JPEG_SHARE = 0.2  # of the raw size, at most, for images of a robot


@dataclass(frozen=True)
class Spec:
    """One cache: frames of one dataset at one size in one format. `blocks` are ranges of frames: whole episodes."""

    dataset: str
    origin: str  # digest of the dataset: files, values, which video is which camera
    cameras: dict[str, tuple[int, int]]  # key -> height, width as stored
    rule: str  # how images were resized
    format: str
    frames: int
    blocks: tuple[tuple[int, int], ...]

    @property
    def key(self) -> str:
        """Name of the cache's folder: the same data at the same size has the same cache, wherever the dataset is."""
        return _digest([VERSION, self.origin, sorted(self.cameras.items()), self.rule, self.format, self.blocks])[:20]

    @property
    def raw_bytes(self) -> int:
        """Bytes of all pixels."""
        return self.frames * sum(self.frame_bytes(key) for key in self.cameras)

    @property
    def bytes(self) -> int:
        """Bytes on disk: exact for raw, an upper bound for JPEG."""
        return self.raw_bytes if self.format == "raw" else int(self.raw_bytes * JPEG_SHARE)

    def frame_bytes(self, camera: str) -> int:
        """Bytes of one image's pixels."""
        height, width = self.cameras[camera]
        return 3 * height * width

    def to_json(self) -> dict[str, Any]:
        """Plain values for cache.json."""
        return {"version": VERSION, **asdict(self)}


def make_spec(source: Source, resize: Resize | None, wanted: str, free: int) -> Spec:
    """Describe the cache of a dataset; with `wanted` = auto the format follows from the size and the free disk."""
    cameras = kept_sizes(source.cameras, resize)
    native = all(cameras[c.key] == (c.height, c.width) for c in source.cameras)
    rule = "native" if native or resize is None else "antialiased" if resize.antialias else "plain"
    largest = 3 * max(height * width for height, width in cameras.values())
    blocks = _blocks([int(e) for e in source.ends], max(1, BLOCK // largest))
    spec = Spec(source.dataset, _origin(source), cameras, rule, wanted, len(source.action), blocks)
    return replace(spec, format=choose_format(spec.raw_bytes, free)) if wanted == "auto" else spec


def kept_sizes(cameras: Sequence[Camera], resize: Resize | None) -> dict[str, tuple[int, int]]:
    """Height and width at which every camera's images are stored."""
    return {c.key: resize.shrunk(c.height, c.width) if resize else (c.height, c.width) for c in cameras}


def choose_format(raw: int, free: int) -> str:
    """The rule behind --cache.format=auto: raw if it takes at most half of the free disk and RAW_LIMIT, else JPEG."""
    return "raw" if raw <= min(free // 2, RAW_LIMIT) else "jpeg"


def _origin(source: Source) -> str:
    numbers = [zlib.crc32(np.ascontiguousarray(values)) for values in (source.state, source.action, source.ends)]
    clips = [source.clip(camera, 0) for camera in source.cameras]
    files = [str(clip[0].relative_to(source.root)) if clip else "" for clip in clips]
    cameras = [[asdict(camera), file] for camera, file in zip(source.cameras, files, strict=True)]
    return _digest([source.fingerprint, source.action_names, numbers, cameras])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _blocks(ends: list[int], frames: int) -> tuple[tuple[int, int], ...]:
    """Consecutive whole episodes with at least `frames` frames per block, except for the last."""
    blocks, first = [], 0
    for end in ends:
        if end - first >= frames or end == ends[-1]:
            blocks.append((first, end))
            first = end
    return tuple(blocks)

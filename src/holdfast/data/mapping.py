"""A dataset seen through the mapping that its stream spells out: to all who read it, it is of the run's schema."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import Mapping, black
from holdfast.data.lerobot.folder import ACTION, IMAGES, STATE, Camera
from holdfast.data.lerobot.source import Source

if TYPE_CHECKING:
    import torch

COUNTERS = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Mapped(Source):
    """A source that shows another one: cameras by other names or black, dimensions in another order, fewer frames."""

    original: Source
    mapping: Mapping
    stride: int  # every stride-th frame of the original is shown

    @cached_property
    def fingerprint(self) -> str:
        """The original's, together with the mapping."""
        seen = [self.original.fingerprint, self.mapping.cameras, self.mapping.dimensions, self.names, self.stride]
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()

    @property
    def raw(self) -> Source:
        """The dataset as it lies on disk."""
        return self.original

    def images(self, camera: Camera, frames: np.ndarray) -> torch.Tensor:
        """Pixels of the original's camera, or black where there is none."""
        import torch

        behind = self._behind(camera)
        if behind is None:
            return torch.zeros(len(frames), 3, camera.height, camera.width, dtype=torch.uint8)
        episode = int(self.episode_of(frames[:1])[0])
        return self.original.images(
            behind, self.original.starts[episode] + (frames - self.starts[episode]) * self.stride
        )

    def clip(self, camera: Camera, episode: int) -> tuple[Path, float] | None:
        """The original's video, if it shows just these frames."""
        behind = self._behind(camera)
        return self.original.clip(behind, episode) if behind is not None and self.stride == 1 else None

    def video_path(self, camera: Camera, episode: int) -> Path:
        """The original's video file."""
        behind = self._behind(camera)
        assert behind is not None
        return self.original.video_path(behind, episode)

    def rows(self, episode: int) -> pa.Table:
        """State, action and counters; other columns of the original may mean something else here."""
        frames = np.arange(self.starts[episode], self.ends[episode])
        words = self.original.rows(episode)["task_index"].to_numpy()[:: self.stride]
        count = np.arange(len(frames))
        counters = (self.timestamps[frames], count, np.full_like(count, episode), frames, words)
        columns = {STATE: list(self.state[frames]), ACTION: list(self.action[frames])}
        return pa.table({**columns, **dict(zip(COUNTERS, counters, strict=True))})

    def metadata(self) -> Any:
        """LeRobot's metadata object with the features that are shown."""
        metadata = self.original.metadata()
        metadata.features.clear()
        for key, feature in self.info["features"].items():
            metadata.features[key] = {**feature, "shape": tuple(feature["shape"])}
        return metadata

    def _behind(self, camera: Camera) -> Camera | None:
        """The original's camera that a camera shows; None for black."""
        key = self.mapping.cameras.get(camera.key.removeprefix(IMAGES), camera.key)
        return None if black(key) else _find(self.original, key)


def apply(source: Source, mapping: Mapping | None, names: tuple[str, ...] | None) -> Source:
    """Show a dataset through a mapping; `names` are the run's names of the dimensions, if an embodiment gives them."""
    if mapping is None:
        return source
    try:
        order = _order(source, mapping, names)
        cameras = _cameras(source, mapping)
        stride = _stride(source, mapping)
    except HoldfastError as error:
        raise HoldfastError(f"The mapping of dataset {source.dataset} does not fit it: {error}") from None
    lengths = -(-np.array(source.lengths) // stride)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    within = np.arange(ends[-1]) - np.repeat(starts, lengths)
    first = np.repeat(source.starts, lengths) + within * stride
    # A command is where the arm shall be one step later, and a step is now as long as `stride` were.
    last = np.minimum(first + stride - 1, np.repeat(source.ends, lengths) - 1)
    shown = names if mapping.dimensions and names else tuple(source.names[i] for i in order)
    fps = source.fps / stride
    return Mapped(
        dataset=source.dataset,
        root=source.root,
        fps=int(fps) if fps == int(fps) else fps,
        names=shown,
        cameras=cameras,
        state=source.state[first][:, order],
        action=source.action[last][:, order],
        timestamps=(within / fps).astype(np.float32),
        starts=starts,
        ends=ends,
        info=_info(source, shown, cameras, fps),
        episodes={"episode_index": source.episodes["episode_index"], "length": lengths.tolist()},
        original=source,
        mapping=mapping,
        stride=stride,
    )


def _order(source: Source, mapping: Mapping, names: tuple[str, ...] | None) -> list[int]:
    if not mapping.dimensions:
        return list(range(len(source.names)))
    if names is not None and len(mapping.dimensions) != len(names):
        raise HoldfastError(
            f"'dimensions' lists {len(mapping.dimensions)} names, the embodiment has {len(names)}: {', '.join(names)}."
        )
    if source.state.shape[1] != source.action.shape[1]:
        raise HoldfastError("its state and action do not have the same dimensions.")
    for name in mapping.dimensions:
        if name not in source.names:
            raise unknown("dimension", name, source.names)
    return [source.names.index(name) for name in mapping.dimensions]


def _cameras(source: Source, mapping: Mapping) -> tuple[Camera, ...]:
    wanted = mapping.cameras or {camera.key.removeprefix(IMAGES): camera.key for camera in source.cameras}
    shown: list[Camera] = []
    used: set[str] = set()
    for name, key in wanted.items():
        size = black(key)
        camera = Camera("", *size, "black") if size else _find(source, key)
        if not size and camera.key in used:
            raise HoldfastError(f"it uses camera {camera.key.removeprefix(IMAGES)!r} of the dataset twice.")
        used.add(camera.key)
        shown.append(replace(camera, key=IMAGES + name))
    return tuple(shown)


def _find(source: Source, key: str) -> Camera:
    for camera in source.cameras:
        if camera.key in (key, IMAGES + key):
            return camera
    known = [camera.key.removeprefix(IMAGES) for camera in source.cameras]
    raise HoldfastError(f'{unknown("camera", key, known)} For a camera that is not there, write "black 480x640".')


def _stride(source: Source, mapping: Mapping) -> int:
    stride = source.fps / (mapping.fps or source.fps)
    if stride != int(stride):
        raise HoldfastError(
            f"{source.fps:g} frames per second cannot become {mapping.fps:g}: only every 2nd, 3rd, ... frame can be "
            "taken, nothing is invented in between. Record at the run's rate, or at a whole multiple of it."
        )
    return int(stride)


def _info(source: Source, names: tuple[str, ...], cameras: tuple[Camera, ...], fps: float) -> dict[str, Any]:
    """The header of the dataset that is shown."""
    old = source.info["features"]
    features: dict[str, Any] = {
        key: {"dtype": "float32", "shape": [len(names)], "names": list(names)} for key in (STATE, ACTION)
    }
    for camera in cameras:
        pixels = {"shape": [camera.height, camera.width, 3], "names": ["height", "width", "channels"]}
        features[camera.key] = {"dtype": "video", **pixels, "info": {"video.fps": fps}}
    features.update({key: old[key] for key in COUNTERS})
    return {**source.info, "fps": int(fps) if fps == int(fps) else fps, "features": features}

"""A dataset seen through the mapping in its stream: with the cameras, dimensions and frame rate of the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import Mapping, black
from holdfast.data.lerobot.folder import ACTION, IMAGES, STATE, Camera, camera_name, is_image
from holdfast.data.lerobot.header import check_key, check_picture
from holdfast.data.lerobot.source import Source, made_up_states
from holdfast.data.targets import refuse_unknown_kinds
from holdfast.embodiments.embodiment import TARGETS, Embodiment, Kind

if TYPE_CHECKING:
    import torch

COUNTERS = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Mapped(Source):
    """A view of another source: cameras renamed or black, dimensions reordered, fewer frames."""

    original: Source
    mapping: Mapping
    stride: int  # every stride-th frame of the original is shown
    summed: tuple[str, ...]  # increments, summed between two shown frames
    averaged: tuple[str, ...]  # velocities, averaged between two shown frames

    def _identity(self, files: str) -> str:
        """Files and mapping together."""
        seen = [
            files,
            self.mapping.cameras,
            self.mapping.dimensions,
            self.action_names,
            self.stride,
        ]
        seen += [self.summed] if self.summed else []
        seen += ["averaged", self.averaged] if self.averaged else []
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()

    @property
    def raw(self) -> Source:
        """The dataset as it is on disk."""
        return self.original

    def images(self, camera: Camera, frames: np.ndarray) -> torch.Tensor:
        """Pixels of the original's camera, or black if there is none."""
        import torch

        original = self._original(camera)
        if original is None:
            return torch.zeros(len(frames), 3, camera.height, camera.width, dtype=torch.uint8)
        episode = int(self.episode_of(frames[:1])[0])
        return self.original.images(
            original, self.original.starts[episode] + (frames - self.starts[episode]) * self.stride
        )

    def clip(self, camera: Camera, episode: int) -> tuple[Path, float] | None:
        """The original's video, if it has exactly these frames."""
        original = self._original(camera)
        return self.original.clip(original, episode) if original is not None and self.stride == 1 else None

    def video_path(self, camera: Camera, episode: int) -> Path:
        """The original's video file."""
        original = self._original(camera)
        assert original is not None
        return self.original.video_path(original, episode)

    def rows(self, episode: int) -> pa.Table:
        """State, action and counters; other columns may not be valid after mapping."""
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

    def _original(self, camera: Camera) -> Camera | None:
        """The original's camera behind a camera; None for black."""
        key = _wanted(self.original, self.mapping)[camera.key]
        return None if black(key) else _find(self.original, key)


def apply(source: Source, mapping: Mapping | None, embodiment: Embodiment | None) -> Source:
    """Apply a mapping to a dataset. An embodiment names the dimensions and says what kinds they are."""
    source = _name_state(source, embodiment)
    if mapping is None:
        return source
    names = embodiment.names if embodiment is not None and mapping.dimensions else None
    try:
        order = _order(source, mapping, names)
        cameras = _cameras(source, mapping)
        stride = _stride(source, mapping)
        if stride > 1 and embodiment is None:
            refuse_unknown_kinds(source, order)
    except HoldfastError as error:
        raise HoldfastError(f"The mapping of dataset {source.dataset} does not fit it: {error}") from None
    lengths = -(-np.array(source.lengths) // stride)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    within = np.arange(ends[-1]) - np.repeat(starts, lengths)
    first = np.repeat(source.starts, lengths) + within * stride
    action_names = names or tuple(source.action_names[i] for i in order)
    alike = source.state_names == source.action_names  # then both are reordered, else only the action
    state_names = action_names if alike else source.state_names
    kinds = [d.kind for d in embodiment.dimensions] if embodiment is not None and stride > 1 else []
    summed, averaged = (
        tuple(name for name, found in zip(action_names, kinds, strict=False) if found == kind)
        for kind in ("delta", "velocity")
    )
    fps = source.fps / stride
    return Mapped(
        dataset=source.dataset,
        root=source.root,
        fps=int(fps) if fps == int(fps) else fps,
        state_names=state_names,
        action_names=action_names,
        state_places=_places(source, order, alike),
        cameras=cameras,
        state=source.state[first][:, order] if alike else source.state[first],
        action=_actions(source, first, stride, order, kinds),
        timestamps=(within / fps).astype(np.float32),
        starts=starts,
        ends=ends,
        info=_info(source, {STATE: state_names, ACTION: action_names}, cameras, fps),
        episodes={"episode_index": source.episodes["episode_index"], "length": lengths.tolist()},
        original=source,
        mapping=mapping,
        stride=stride,
        summed=summed,
        averaged=averaged,
    )


def _name_state(source: Source, embodiment: Embodiment | None) -> Source:
    """A state without names does not get those of actions of which none is a target: it measures something else."""
    if embodiment is None or embodiment.of_kind(*TARGETS).any() or not source.state_has_borrowed_names:
        return source
    return replace(source, state_names=made_up_states(len(source.state_names)))


def _places(source: Source, order: list[int], alike: bool) -> tuple[int, ...]:
    """The state dimension of every action dimension, after the action, or both, were reordered."""
    old = [source.state_places[d] for d in order]
    return tuple(new if alike and place >= 0 else place for new, place in enumerate(old))


def _actions(source: Source, first: np.ndarray, stride: int, order: list[int], kinds: Sequence[Kind]) -> np.ndarray:
    """The action of every shown frame: the last command before the next shown frame.

    Increments are added up to it; velocities are averaged, which leads as far.
    """
    # A command is the target for one step later, and one step now spans `stride` original steps.
    ends = source.ends[source.episode_of(first)]
    actions = source.action[np.minimum(first + stride - 1, ends - 1)][:, order]
    if "delta" in kinds or "velocity" in kinds:
        sums = np.add.reduceat(source.action, first)[:, order]
        counts = np.minimum(ends - first, stride).astype(sums.dtype)
        for place, kind in enumerate(kinds[: len(order)]):
            if kind in ("delta", "velocity"):
                actions[:, place] = sums[:, place] / (counts if kind == "velocity" else 1)
    return actions


def _order(source: Source, mapping: Mapping, names: tuple[str, ...] | None) -> list[int]:
    if not mapping.dimensions:
        return list(range(len(source.action_names)))
    if names is not None and len(mapping.dimensions) != len(names):
        raise HoldfastError(
            f"'dimensions' lists {len(mapping.dimensions)} names, the embodiment has {len(names)}: {', '.join(names)}."
        )
    for name in mapping.dimensions:
        if name not in source.action_names:
            raise unknown("dimension", name, source.action_names)
    return [source.action_names.index(name) for name in mapping.dimensions]


def _cameras(source: Source, mapping: Mapping) -> tuple[Camera, ...]:
    shown: list[Camera] = []
    used: set[str] = set()
    for name, key in _wanted(source, mapping).items():
        size = black(key)
        if size:
            check_picture(*size, f"camera {name!r}")
        camera = Camera("", *size, "black") if size else _find(source, key)
        if not size and camera.key in used:
            raise HoldfastError(f"it uses camera {camera_name(camera.key)!r} of the dataset twice.")
        used.add(camera.key)
        shown.append(replace(camera, key=name))
    return tuple(shown)


def _wanted(source: Source, mapping: Mapping) -> dict[str, str]:
    """Every mapped camera by its full key, with the dataset's camera behind it."""
    for name in mapping.cameras:
        check_key(name, "[task.cameras]")
    named = {name if is_image(name) else IMAGES + name: key for name, key in mapping.cameras.items()}
    return named or {camera.key: camera.key for camera in source.cameras}


def _find(source: Source, key: str) -> Camera:
    for camera in source.cameras:
        if key in (camera.key, camera_name(camera.key)):
            return camera
    known = [camera_name(camera.key) for camera in source.cameras]
    raise HoldfastError(f'{unknown("camera", key, known)} For a camera that is not there, write "black 480x640".')


def _stride(source: Source, mapping: Mapping) -> int:
    stride = source.fps / (mapping.fps or source.fps)
    if stride != int(stride):
        raise HoldfastError(
            f"{source.fps:g} frames per second cannot become {mapping.fps:g}: only every 2nd, 3rd, ... frame can be "
            "taken; frames are never interpolated. Record at the run's rate, or at a whole multiple of it."
        )
    return int(stride)


def _info(source: Source, names: dict[str, tuple[str, ...]], cameras: tuple[Camera, ...], fps: float) -> dict[str, Any]:
    """The header of the mapped dataset."""
    old = source.info["features"]
    features: dict[str, Any] = {
        key: {"dtype": "float32", "shape": [len(some)], "names": list(some)} for key, some in names.items()
    }
    for camera in cameras:
        pixels = {"shape": [camera.height, camera.width, 3], "names": ["height", "width", "channels"]}
        features[camera.key] = {"dtype": "video", **pixels, "info": {"video.fps": fps}}
    features.update({key: old[key] for key in COUNTERS})
    return {**source.info, "fps": int(fps) if fps == int(fps) else fps, "features": features}

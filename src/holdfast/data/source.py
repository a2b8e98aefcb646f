"""The only door to a dataset: opens LeRobot v3 folders (or hub ids), checks them, and logs that they were opened.

Numbers are read with PyArrow straight from the documented layout, because importing LeRobot costs a quarter of a
minute; its decoder is loaded when the first image is asked for.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.data.access import AccessLog
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import torch

STATE, ACTION, IMAGES = "observation.state", "action", "observation.images."


@dataclass(frozen=True)
class Camera:
    """One camera of a dataset; `kind` is how LeRobot stores it: video files, or PNG bytes in the tables."""

    key: str
    height: int
    width: int
    kind: str


@dataclass(frozen=True)
class Source:
    """One dataset, opened. Frames are numbered through all its episodes; episode e is starts[e]..ends[e]-1."""

    dataset: str
    root: Path
    fps: float
    names: tuple[str, ...]
    cameras: tuple[Camera, ...]
    state: np.ndarray  # (frames, dimensions) float32
    action: np.ndarray
    timestamps: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    info: dict[str, Any]
    episodes: dict[str, list[Any]]

    @property
    def lengths(self) -> list[int]:
        """Frames of every episode."""
        return [int(n) for n in self.ends - self.starts]

    def frames_of(self, episodes: list[int] | tuple[int, ...]) -> np.ndarray:
        """Numbers of all frames of the given episodes."""
        return np.concatenate([np.arange(self.starts[e], self.ends[e]) for e in episodes])

    def episode_of(self, frames: np.ndarray) -> np.ndarray:
        """Episode of each frame."""
        return np.searchsorted(self.ends, frames, side="right")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the tables' bytes and the videos' names and sizes."""
        digest = hashlib.sha256()
        for path in sorted(
            p for p in self.root.rglob("*") if p.is_file() and p.suffix in (".json", ".parquet", ".mp4")
        ):
            digest.update(f"{path.relative_to(self.root)}:{path.stat().st_size}\n".encode())
            if path.suffix == ".parquet":
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def images(self, camera: Camera, frames: np.ndarray) -> torch.Tensor:
        """Decode frames of one camera into uint8 (n, 3, height, width). All frames must be of one episode."""
        import torch

        episode = int(self.episode_of(frames[:1])[0])
        if camera.kind == "video":
            from lerobot.datasets.video_utils import decode_video_frames

            start = self.episodes[f"videos/{camera.key}/from_timestamp"][episode]
            offsets = (frames - self.starts[episode]) / self.fps
            path = self.video_path(camera, episode)
            try:
                decoded = decode_video_frames(path, [start + t for t in offsets], 0.5 / self.fps, return_uint8=True)
            except Exception as error:  # the decoders raise whatever they like
                raise HoldfastError(
                    f"{path} cannot be decoded ({error}). Run `holdfast doctor {self.dataset}`."
                ) from None
            return cast(torch.Tensor, decoded)
        return torch.stack([_decode_png(data) for data in self._png(camera, frames)])

    def video_path(self, camera: Camera, episode: int) -> Path:
        """The video file that holds an episode."""
        return self.root / self.info["video_path"].format(
            video_key=camera.key,
            chunk_index=self.episodes[f"videos/{camera.key}/chunk_index"][episode],
            file_index=self.episodes[f"videos/{camera.key}/file_index"][episode],
        )

    def _png(self, camera: Camera, frames: np.ndarray) -> list[bytes]:
        column = self._png_columns.setdefault(camera.key, _read_tables(self.root, [camera.key])[camera.key])
        return [column[int(i)].as_py()["bytes"] for i in frames]

    @cached_property
    def _png_columns(self) -> dict[str, pa.ChunkedArray]:
        return {}

    def metadata(self) -> Any:
        """LeRobot's own metadata object, which its policy factory asks for."""
        from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata

        return LeRobotDatasetMetadata(self.dataset, root=self.root)


def open_source(dataset: str, log: AccessLog | None = None) -> Source:
    """Open a dataset from a folder or the hub and check that it can be trained on at all."""
    root = _resolve(dataset)
    if log is not None:
        log.opened(dataset, root)
    info = _read_info(root)
    cameras = _cameras(root, info)
    names = _names(root, info)
    episodes = _read_episodes(root)
    table = _read_tables(root, [STATE, ACTION, "timestamp", "episode_index"])
    state, action = (_matrix(root, table, key) for key in (STATE, ACTION))
    starts = np.asarray(episodes["dataset_from_index"], dtype=np.int64)
    ends = np.asarray(episodes["dataset_to_index"], dtype=np.int64)
    if not len(ends) or ends[-1] != len(action) or (starts >= ends).any():
        counted = int(ends[-1]) if len(ends) else 0
        raise HoldfastError(
            f"Dataset {root} is inconsistent: its episodes end at frame {counted}, its tables hold {len(action)} frames. "
            "Was recording interrupted before finalize()? Record it again or delete the broken episode."
        )
    timestamps = table["timestamp"].to_numpy()
    source = Source(dataset, root, info["fps"], names, cameras, state, action, timestamps, starts, ends, info, episodes)
    _check_videos(source)
    return source


def _resolve(dataset: str) -> Path:
    root = Path(dataset)
    if root.is_dir():
        return root
    looks_like_hub = dataset.count("/") == 1 and not dataset.startswith((".", "/", "~"))
    if not looks_like_hub:
        raise HoldfastError(
            f"Dataset folder {dataset} does not exist. Give a LeRobot v3 folder or a hub id `user/name`."
        )
    try:
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        return Path(LeRobotDataset(dataset).root)
    except Exception as error:
        raise HoldfastError(
            f"Dataset {dataset} is not a folder here and could not be fetched from the hub ({type(error).__name__}). "
            "Check the name, your network, and `hf auth login` for private ones."
        ) from None


def _read_info(root: Path) -> dict[str, Any]:
    path = root / "meta" / "info.json"
    try:
        info = json.loads(path.read_text())
    except FileNotFoundError:
        raise HoldfastError(f"{root} is not a LeRobot dataset: {path} is missing.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{path} is not readable JSON ({error}).") from None
    version = str(info.get("codebase_version", "none"))
    if not version.startswith("v3"):
        raise HoldfastError(
            f"{root} has dataset version {version}; v3.0 is needed. Convert it once with "
            f"`python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=local/{root.name} --root={root}`."
        )
    if not info.get("total_episodes"):
        raise HoldfastError(f"Dataset {root} is empty: it has no episode. Record at least one demonstration.")
    for key in (STATE, ACTION):
        if key not in info.get("features", {}):
            raise HoldfastError(f"Dataset {root} has no feature {key!r}; it has {sorted(info.get('features', {}))}.")
    if not info.get("fps") or info["fps"] <= 0:
        raise HoldfastError(f"Dataset {root} states {info.get('fps')!r} frames per second.")
    return cast(dict[str, Any], info)


def _cameras(root: Path, info: dict[str, Any]) -> tuple[Camera, ...]:
    cameras = []
    for key, feature in info["features"].items():
        if feature["dtype"] in ("video", "image") and not (feature.get("info") or {}).get("video.is_depth_map"):
            names = list(feature.get("names") or ("height", "width", "channels"))
            shape = dict(zip(names, feature["shape"], strict=True))
            cameras.append(Camera(key, shape["height"], shape["width"], feature["dtype"]))
    if not cameras:
        raise HoldfastError(f"Dataset {root} has no camera; a policy that sees needs at least one.")
    return tuple(cameras)


def _names(root: Path, info: dict[str, Any]) -> tuple[str, ...]:
    feature = info["features"][ACTION]
    names = feature.get("names")
    if isinstance(names, dict):  # older recorders nest them: {"motors": [...]}
        names = [name for group in names.values() for name in group]
    if not names:
        names = [f"dimension_{i}" for i in range(feature["shape"][0])]
    if len(names) != feature["shape"][0]:
        raise HoldfastError(f"Dataset {root} names {len(names)} action dimensions but declares {feature['shape'][0]}.")
    return tuple(names)


def _read_episodes(root: Path) -> dict[str, list[Any]]:
    table = _concat(root, "meta/episodes", None)
    wanted = [c for c in table.column_names if not c.startswith("stats/")]
    table = table.select(wanted)
    return {name: table[name].to_pylist() for name in table.sort_by("episode_index").column_names}


def _read_tables(root: Path, columns: list[str]) -> pa.Table:
    return _concat(root, "data", columns)


def _concat(root: Path, folder: str, columns: list[str] | None) -> pa.Table:
    paths = sorted((root / folder).rglob("*.parquet"))
    if not paths:
        raise HoldfastError(f"Dataset {root} has no table under {folder}/. Was it finalized after recording?")
    tables = []
    for path in paths:
        try:
            tables.append(pq.read_table(path, columns=columns))
        except (pa.ArrowException, OSError) as error:
            reason = str(error).split("\n")[0]
            raise HoldfastError(f"{path} is truncated or damaged ({reason}). Restore it or record again.") from None
    return pa.concat_tables(tables)


def _matrix(root: Path, table: pa.Table, key: str) -> np.ndarray:
    column = table[key].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    # A feature of one number is stored as plain floats, not as lists of one.
    flat = column.flatten() if pa.types.is_nested(column.type) else column
    values = flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(column), -1)
    if not np.isfinite(values).all():
        row, dimension = np.argwhere(~np.isfinite(values))[0]
        raise HoldfastError(
            f"Dataset {root} holds NaN or infinite values in {key} (first at frame {row}, dimension {dimension}). "
            f"Run `holdfast doctor {root}` for the list of episodes, and delete them with lerobot-edit-dataset."
        )
    return values


def _check_videos(source: Source) -> None:
    for camera in source.cameras:
        if camera.kind != "video":
            continue
        if f"videos/{camera.key}/from_timestamp" not in source.episodes:
            raise HoldfastError(f"Dataset {source.root} lists camera {camera.key} but no video of it.")
        for episode in range(len(source.lengths)):
            path = source.video_path(camera, episode)
            if not path.is_file() or not path.stat().st_size:
                raise HoldfastError(f"Camera {camera.key} of dataset {source.root} is missing: {path} is not there.")

"""Opens and checks LeRobot v3 datasets, from folders or hub ids; the only place that does.

Tables and videos are read directly from the documented layout, because importing LeRobot takes a quarter of a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from holdfast.core.errors import HoldfastError
from holdfast.core.hub import check_on_hub, looks_like_hub_id
from holdfast.core.names import near_path
from holdfast.data.lerobot import tables
from holdfast.data.lerobot.fingerprint import FileHash, fingerprint, hash_files, partial_fingerprint
from holdfast.data.lerobot.folder import (
    ACTION,
    IMAGES,
    STATE,
    Camera,
    camera_name,
    is_image,
    matrix,
    read_cameras,
    read_episodes,
    read_info,
    read_names,
    read_tables,
    read_timestamps,
)

if TYPE_CHECKING:
    import torch

_TABLES = (".json", ".parquet")

type Opened = Callable[[str, Path], None]  # called with a dataset's name and folder

__all__ = ["ACTION", "IMAGES", "STATE", "Camera", "Source", "camera_name", "is_image", "open_source"]


@dataclass(frozen=True)
class Source:
    """One opened dataset. Frames are numbered across all episodes; episode e is starts[e]..ends[e]-1.

    `state_places` has, for every action dimension, the state dimension of the same name, or -1.
    """

    dataset: str
    root: Path
    fps: float
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    state_places: tuple[int, ...]
    cameras: tuple[Camera, ...]
    state: np.ndarray  # (frames, dimensions) float32
    action: np.ndarray
    timestamps: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    info: dict[str, Any]
    episodes: dict[str, list[Any]]

    @property
    def state_has_borrowed_names(self) -> bool:
        """Whether the state was recorded without names, and has the action's because it is of its size."""
        return self.state_names == self.action_names and max(self.state_places) < 0

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
        """The identity of the data as it is shown: of its files and, if there is one, of its mapping."""
        return self._identity(fingerprint(self.hashes))

    @cached_property
    def hashes(self) -> dict[str, FileHash]:
        """A hash of every file on disk that decides a frame or a value, by the file's path in the dataset."""
        return hash_files(self.root, self.raw.files)

    def matches(self, recorded: str) -> bool:
        """Whether this is the data whose fingerprint was recorded, be it by an older version."""
        return recorded == self.fingerprint or recorded == self._identity(partial_fingerprint(self.root))

    def _identity(self, files: str) -> str:
        return files

    def with_numbers(self, state: np.ndarray, action: np.ndarray) -> Self:
        """The same dataset with state and action from elsewhere. Its files are not hashed again."""
        other = replace(self, state=state, action=action)
        other.__dict__["hashes"] = self.hashes
        return other

    @property
    def raw(self) -> Source:
        """The dataset as it is on disk; sources of `data/mapping.py` are views of it."""
        return self

    def images(self, camera: Camera, frames: np.ndarray) -> torch.Tensor:
        """Decode frames of one camera into uint8 (n, 3, height, width). All frames must be of one episode."""
        import torch

        from holdfast.data.lerobot.video import decode

        episode = int(self.episode_of(frames[:1])[0])
        clip = self.clip(camera, episode)
        if clip is not None:
            path, start = clip
            first = round(start * self.fps) - int(self.starts[episode])
            try:
                return decode(path, [first + int(frame) for frame in frames], self.fps)
            except HoldfastError:
                raise
            except Exception as error:  # the decoders can raise anything
                raise HoldfastError(
                    f"{path} cannot be decoded ({error}). Run `holdfast doctor {self.dataset}`."
                ) from None
        return torch.stack([self._image(camera, int(frame)) for frame in frames])

    def clip(self, camera: Camera, episode: int) -> tuple[Path, float] | None:
        """The video file of an episode and the second at which it begins; None if images are stored.

        The camera may come from another source with the same key, which may store its images differently.
        """
        if self.info["features"][camera.key]["dtype"] != "video":
            return None
        return self.video_path(camera, episode), self.episodes[f"videos/{camera.key}/from_timestamp"][episode]

    def rows(self, episode: int) -> pa.Table:
        """The table of an episode's frames with every column the dataset stores."""
        place = {f"{p}_index": self.episodes[f"data/{p}_index"][episode] for p in ("chunk", "file")}
        path = self.root / self.info["data_path"].format(**place)
        number = self.episodes["episode_index"][episode]
        return tables.read([path], filters=[("episode_index", "==", number)])

    def video_path(self, camera: Camera, episode: int) -> Path:
        """The video file that holds an episode."""
        return self.root / self.info["video_path"].format(
            video_key=camera.key,
            chunk_index=self.episodes[f"videos/{camera.key}/chunk_index"][episode],
            file_index=self.episodes[f"videos/{camera.key}/file_index"][episode],
        )

    def videos(self, camera: Camera) -> dict[Path, list[int]]:
        """Every video file of a camera with the episodes it holds."""
        found: dict[Path, list[int]] = {}
        for episode in range(len(self.starts)):
            found.setdefault(self.video_path(camera, episode), []).append(episode)
        return found

    @property
    def files(self) -> list[Path]:
        """Every file that decides a frame or a value."""
        tables = [p for folder in ("meta", "data") for p in (self.root / folder).rglob("*") if p.suffix in _TABLES]
        videos = [path for camera in self.cameras if camera.kind == "video" for path in self.videos(camera)]
        return sorted(path for path in {*tables, *videos} if path.is_file())

    def _image(self, camera: Camera, frame: int) -> torch.Tensor:
        """Decode an image that is stored in the tables."""
        from holdfast.data.lerobot.video import decode_image

        if camera.key not in self._image_columns:
            self._image_columns[camera.key] = read_tables(self.root, [camera.key])[camera.key]
        what = f"The image of {camera.key} in frame {frame} of dataset {self.root}"
        try:
            return decode_image(self._image_columns[camera.key][frame].as_py()["bytes"], what)
        except HoldfastError:
            raise
        except Exception as error:  # the decoders can raise anything
            raise HoldfastError(f"{what} cannot be decoded ({error}). Run `holdfast doctor {self.dataset}`.") from None

    @cached_property
    def _image_columns(self) -> dict[str, pa.ChunkedArray]:
        return {}

    def metadata(self) -> Any:
        """LeRobot's own metadata object, which its policy factory needs."""
        from lerobot.datasets import dataset_metadata

        # The table of episodes takes longer than all else, and no policy looks at it: LeRobot reads it when asked to.
        load, dataset_metadata.load_episodes = dataset_metadata.load_episodes, lambda root: None
        try:
            metadata = dataset_metadata.LeRobotDatasetMetadata(self.dataset, root=self.root)
        except Exception as error:  # of damaged files, whatever they lead to
            reason = " ".join(str(error).split()) or type(error).__name__
            raise HoldfastError(f"LeRobot cannot read {self.root / 'meta'}: {reason}. Restore it.") from None
        finally:
            dataset_metadata.load_episodes = load
        metadata.features[ACTION]["names"] = list(self.action_names)  # flat, even if recorded nested
        return metadata


def open_source(dataset: str, opened: Opened | None = None, *, check_values: bool = True) -> Source:
    """Open a dataset from a folder or the hub and check that it can be trained on.

    `opened` is called before any file is read. Without `check_values`, NaN and infinite values are allowed, for the
    doctor.
    """
    root = _resolve(dataset)
    if opened is not None:
        opened(dataset, root)
    info = read_info(root)
    cameras = read_cameras(root, info)
    episodes = read_episodes(root, cameras)
    table = read_tables(root, [STATE, ACTION, "timestamp", "episode_index"])
    state, action = (matrix(root, info, table, key, check_values) for key in (STATE, ACTION))
    starts = np.asarray(episodes["dataset_from_index"], dtype=np.int64)
    ends = np.asarray(episodes["dataset_to_index"], dtype=np.int64)
    whole = len(ends) and starts[0] == 0 and ends[-1] == len(action) and (starts[1:] == ends[:-1]).all()
    if not whole or (starts >= ends).any():
        counted = int(ends[-1]) if len(ends) else 0
        raise HoldfastError(
            f"Dataset {root} is inconsistent: its episodes end at frame {counted}, its tables at {len(action)}. "
            "Was recording interrupted before finalize()? Record it again or delete the broken episode."
        )
    timestamps = read_timestamps(root, table)
    names = _names(root, info)
    source = Source(
        dataset, root, info["fps"], *names, cameras, state, action, timestamps, starts, ends, info, episodes
    )
    _check_videos(source)
    return source


def _names(root: Path, info: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """Names of state and action, and for every action dimension the state dimension of the same name, or -1.

    Missing names are made up, and then no dimensions are paired. A state gets the action's only if it is of its size.
    """
    state, action = (read_names(root, info, key) for key in (STATE, ACTION))
    sizes = {key: info["features"][key]["shape"][0] for key in (STATE, ACTION)}
    action_names = action or tuple(f"dimension_{i}" for i in range(sizes[ACTION]))
    invented = action_names if sizes[STATE] == sizes[ACTION] else made_up_states(sizes[STATE])
    places = [state.index(name) if state and action and name in state else -1 for name in action_names]
    return state or invented, action_names, tuple(places)


def made_up_states(size: int) -> tuple[str, ...]:
    """Names for a state that has none, nor those of the action."""
    return tuple(f"state_{i}" for i in range(size))


def _resolve(dataset: str) -> Path:
    root = Path(dataset)
    if root.is_dir():
        return root
    if not looks_like_hub_id(dataset):
        raise HoldfastError(
            f"Dataset folder {dataset} does not exist.{near_path(root)} Give a LeRobot v3 folder or a hub id like "
            "user/name."
        )
    check_on_hub(dataset, "dataset", near_path(root))
    try:
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        return Path(LeRobotDataset(dataset).root)
    except Exception as error:
        raise HoldfastError(
            f"Dataset {dataset} is not a folder here and could not be fetched from the hub ({type(error).__name__}). "
            "Check the name, your network, and `hf auth login` for private ones."
        ) from None


def _check_videos(source: Source) -> None:
    for camera in source.cameras:
        if camera.kind != "video":
            continue
        for path in source.videos(camera):
            if not path.is_file() or not path.stat().st_size:
                raise HoldfastError(f"Camera {camera.key} of dataset {source.root} is missing: {path} is not there.")
            with path.open("rb") as file:
                start = file.read(8)
            # FFmpeg looks at the content, not the name, and a playlist would make it read other files.
            if start[4:] != b"ftyp":
                raise HoldfastError(f"{path} is not an MP4 file. Restore it from a backup, or record again.")

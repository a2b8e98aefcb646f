"""The files of a LeRobot v3 folder: reads and checks the header, the table of episodes and the tables of frames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot import tables
from holdfast.data.lerobot.header import PLACES, check_header, check_picture, read_header

_LONGEST = 1e9  # seconds of a video
STATE, ACTION, IMAGES = "observation.state", "action", "observation.images."


def is_image(key: str) -> bool:
    """Whether a feature is a camera's: observation.images.NAME, or observation.image where there is one camera."""
    return key.startswith("observation.image")


def camera_name(key: str) -> str:
    """A camera's name without its prefix: `top` for observation.images.top, `image` for observation.image."""
    return key.removeprefix(IMAGES).removeprefix("observation.")


@dataclass(frozen=True)
class Camera:
    """One camera of a dataset; `kind` is how LeRobot stores it: video files, or PNG bytes in the tables."""

    key: str
    height: int
    width: int
    kind: str


def read_info(root: Path) -> dict[str, Any]:
    """The header, checked for what training requires."""
    path = root / "meta" / "info.json"
    info = read_header(path)
    version = str(info.get("codebase_version", "none"))
    if not version.startswith("v3"):
        raise HoldfastError(
            f"{root} has dataset version {version}; v3.0 is needed. Convert it once with "
            f"`holdfast import dataset {root} --output={root}_v30`, which leaves it as it is."
        )
    check_header(info, path)
    if not info["total_episodes"]:
        raise HoldfastError(f"Dataset {root} is empty: it has no episode. Record at least one demonstration.")
    for key in (STATE, ACTION):
        if key not in info["features"]:
            raise HoldfastError(f"Dataset {root} has no feature {key!r}; it has {sorted(info['features'])}.")
        if not info["features"][key]["shape"]:
            raise HoldfastError(f"Dataset {root} has feature {key!r} with an empty shape.")
    return info


def read_cameras(root: Path, info: dict[str, Any]) -> tuple[Camera, ...]:
    """The colour cameras a header declares."""
    cameras = []
    for key, feature in info["features"].items():
        if feature["dtype"] in ("video", "image") and not _is_depth(feature):
            names = feature.get("names") or ("height", "width", "channels")
            shape = dict(zip(names, feature["shape"], strict=False))
            if not {"height", "width"} <= set(shape):
                raise HoldfastError(f"Camera {key} of dataset {root} has shape {feature['shape']} named {list(names)}.")
            check_picture(shape["height"], shape["width"], f"Camera {key} of dataset {root}")
            cameras.append(Camera(key, shape["height"], shape["width"], feature["dtype"]))
    if not cameras:
        raise HoldfastError(f"Dataset {root} has no camera; a policy needs at least one.")
    return tuple(cameras)


def _is_depth(feature: dict[str, Any]) -> bool:
    """Whether a camera measures depth; older recorders stored this elsewhere."""
    info, older = feature.get("info") or {}, feature.get("video_info") or {}
    return bool(info.get("is_depth_map") or info.get("video.is_depth_map") or older.get("video.is_depth_map"))


def read_names(root: Path, info: dict[str, Any], key: str) -> tuple[str, ...] | None:
    """Names of a feature's dimensions, or None if it was recorded without names."""
    feature = info["features"][key]
    names, size = tuple(_flat(feature.get("names"))), feature["shape"][0]
    if not names or (len(names) == 1 and size > 1):  # openpi's converters name the feature instead: ["actions"]
        return None
    if unprintable := [name for name in names if not name.isprintable()]:
        raise HoldfastError(
            f"Dataset {root} names a dimension of {key} {unprintable[0][:80]!r}, which is no plain text."
        )
    if len(names) != size:
        what = "action" if key == ACTION else "state"
        raise HoldfastError(f"Dataset {root} names {len(names)} {what} dimensions but declares {size}.")
    return names


def _flat(names: Any) -> Iterator[str]:
    """Names in order, however a recorder nested them: [...], [[...]], {"motors": [...]}, {"delta_x": 0, ...}."""
    if isinstance(names, dict):
        nested = any(isinstance(value, list | dict) for value in names.values())
        yield from _flat(list(names.values() if nested else names))
    elif isinstance(names, list):
        for name in names:
            yield from _flat(name)
    elif names is not None:
        yield str(names)


def read_episodes(root: Path, cameras: tuple[Camera, ...]) -> dict[str, list[Any]]:
    """The columns of the table of episodes that are used, in the episodes' order. They hold numbers, of every episode.

    Statistics take up most of the table, and LeRobot's quantiles are not those of the dataset.
    """
    videos = [f"videos/{camera.key}" for camera in cameras if camera.kind == "video"]
    counts = ["episode_index", "dataset_from_index", "dataset_to_index"]
    counts += [f"{files}/{place}" for files in ("data", *videos) for place in PLACES["v3"]]
    times = [f"{video}/{edge}_timestamp" for video in videos for edge in ("from", "to")]
    table = _concat(root, "meta/episodes", [*counts, *times])
    for name in counts:
        _check_column(root, table, name, pa.types.is_integer, "whole numbers, none below 0")
    for name in times:
        _check_column(root, table, name, _is_number, f"seconds from 0 to {_LONGEST:g}", _LONGEST)
    table = table.sort_by("episode_index")
    return {name: table[name].to_pylist() for name in table.column_names}


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _check_column(
    root: Path, table: pa.Table, name: str, fits: Callable[[pa.DataType], bool], what: str, most: float = np.inf
) -> None:
    """Refuse a column that has a gap, or holds something other than `what`, from 0 to `most`."""
    found = fits(table[name].type) and not table[name].null_count
    if not found or not all(0 <= value < most for value in table[name].to_pylist()):
        raise HoldfastError(f"The episodes of dataset {root} need the column {name!r} with {what}.")


def read_tables(root: Path, columns: list[str]) -> pa.Table:
    """Columns of the frames' tables, all files in order."""
    return _concat(root, "data", columns)


def _concat(root: Path, folder: str, columns: Collection[str]) -> pa.Table:
    paths = sorted((root / folder).rglob("*.parquet"))
    if not paths:
        raise HoldfastError(f"Dataset {root} has no table under {folder}/. Was it finalized after recording?")
    return tables.read(paths, columns)


def read_words(root: Path) -> list[str]:
    """The instructions of a dataset by their index."""
    file = root / "meta" / "tasks.parquet"
    table = tables.read([file])
    # The instruction is the index of the data frame LeRobot writes, so its column can have several names.
    names = [name for name in table.column_names if name != "task_index"]
    if not names or len(names) == len(table.column_names) or not pa.types.is_integer(table["task_index"].type):
        raise HoldfastError(f"{file} must have a column 'task_index' and one with the instructions.")
    column = table.sort_by("task_index")[names[0]].combine_chunks()
    if not pa.types.is_dictionary(column.type) or column.null_count:
        raise HoldfastError(f"{file} holds {column.type} as instructions; every task needs a text.")
    words = [str(word) for word in column.dictionary.to_pylist()]
    return [words[place] for place in column.indices.to_pylist()]


def matrix(root: Path, info: dict[str, Any], table: pa.Table, key: str, check_values: bool) -> np.ndarray:
    """A feature as (frames, dimensions) float32, checked against the header."""
    column = table[key].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    # A feature of one number is stored as plain floats, not as lists of one.
    kind = column.type
    listed = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind)
    flat = column.flatten() if listed else column
    if not _is_number(flat.type):
        raise HoldfastError(f"The tables of dataset {root} hold {kind} as {key}; it must be numbers or lists of them.")
    sizes = set(pc.list_value_length(column).unique().to_pylist()) if listed else set()
    if len(sizes) > 1 or None in sizes:
        raise HoldfastError(f"The frames of dataset {root} differ in their number of dimensions of {key}.")
    values = flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(column), -1)
    declared = info["features"][key]["shape"][0]
    if values.shape[1] != declared:
        raise HoldfastError(
            f"Dataset {root} declares {declared} dimensions of {key}, its tables hold {values.shape[1]}."
        )
    if check_values and not np.isfinite(values).all():
        row, dimension = np.argwhere(~np.isfinite(values))[0]
        raise HoldfastError(
            f"Dataset {root} holds NaN or infinite values in {key} (first at frame {row}, dimension {dimension}). "
            f"Run `holdfast doctor {root}` for the list of episodes and how to delete them."
        )
    return values


def read_timestamps(root: Path, table: pa.Table) -> np.ndarray:
    """The second of every frame in its episode."""
    column = table["timestamp"]
    if not _is_number(column.type) or column.null_count:
        raise HoldfastError(
            f"The tables of dataset {root} hold {column.type} as timestamp; every frame needs a number."
        )
    return column.to_numpy()

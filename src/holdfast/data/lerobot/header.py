"""The header of a LeRobot dataset, meta/info.json, of v3 and of v2.1: what is used of it is checked here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.names import check_length, check_path

# The numbers that name a dataset's files.
PLACES = {"v3": ("chunk_index", "file_index"), "v2": ("episode_chunk", "episode_index")}
FASTEST = 1000  # frames per second
MOST_FRAMES = 10**10  # ten years at 30 per second
LONGEST = 100_000  # numbers along one side of a feature
LARGEST_PICTURE = 2**24  # pixels: 4096 x 4096, twice those of a 4K camera; 48 MiB in memory
MOST_CAMERAS = 64
_LARGEST = 2**63 - 1  # of these numbers


def check_key(key: str, where: object) -> None:
    """Refuse a feature's key that cannot name the folder of its videos; `where` is what it was read from."""
    if not key.isprintable() or "/" in key or "\\" in key or ".." in key or key.startswith(".") or not key:
        raise HoldfastError(
            f"{where} has the feature {key[:100]!r}. A folder is named after it: it may have no slash, no `..`, no dot "
            "at its start and no control character. An example is 'observation.images.head'."
        )
    check_length(key, f"A feature of {where}")


def check_picture(height: int, width: int, what: object) -> None:
    """Refuse the size of a picture that has no pixels or would fill the memory; `what` says whose it is."""
    if min(height, width) < 1 or height * width > LARGEST_PICTURE:
        raise HoldfastError(
            f"{what} is {width} x {height} pixels; a picture may have 1 to {LARGEST_PICTURE}, as 4096 x 4096 has."
        )


def check_pictures(sizes: Mapping[str, tuple[int, int]], where: object) -> None:
    """Refuse cameras, by name with height and width, whose pictures of one moment would fill the memory."""
    for name, (height, width) in sizes.items():
        check_picture(height, width, f"{where}: camera {name!r}")
    pixels = sum(height * width for height, width in sizes.values())
    if len(sizes) > MOST_CAMERAS or pixels > 2 * LARGEST_PICTURE:
        raise HoldfastError(
            f"{where} has {len(sizes)} cameras with {pixels} pixels together; there may be {MOST_CAMERAS} with "
            f"{2 * LARGEST_PICTURE}."
        )


def read_header(path: Path) -> dict[str, Any]:
    """The header's content, of any version and not checked yet."""
    if not path.is_file():
        raise HoldfastError(f"{path.parents[1]} is not a LeRobot dataset: {path} is missing.")
    info = outside.read_json(path)
    if not isinstance(info, dict):
        raise HoldfastError(f"{path} is not a JSON object, so it is not the header of a LeRobot dataset.")
    return info


def check_header(info: dict[str, Any], path: Path) -> None:
    """Refuse a header that does not describe its features and files as LeRobot does."""
    if not isinstance(info.get("features"), dict):
        raise HoldfastError(f"{path} describes no features; it is not the header of a LeRobot dataset.")
    for key, feature in info["features"].items():
        check_key(key, path)
        _check_feature(key, feature, path)
    for what in ("total_episodes", "total_frames"):
        if type(info.get(what)) is not int or not 0 <= info[what] <= MOST_FRAMES:
            raise HoldfastError(
                f"{path} has {what} {info.get(what)!r:.80}; it must be a whole number from 0 to {MOST_FRAMES:,}."
            )
    if type(info.get("fps")) not in (int, float) or not 0 < info["fps"] <= FASTEST:
        raise HoldfastError(
            f"{path} states {info.get('fps')!r} frames per second; fps must be a number above 0, at most {FASTEST}."
        )
    _check_templates(info, path)


def _check_feature(key: str, feature: Any, path: Path) -> None:
    """Check a feature's dtype, shape and, of a camera, the names of its sides and its properties."""
    if not isinstance(feature, dict) or not isinstance(feature.get("dtype"), str):
        raise HoldfastError(f"{path} has the feature {key} without a dtype, such as 'float32' or 'video'.")
    shape = feature.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and 1 <= size <= LONGEST for size in shape):
        raise HoldfastError(
            f"{path} has the feature {key} with shape {str(shape)[:100]}; it must be a list of whole numbers from 1 to "
            f"{LONGEST}."
        )
    if feature["dtype"] not in ("video", "image"):
        return
    names = feature.get("names")
    if names is not None and not (isinstance(names, list | dict) and all(isinstance(name, str) for name in names)):
        raise HoldfastError(
            f"{path} has the camera {key} with names {str(names)[:100]}, not ['height', 'width', 'channels']."
        )
    for what in ("info", "video_info"):
        if not isinstance(feature.get(what) or {}, dict):
            raise HoldfastError(f"{path} has the camera {key} with {what} {str(feature[what])[:100]!r}, not an object.")


def _check_templates(info: dict[str, Any], path: Path) -> None:
    """Check how the files' names are made: from known numbers, and inside the dataset's folder."""
    places = PLACES[str(info["codebase_version"])[:2]]
    _check_template("data_path", info.get("data_path"), places, None, path)
    for key, feature in info["features"].items():
        if feature["dtype"] == "video":
            _check_template("video_path", info.get("video_path"), places, key, path)


def _check_template(what: str, template: Any, places: tuple[str, ...], key: str | None, path: Path) -> None:
    fields = rf"\{{({'|'.join(places)})(:0[1-9]d)?\}}" + (r"|\{video_key\}" if key else "")
    rest = re.sub(fields, "", template) if isinstance(template, str) else "{"
    if any(mark in rest for mark in "{}\\") or not rest.isprintable():
        known = [f"{{{place}:03d}}" for place in places] + (["{video_key}"] if key else [])
        raise HoldfastError(
            f"{path} has {what} {str(template)[:100]!r}. It must be a path with {', '.join(known)} as its only fields."
        )
    example = PurePosixPath(template.format(video_key=key, **dict.fromkeys(places, _LARGEST)))
    if example.is_absolute() or ".." in example.parts:
        raise HoldfastError(f"{path} has {what} {template[:100]!r}, which leads out of the dataset's folder.")
    check_path(path.parents[1] / example, f"{what} of {path}")

"""Writes whole episodes of one or several datasets as a new LeRobot v3 dataset, without loss.

Video packets are copied unchanged (LeRobot's own split and delete tools re-encode a file when only some of its episodes
are wanted). Every episode has its own files, so that later ones can be dropped by leaving their files out.
Each written video is decoded and compared with its source, pixel by pixel; where the copy differs, or where there is no
video to copy from, it is re-encoded without loss. Depth videos are left out: no policy here reads them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot import tables
from holdfast.data.lerobot.folder import read_words
from holdfast.data.lerobot.header import read_header
from holdfast.data.lerobot.source import Camera, Source
from holdfast.data.lerobot.video_copy import copy_packets, encode_exactly

PROVENANCE = "meta/provenance.json"
CHUNK = 1000  # files in a folder
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
AT_ONCE = 64  # frames decoded together
SAMPLE = 16  # images per episode for its statistics


@dataclass(frozen=True)
class EpisodeChoice:
    """Episodes of one source, in order, and where they come from; `instruction` replaces the recorded one."""

    source: Source
    episodes: tuple[int, ...]
    origin: dict[str, Any]
    instruction: str | None = None


def write_episodes(
    root: Path, parts: Sequence[EpisodeChoice], note: dict[str, Any], stepped: Callable[[], None] = lambda: None
) -> None:
    """Write a dataset into the empty folder `root`; `note` goes into its provenance with every part's origin.

    `stepped` is called after every camera of every episode.
    """
    features = common_features(parts)
    tasks: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    frames, encoded = 0, set[str]()
    for part in parts:
        cameras = [camera for camera in part.source.cameras if camera.key in features]
        for episode in part.episodes:
            table, words = _table(part, episode, len(rows), frames, features, tasks)
            row = _row(len(rows), frames, len(table), words)
            _write(table, root / DATA.format(**_place(len(rows))))
            row.update(_number_stats(table, features))
            for camera in cameras:
                row.update(_picture_stats(part.source, camera, episode))
                if features[camera.key]["dtype"] == "video":
                    video, copied = _write_video(root, len(rows), part.source, camera, episode)
                    row.update(video)
                    encoded |= set() if copied else {camera.key}
                stepped()
            rows.append(row)
            frames += len(table)
    for key in encoded:  # some files no longer have the source's codec
        features[key]["info"].update({"video.codec": None, "video.pix_fmt": None})
    _write_meta(root, {**parts[0].source.info, "features": features}, list(tasks), rows)
    origins = [part.origin for part in parts]
    (root / PROVENANCE).write_text(json.dumps({**note, "parts": origins}, indent=1))


def keep_first(old: Path, count: int, root: Path) -> None:
    """Write the first `count` episodes of a dataset of `write_episodes` into `root`; their files are hard-linked."""
    for path in [*old.glob("data/*/*.parquet"), *old.glob("videos/*/*/*.mp4")]:
        number = int(path.parent.name.removeprefix("chunk-")) * CHUNK + int(path.stem.removeprefix("file-"))
        if number < count:
            target = root / path.relative_to(old)
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(path, target)
    tasks = read_words(old)
    _write_meta(root, read_header(old / "meta/info.json"), tasks, _rows(old)[:count])
    provenance = outside.read_json(old / PROVENANCE)
    for part in provenance["parts"]:
        part["episodes"] = part["episodes"][:count]
    (root / PROVENANCE).write_text(json.dumps(provenance, indent=1))


def common_features(parts: Sequence[EpisodeChoice]) -> dict[str, Any]:
    """Features that all sources share. Every camera must be in all of them; other features need not."""
    first, *others = parts
    for key in dict.fromkeys(camera.key for part in parts for camera in part.source.cameras):
        _check_camera(key, parts)
    features = {}
    for key, feature in first.source.info["features"].items():
        found = [feature, *(part.source.info["features"].get(key) for part in others)]
        if feature["dtype"] in ("video", "image"):
            if key not in {camera.key for camera in first.source.cameras}:
                continue
            kind = "video" if any(f["dtype"] == "video" for f in found) else "image"
            features[key] = {**feature, "dtype": kind, "info": _common_info([f.get("info") or {} for f in found])}
        elif all(f and (f["dtype"], list(f["shape"])) == (feature["dtype"], list(feature["shape"])) for f in found):
            features[key] = feature
    return features


def _check_camera(key: str, parts: Sequence[EpisodeChoice]) -> None:
    seen = {p.source.dataset: [(c.height, c.width) for c in p.source.cameras if c.key == key] for p in parts}
    if len({tuple(sizes) for sizes in seen.values()}) > 1:
        raise HoldfastError(
            f"The datasets differ in camera {key}: {seen}. Map them in the stream file ([task.cameras])."
        )


def _common_info(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Video properties on which all files agree; the others are None, as in LeRobot's merge."""
    return {key: value if all(i.get(key) == value for i in infos) else None for key, value in infos[0].items()}


def _place(number: int) -> dict[str, int]:
    return {"chunk_index": number // CHUNK, "file_index": number % CHUNK}


def _row(number: int, start: int, length: int, words: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"episode_index": number, "tasks": words, "length": length}
    row.update({f"data/{key}": value for key, value in _place(number).items()})
    row.update({"dataset_from_index": start, "dataset_to_index": start + length})
    return {**row, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}


def _table(
    part: EpisodeChoice, episode: int, number: int, start: int, features: dict[str, Any], tasks: dict[str, int]
) -> tuple[pa.Table, list[str]]:
    """Rows of an episode with their new indices, and its instructions."""
    from lerobot.datasets.feature_utils import get_hf_features_from_features

    shaped = {key: {**feature, "shape": tuple(feature["shape"])} for key, feature in features.items()}
    schema = get_hf_features_from_features(shaped).arrow_schema
    old = part.source.rows(episode)
    own = read_words(part.source.raw.root)
    if lacking := {"task_index", *schema.names}.difference(old.column_names):
        raise HoldfastError(f"The tables of {part.source.dataset} have no column {', '.join(sorted(lacking))}.")
    indices = old["task_index"].to_pylist()
    if unknown := [index for index in indices if index not in range(len(own))]:
        raise HoldfastError(f"Episode {episode} of {part.source.dataset} has the unknown task_index {unknown[0]!r}.")
    said = [part.instruction or own[index] for index in indices]
    words = list(dict.fromkeys(said))
    for word in words:
        tasks.setdefault(word, len(tasks))
    new = {
        "episode_index": np.full(len(old), number),
        "index": np.arange(start, start + len(old)),
        "task_index": np.array([tasks[word] for word in said]),
    }
    columns = [
        pa.array(new[field.name], field.type) if field.name in new else old[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema), words


def _write_video(root: Path, number: int, source: Source, camera: Camera, episode: int) -> tuple[dict[str, Any], bool]:
    """Write an episode's video without loss; return its columns in the episode table, and whether it was copied."""
    path = root / VIDEO.format(video_key=camera.key, **_place(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    clip, length = source.clip(camera, episode), source.lengths[episode]
    begin, copied = 0.0, False
    if clip is not None:
        begin = copy_packets(clip[0], path, clip[1], length, source.fps)
        copied = _equal(path, begin, source, camera, episode)
    if not copied:
        begin = 0.0
        pictures = (image for batch in _batches(source, camera, episode) for image in batch)
        encode_exactly(path, pictures, source.fps)
        if not _equal(path, begin, source, camera, episode):
            raise HoldfastError(f"Camera {camera.key} of {source.dataset} cannot be stored without loss.")
    times = {"from_timestamp": begin, "to_timestamp": begin + length / source.fps}
    return {f"videos/{camera.key}/{key}": value for key, value in {**_place(number), **times}.items()}, copied


def _batches(source: Source, camera: Camera, episode: int) -> Iterator[np.ndarray]:
    for start in range(source.starts[episode], source.ends[episode], AT_ONCE):
        frames = np.arange(start, min(start + AT_ONCE, source.ends[episode]))
        yield source.images(camera, frames).permute(0, 2, 3, 1).numpy()


def _equal(path: Path, begin: float, source: Source, camera: Camera, episode: int) -> bool:
    from holdfast.data.lerobot.video import decode

    done = round(begin * source.fps)
    for wanted in _batches(source, camera, episode):
        try:
            found = decode(path, range(done, done + len(wanted)), source.fps)
        except (RuntimeError, ValueError, IndexError, av.FFmpegError):
            return False
        if not np.array_equal(found.permute(0, 2, 3, 1).numpy(), wanted):
            return False
        done += len(wanted)
    return True


def _number_stats(table: pa.Table, features: dict[str, Any]) -> dict[str, Any]:
    from lerobot.datasets.compute_stats import get_feature_stats

    out = {}
    for key in table.column_names:
        if features[key]["dtype"] not in ("image", "string", "language"):
            values = np.array(table[key].to_pylist())
            out.update(_flat(key, get_feature_stats(values, axis=0, keepdims=values.ndim == 1)))
    return out


def _picture_stats(source: Source, camera: Camera, episode: int) -> dict[str, Any]:
    """LeRobot's image statistics, of fewer images; Holdfast itself normalizes images by constants."""
    from lerobot.datasets.compute_stats import auto_downsample_height_width, get_feature_stats

    chosen = np.unique(np.linspace(source.starts[episode], source.ends[episode] - 1, SAMPLE).round().astype(int))
    images = source.images(camera, chosen).numpy()
    small = np.stack([auto_downsample_height_width(image) for image in images])
    stats = get_feature_stats(small, axis=(0, 2, 3), keepdims=True)
    return _flat(camera.key, {k: v if k == "count" else np.squeeze(v / 255.0, axis=0) for k, v in stats.items()})


def _flat(key: str, stats: dict[str, np.ndarray]) -> dict[str, Any]:
    return {f"stats/{key}/{name}": np.asarray(value).tolist() for name, value in stats.items()}


def _rows(root: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.read([root / EPISODES]).to_pylist()
    return rows


def _write_meta(root: Path, info: dict[str, Any], tasks: list[str], rows: list[dict[str, Any]]) -> None:
    import pandas as pd
    from lerobot.datasets.compute_stats import aggregate_stats
    from lerobot.datasets.io_utils import write_stats, write_tasks

    videos = any(feature["dtype"] == "video" for feature in info["features"].values())
    totals = {"total_episodes": len(rows), "total_frames": rows[-1]["dataset_to_index"], "total_tasks": len(tasks)}
    paths = {"chunks_size": CHUNK, "data_path": DATA, "video_path": VIDEO if videos else None}
    content = {**info, **totals, **paths, "splits": {"train": f"0:{len(rows)}"}}
    (root / "meta").mkdir(parents=True, exist_ok=True)
    (root / "meta/info.json").write_text(json.dumps(content, indent=4))
    write_tasks(pd.DataFrame({"task_index": range(len(tasks))}, index=pd.Index(tasks, name="task")), root)
    _write(pa.Table.from_pylist(rows), root / EPISODES)
    write_stats(aggregate_stats([_nested(row) for row in rows]), root)


def _nested(row: dict[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    stats: dict[str, dict[str, np.ndarray]] = {}
    for name, value in row.items():
        if name.startswith("stats/"):
            _, key, kind = name.split("/")
            stats.setdefault(key, {})[kind] = np.array(value)
    return stats


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, target)

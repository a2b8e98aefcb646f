"""Written episodes are those of their sources to the last bit, however the cameras are stored."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Mapping
from holdfast.data.lerobot import export
from holdfast.data.lerobot.export import EpisodeChoice, keep_first, read_words, write_episodes
from holdfast.data.lerobot.source import ACTION, IMAGES, STATE, open_source
from holdfast.data.mapping import apply


@pytest.fixture(scope="module")
def source(recorded):
    return open_source(str(recorded / "reach"))


@pytest.fixture(scope="module")
def stored_images(tmp_path_factory):
    """A dataset whose camera is PNG in the tables, with a column of its own and two instructions."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = tmp_path_factory.mktemp("images") / "reach"
    numbers = {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}
    pixels = {"dtype": "image", "shape": (24, 32, 3), "names": ["height", "width", "channels"]}
    features = {STATE: numbers, ACTION: dict(numbers), IMAGES + "head": pixels}
    features["force"] = {"dtype": "float32", "shape": (1,), "names": None}
    dataset = LeRobotDataset.create("local/reach", fps=30, root=root, features=features, use_videos=False)
    rng = np.random.default_rng(0)
    for episode in range(4):
        for _ in range(5 + episode):
            numbers = {key: rng.normal(size=2).astype(np.float32) for key in (STATE, ACTION)}
            image = rng.integers(0, 255, (24, 32, 3)).astype(np.uint8)
            force = rng.normal(size=1).astype(np.float32)
            dataset.add_frame({"task": f"Do {episode % 2}.", **numbers, IMAGES + "head": image, "force": force})
        dataset.save_episode()
    dataset.finalize()
    return open_source(str(root))


def write(root, *parts):
    root.mkdir()
    write_episodes(root, parts, {"run": "r"})
    return open_source(str(root))


def assert_same(written, place, source, episode):
    here, there = written.frames_of([place]), source.frames_of([episode])
    assert np.array_equal(written.state[here], source.state[there])
    assert np.array_equal(written.action[here], source.action[there])
    for camera, original in zip(written.cameras, source.cameras, strict=True):
        assert torch.equal(written.images(camera, here), source.images(original, there))


def test_a_copy_that_differs_is_encoded_without_loss(source, tmp_path, monkeypatch):
    real = export.copy_packets
    monkeypatch.setattr(export, "copy_packets", lambda old, new, begin, n, fps: real(old, new, begin + 2 / 30, n, fps))
    written = write(tmp_path / "out", EpisodeChoice(source, (3,), {}))
    assert_same(written, 0, source, 3)
    assert written.info["features"][IMAGES + "head"]["info"]["video.codec"] is None


def test_what_cannot_be_stored_exactly_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_equal", lambda *args: False)
    with pytest.raises(HoldfastError, match=r"observation.images.head.*without loss"):
        write(tmp_path / "out", EpisodeChoice(source, (3,), {}))


def test_stored_images_other_columns_and_words_are_kept(stored_images, tmp_path):
    written = write(tmp_path / "out", EpisodeChoice(stored_images, (2, 1, 0), {"episodes": [2, 1, 0]}))
    assert written.cameras[0].kind == "image"
    assert read_words(written.root) == ["Do 0.", "Do 1."]
    for place, episode in enumerate((2, 1, 0)):
        assert_same(written, place, stored_images, episode)
        assert written.rows(place)["force"].to_pylist() == stored_images.rows(episode)["force"].to_pylist()
    assert [written.rows(e)["task_index"][0].as_py() for e in range(3)] == [0, 1, 0]

    (tmp_path / "less").mkdir()
    keep_first(written.root, 2, tmp_path / "less")
    less = open_source(str(tmp_path / "less"))
    assert less.lengths == [7, 6]
    assert_same(less, 1, stored_images, 1)
    assert json.loads((less.root / export.PROVENANCE).read_text())["parts"][0]["episodes"] == [2, 1]
    for path in less.root.glob("data/*/*.parquet"):
        assert path.stat().st_nlink == 2


def test_a_camera_of_another_source_is_read_as_this_one_stores_it(stored_images):
    foreign = replace(stored_images.cameras[0], kind="video")
    frames = stored_images.frames_of([1])
    assert torch.equal(stored_images.images(foreign, frames), stored_images.images(stored_images.cameras[0], frames))


def test_statistics_are_those_of_the_written_episodes(source, tmp_path):
    from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata

    written = write(tmp_path / "out", EpisodeChoice(source, (5, 0), {}))
    stats = LeRobotDatasetMetadata("local/out", root=written.root).stats
    assert np.allclose(stats[ACTION]["max"], written.action.max(0))
    assert np.allclose(stats[ACTION]["mean"], written.action.mean(0), atol=1e-5)
    mean = written.images(written.cameras[0], written.frames_of([0])).float().mean() / 255
    assert abs(float(stats[written.cameras[0].key]["mean"].mean()) - float(mean)) < 0.05


def test_datasets_of_other_cameras_do_not_go_together(source, stored_images, tmp_path):
    parts = EpisodeChoice(source, (0,), {}), EpisodeChoice(stored_images, (0,), {})
    with pytest.raises(HoldfastError, match=r"differ in camera observation.images.head.*\[task.cameras\]"):
        write(tmp_path / "out", *parts)
    seen = apply(stored_images, Mapping({"head": "black 32x32", "front": "black 32x32", "wrist": "head"}), None)
    with pytest.raises(HoldfastError, match=r"differ in camera observation.images.wrist"):
        write(tmp_path / "other", parts[0], EpisodeChoice(seen, (0,), {}))


@pytest.mark.parametrize("index", [7, -1, None])
def test_an_instruction_that_is_not_there_is_named(stored_images, tmp_path, monkeypatch, index):
    rows = stored_images.rows(0)
    place = rows.column_names.index("task_index")
    changed = rows.set_column(place, "task_index", pa.array([index] * len(rows), pa.int64()))
    monkeypatch.setattr(type(stored_images), "rows", lambda self, episode: changed)
    with pytest.raises(HoldfastError, match=rf"Episode 0 of .* has the unknown task_index {index}"):
        write(tmp_path / "out", EpisodeChoice(stored_images, (0,), {}))
    monkeypatch.setattr(type(stored_images), "rows", lambda self, episode: rows.drop_columns(["force", "task_index"]))
    with pytest.raises(HoldfastError, match="have no column force, task_index"):
        write(tmp_path / "out2", EpisodeChoice(stored_images, (0,), {}))

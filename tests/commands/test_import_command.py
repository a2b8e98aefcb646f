"""What others recorded and kept: converted or refused with advice, and never changed."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from toys import TINY

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.data.lerobot.source import open_source
from holdfast.data.lerobot.video_copy import copy_packets


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def old(recorded, tmp_path_factory):
    """`reach` in the layout of LeRobot v2.1: one table and one video per episode, and lines of JSON beside them."""
    source = open_source(str(recorded / "reach"))
    root = tmp_path_factory.mktemp("old") / "reach"
    (root / "meta").mkdir(parents=True)
    (root / "data" / "chunk-000").mkdir(parents=True)
    for episode in range(6):
        pq.write_table(source.rows(episode), root / "data" / "chunk-000" / f"episode_{episode:06d}.parquet")
        for camera in source.cameras:
            target = root / "videos" / "chunk-000" / camera.key / f"episode_{episode:06d}.mp4"
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_packets(*source.clip(camera, episode)[:1], target, source.clip(camera, episode)[1], 14, 30)
    info = {
        **{key: source.info[key] for key in ("robot_type", "total_episodes", "total_frames", "total_tasks", "fps")},
        "codebase_version": "v2.1",
        "total_videos": 12,
        "total_chunks": 1,
        "chunks_size": 1000,
        "splits": {"train": "0:6"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": source.info["features"],
    }
    (root / "meta" / "info.json").write_text(json.dumps(info))
    numbers = {"min": [0.0] * 14, "max": [1.0] * 14, "mean": [0.5] * 14, "std": [0.1] * 14, "count": [14]}
    pixels = {key: [[[0.5]]] * 3 for key in ("min", "max", "mean", "std")} | {"count": [14]}
    stats = {"observation.state": numbers, "action": numbers, **{camera.key: pixels for camera in source.cameras}}
    lines(root / "meta" / "tasks.jsonl", [{"task_index": 0, "task": "Please reach."}])
    lines(
        root / "meta" / "episodes.jsonl",
        [{"episode_index": e, "tasks": ["Please reach."], "length": 14} for e in range(6)],
    )
    lines(root / "meta" / "episodes_stats.jsonl", [{"episode_index": e, "stats": stats} for e in range(6)])
    return root


def contents(root):
    return {p.relative_to(root): checked_folder.file_hash(p) for p in root.rglob("*") if p.is_file()}


def test_a_v21_dataset_is_converted_and_left_alone(old, recorded, tmp_path, capsys):
    before = contents(old)
    assert main(["doctor", str(old)]) == 1
    assert f"holdfast import dataset {old}" in " ".join(capsys.readouterr().out.split())
    assert main(["import", "dataset", str(old), f"--output={tmp_path}/new"]) == 0
    assert "holdfast doctor" in capsys.readouterr().out
    assert contents(old) == before
    new, original = open_source(str(tmp_path / "new")), open_source(str(recorded / "reach"))
    assert np.array_equal(new.state, original.state)
    assert np.array_equal(new.action, original.action)
    frames = new.frames_of([4])
    for camera in new.cameras:
        assert torch.equal(new.images(camera, frames), original.images(camera, frames))
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"data", "meta", "videos", "manifest.json"}


def said(capsys, *words):
    assert main(["import", *words]) == 2
    return " ".join(capsys.readouterr().err.split())


def test_a_broken_dataset_leaves_nothing_behind(old, tmp_path, capsys):
    import shutil

    shutil.copytree(old, tmp_path / "broken")
    (tmp_path / "broken" / "meta" / "episodes_stats.jsonl").write_text("")
    message = said(capsys, "dataset", f"{tmp_path}/broken", f"--output={tmp_path}/new")
    assert "LeRobot's converter failed" in message
    assert "untouched" in message
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken"]


def test_other_formats_are_refused_with_advice(recorded, old, tmp_path, capsys):
    out = f"--output={tmp_path}/new"
    (tmp_path / "aloha").mkdir()
    (tmp_path / "aloha" / "episode_0.hdf5").touch()
    message = said(capsys, "dataset", f"{tmp_path}/aloha", out)
    assert "holds HDF5 files" in message
    assert "no converter" in message
    assert "LeRobotDataset.create" in message
    (tmp_path / "rlds" / "1.0.0").mkdir(parents=True)
    (tmp_path / "rlds" / "1.0.0" / "x-train.tfrecord-00000-of-00001").touch()
    assert "holds RLDS files" in said(capsys, "dataset", f"{tmp_path}/rlds", out)
    assert "needs no import" in said(capsys, "dataset", str(recorded / "reach"), out)
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text('{"codebase_version": "v2.0"}')
    assert "converts v2.1 only" in said(capsys, "dataset", str(tmp_path), out)
    assert "is not a folder" in said(capsys, "dataset", f"{tmp_path}/nothing", out)
    assert "One dataset at a time" in said(capsys, "dataset", str(old), str(old), out)
    assert "exists already" in said(capsys, "dataset", str(old), f"--output={tmp_path}")


def released(path, episodes):
    steps = {str(e): list(range(14 * e, 14 * e + 14)) for e in episodes}
    content = {
        "dataset_name": "x",
        "mode": "episode",
        "buffer_indices": [i for e in sorted(episodes) for i in steps[str(e)]],
        "original_dataset_size": 84,
        "episode_indices": [str(e) for e in episodes],
        "original_num_episodes": 6,
        "episode_to_steps": steps,
    }
    path.write_text(json.dumps(content))


def test_released_buffers_become_a_buffer_and_a_dataset(toy, capsys):
    released(toy / "task1_buffer.json", [1, 4])
    released(toy / "task2_buffer.json", [0])
    files = [f"{toy}/task2_buffer.json", f"{toy}/task1_buffer.json"]
    stream = f"--stream={toy}/stream.toml"
    assert main(["import", "buffer", *files, stream, f"--output={toy}/kept.json"]) == 0
    assert "reach: 2 of 6 episodes" in capsys.readouterr().out
    tasks = json.loads((toy / "kept.json").read_text())["tasks"]
    assert [(t["task"], t["episodes"], t["total"]) for t in tasks] == [("reach", [1, 4], 6), ("lift", [0], 6)]
    assert main(["export", "buffer", f"{toy}/kept.json", stream, f"--output={toy}/kept"]) == 0
    exported, reach = open_source(str(toy / "kept")), open_source(str(toy / "reach"))
    assert np.array_equal(exported.action[14:28], reach.action[reach.frames_of([4])])


def test_buffers_that_belong_to_no_task_are_refused(toy, capsys):
    released(toy / "task4_buffer.json", [0])
    released(toy / "other.json", [0])
    stream, out = f"--stream={toy}/stream.toml", f"--output={toy}/kept.json"
    assert "Valid: 1, 2, 3" in said(capsys, "buffer", f"{toy}/task4_buffer.json", stream, out)
    assert "task1_buffer.json" in said(capsys, "buffer", f"{toy}/other.json", stream, out)
    assert "--stream=FILE" in said(capsys, "buffer", f"{toy}/task4_buffer.json", out)


def test_given_statistics_normalize_every_task(toy, capsys):
    ranges = {"q01": [-3.0] * 13 + [0.0], "q99": [3.0] * 13 + [0.1], "mean": [0.0] * 14, "std": [1.0] * 14}
    (toy / "norm_stats.json").write_text(json.dumps({"norm_stats": {"state": ranges, "actions": ranges}}))
    flags = [f"--stream={toy}/stream.toml", f"--output={toy}/run", "--steps=2", "--batch_size=4", "--device=cpu", *TINY]
    stats = f"--norm.stats={toy}/norm_stats.json"
    assert main(["train", *flags, stats, "--norm.strategy=per-task"]) == 2
    assert "frozen-first or mixed" in capsys.readouterr().err
    assert main(["train", *flags, stats]) == 0
    content = json.loads((toy / "run" / "stages" / "03-sweep" / "checkpoint" / "normalization.json").read_text())
    assert list(content["measured"]) == ["(given)", "reach", "lift", "sweep"]
    assert content["measured"]["(given)"]["state"]["q99"][0] == 3.0
    policy = toy / "run" / "stages" / "03-sweep" / "checkpoint" / "policy"
    from safetensors.numpy import load_file

    saved = [load_file(p) for p in policy.glob("*processor*.safetensors")]
    assert any(np.allclose(t.get("observation.state.q99", [0])[0], 3.0) for t in saved)

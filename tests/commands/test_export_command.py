import json
import shutil

import numpy as np
import pytest
import torch
from toys import TASKS, TINY

from holdfast.cli import main
from holdfast.data.lerobot.source import open_source

FLAGS = (*TINY, "--device=cpu", "--steps=2", "--batch_size=4", "--replay.ratio=0.7", "--replay.store=copy")


@pytest.fixture(scope="module")
def lab(recorded, tmp_path_factory):
    """A finished run of two stages with copies, and its datasets."""
    from toys import stream_text

    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(recorded, folder, dirs_exist_ok=True)
    (folder / "stream.toml").write_text(stream_text(("reach", "lift")))
    assert main(["train", f"--stream={folder}/stream.toml", f"--output={folder}/run", *FLAGS]) == 0
    return folder


def kept(lab, stage="02-lift"):
    return json.loads((lab / "run" / "stages" / stage / "checkpoint" / "buffer.json").read_text())["tasks"]


def check(lab, output, stage="02-lift"):
    """The exported dataset holds just the kept episodes, with their pixels, words and origins."""
    exported = open_source(str(output))
    provenance = json.loads((output / "meta" / "provenance.json").read_text())
    place = 0
    for task, part in zip(kept(lab, stage), provenance["parts"], strict=True):
        original = open_source(str(lab / task["task"]))
        assert part["episodes"] == task["episodes"]
        assert part["fingerprint"] == task["fingerprint"] == original.fingerprint
        for episode in task["episodes"]:
            here, there = exported.frames_of([place]), original.frames_of([episode])
            assert np.array_equal(exported.state[here], original.state[there])
            assert np.array_equal(exported.action[here], original.action[there])
            for camera in original.cameras:
                assert torch.equal(exported.images(camera, here), original.images(camera, there))
            place += 1
    assert place == len(exported.starts)
    return provenance


def test_the_buffer_opens_in_lerobot_with_one_task_per_instruction(lab, tmp_path, capsys):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    assert main(["export", "buffer", str(lab / "run"), f"--output={tmp_path}/kept"]) == 0
    assert "4 episodes of 2 tasks" in capsys.readouterr().out
    provenance = check(lab, tmp_path / "kept")
    assert provenance["stage"] == 2
    dataset = LeRobotDataset("local/kept", root=tmp_path / "kept", delta_timestamps={"action": [0.0, 1 / 30]})
    assert dataset.num_episodes == 4
    assert len(dataset) == 4 * 14
    assert list(dataset.meta.tasks.index) == ["Please reach.", "Please lift."]
    first, last = dataset[0], dataset[len(dataset) - 1]
    assert (first["task"], last["task"]) == ("Please reach.", "Please lift.")
    assert last["action_is_pad"].tolist() == [False, True]
    source = open_source(str(tmp_path / "kept"))
    key = source.cameras[0].key
    wanted = source.images(source.cameras[0], np.array([len(dataset) - 1]))[0] / 255
    assert torch.allclose(last[key], wanted)


def test_a_copy_of_a_stage_is_not_the_last_one(lab, tmp_path, capsys):
    run = shutil.copytree(lab / "run", tmp_path / "run")
    shutil.copytree(run / "stages" / "01-reach", run / "stages" / "09-before")
    assert main(["export", "buffer", str(run), f"--output={tmp_path}/kept"]) == 0
    assert "4 episodes of 2 tasks" in capsys.readouterr().out
    assert main(["export", "buffer", str(run), "--stage=9", f"--output={tmp_path}/other"]) == 2
    assert "Unknown finished stage" in capsys.readouterr().err


def test_exported_datasets_merge_in_lerobot(lab, tmp_path):
    from holdfast.data.lerobot.writer import merge_datasets

    for stage in (1, 2):  # the copies of stage 1 have shrunk since, so it is taken from the dataset
        assert (
            main(["export", "buffer", str(lab / "run"), f"--stage={stage}", f"--output={tmp_path}/after{stage}"]) == 0
        )
    check(lab, tmp_path / "after1", "01-reach")
    merge_datasets([tmp_path / "after1", tmp_path / "after2"], tmp_path / "both")
    both, second = open_source(str(tmp_path / "both")), open_source(str(tmp_path / "after2"))
    assert len(both.starts) == 4 + 4
    for camera in second.cameras:
        here, there = both.frames_of([7]), second.frames_of([3])
        assert torch.equal(both.images(camera, here), second.images(camera, there))


def test_it_needs_only_the_copies(lab, tmp_path):
    shutil.copytree(lab, tmp_path / "lab")
    for name in TASKS:
        shutil.rmtree(tmp_path / "lab" / name)
    stream = f"--stream={tmp_path}/lab/stream.toml"
    assert main(["export", "buffer", str(tmp_path / "lab" / "run"), stream, f"--output={tmp_path}/kept"]) == 0
    check(lab, tmp_path / "kept")


def test_mistakes_are_named(lab, tmp_path, capsys):
    def said(*flags):
        assert main(["export", "buffer", *flags]) == 2
        return capsys.readouterr().err

    run = str(lab / "run")
    assert "Unknown finished stage '3'. Valid: 1, 2" in said(run, "--stage=3", f"--output={tmp_path}/x")
    assert "exists already" in said(run, f"--output={tmp_path}")
    assert "not a run with a finished stage" in said(str(tmp_path), f"--output={tmp_path}/x")
    (tmp_path / "lone.json").write_text('{"ratio": 0.2, "tasks": []}')
    assert "--stream=FILE" in said(f"{tmp_path}/lone.json", f"--output={tmp_path}/x")
    stream = f"--stream={lab}/stream.toml"
    assert "keeps no episode" in said(f"{tmp_path}/lone.json", stream, f"--output={tmp_path}/x")
    (tmp_path / "lone.json").write_text('{"ratio": 0.2, "episodes": []}')
    assert "cannot be used: episodes is not known" in said(f"{tmp_path}/lone.json", stream, f"--output={tmp_path}/x")
    assert not (tmp_path / "x").exists()

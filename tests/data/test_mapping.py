"""A dataset seen through a mapping is of the run's schema to whoever reads it; a mapping that does not fit is named."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import TINY

from holdfast import catalog
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Mapping
from holdfast.data.lerobot.export import EpisodeChoice, write_episodes
from holdfast.data.lerobot.source import IMAGES, open_source
from holdfast.data.mapping import apply
from holdfast.embodiments import load
from holdfast.embodiments.embodiment import Embodiment

PAIR = load("piper_x_pair")

FLAGS = (*TINY, "--device=cpu", "--steps=4", "--batch_size=4", "--replay.frequency=0.5")


@pytest.fixture(scope="module")
def source(recorded):
    return open_source(str(recorded / "reach"))


def test_without_a_mapping_the_source_is_itself(source):
    assert apply(source, None, None) is source
    assert source.raw is source


def test_cameras_are_renamed_left_out_or_black(source):
    seen = apply(source, Mapping({"top": "head", "wrist": "black 32x40"}), None)
    assert [(c.key, c.height, c.width) for c in seen.cameras] == [(IMAGES + "top", 32, 32), (IMAGES + "wrist", 32, 40)]
    frames = seen.frames_of([2])
    assert torch.equal(seen.images(seen.cameras[0], frames), source.images(source.cameras[0], frames))
    assert seen.images(seen.cameras[1], frames).shape == (14, 3, 32, 40)
    assert not seen.images(seen.cameras[1], frames).any()
    assert seen.raw is source


def test_dimensions_are_put_in_the_run_s_order_under_its_names(source):
    order = tuple(reversed(source.action_names))
    robot = Embodiment("other", tuple(replace(d, name=f"joint {i}") for i, d in enumerate(PAIR.dimensions)))
    seen = apply(source, Mapping(dimensions=order), robot)
    assert seen.action_names == seen.state_names == robot.names
    assert seen.state_places == tuple(range(14))
    assert np.array_equal(seen.state, source.state[:, ::-1])
    assert np.array_equal(seen.action, source.action[:, ::-1])
    assert apply(source, Mapping(dimensions=order[:3]), None).action_names == order[:3]


def test_every_second_frame_with_the_command_that_leads_to_the_next(source):
    seen = apply(source, Mapping(fps=15), None)
    assert seen.fps == 15
    assert seen.lengths == [7] * 6
    frames, raw = seen.frames_of([3]), source.frames_of([3])
    assert np.array_equal(seen.state[frames], source.state[raw[::2]])
    assert np.array_equal(seen.action[frames], source.action[raw[1::2]])
    assert np.allclose(seen.timestamps[frames], np.arange(7) / 15)
    camera = seen.cameras[0]
    assert torch.equal(seen.images(camera, frames), source.images(source.cameras[0], raw[::2]))


def test_an_odd_length_keeps_its_last_frame(source):
    seen = apply(replace(source, ends=source.ends - (np.arange(6) == 5)), Mapping(fps=10), None)
    assert seen.lengths == [5, 5, 5, 5, 5, 5]
    assert np.array_equal(seen.action[-1], source.action[-2])


def test_a_mapping_is_part_of_the_fingerprint(source):
    mappings = [Mapping({"a": "head"}), Mapping({"a": "front"}), Mapping({"b": "head"}), Mapping(fps=15)]
    prints = {apply(source, mapping, None).fingerprint for mapping in mappings} | {source.fingerprint}
    assert len(prints) == 5
    again = apply(open_source(source.dataset), mappings[0], None)
    assert again.fingerprint == apply(source, mappings[0], None).fingerprint


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        (Mapping({"top": "haed"}), r"Unknown camera 'haed'. Did you mean 'head'.*front.*black 480x640"),
        (Mapping(dimensions=("left_joint_1.pos", "elbow")), r"Unknown dimension 'elbow'.*left_gripper.pos"),
        (Mapping(fps=20), r"30 frames per second cannot become 20"),
        (Mapping(fps=60), r"30 frames per second cannot become 60"),
    ],
    ids=["camera", "dimension", "fraction", "more"],
)
def test_a_mapping_that_does_not_fit_is_named(source, mapping, said):
    with pytest.raises(HoldfastError, match=said) as caught:
        apply(source, mapping, None)
    assert source.dataset in str(caught.value)


def test_every_dimension_of_the_embodiment_must_be_listed(source):
    with pytest.raises(HoldfastError, match="lists 13 names, the embodiment has 14"):
        apply(source, Mapping(dimensions=source.action_names[:13]), PAIR)


def test_two_names_for_one_camera_are_refused(source):
    with pytest.raises(HoldfastError, match="camera 'head' of the dataset twice"):
        apply(source, Mapping({"a": "head", "b": "observation.images.head"}), None)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('[task.cameras]\na = "head"\nb = "head"', "uses camera 'head' of the dataset twice"),
        ('dimensions = ["x", "x"]', "uses dimension 'x' of the dataset twice"),
        ("fps = 0", "'fps' must be above 0"),
        ("[task.cameras]\na = 3", "'cameras' 'a' must be text in quotes"),
        ('cameras = "head"', "'cameras' must be a table"),
        ('dimensions = "x"', "'dimensions' must be a list"),
        ("[task.camera]", "Unknown key 'camera'. Did you mean 'cameras'"),
    ],
)
def test_what_a_stream_may_not_say(toy, lines, said):
    text = (toy / "stream.toml").read_text() + lines + "\n"
    (toy / "stream.toml").write_text(text)
    with pytest.raises(HoldfastError) as caught:
        catalog.load_stream(str(toy / "stream.toml"))
    assert said in str(caught.value)
    assert "task 3" in str(caught.value)


def test_a_catalog_task_may_have_a_mapping(tmp_path):
    (tmp_path / "s.toml").write_text('name = "s"\n[[task]]\nname = "stack_bowls"\ndataset = "x"\nfps = 30\n')
    assert catalog.load_stream(str(tmp_path / "s.toml")).tasks[0].mapping == Mapping(fps=30)


@pytest.fixture
def odd(toy):
    """The dataset of `lift` as another lab would have recorded it: cameras, dimensions and rate are its own."""
    from toy_world import write_dataset

    from holdfast.core.records import Task
    from holdfast.data.lerobot.writer import dataset_writer, frame
    from holdfast.embodiments import load

    robot = load("piper_x_pair")
    write_dataset(toy / "fast", Task("lift", "Please lift.", ("left", "right")), robot, episodes=3, length=28, size=32)
    plain = open_source(str(toy / "fast"))
    names = [f"m{i}" for i in range(14)]
    with dataset_writer(
        toy / "odd", fps=60, names=names, cameras=["cam_high"], height=32, width=32, robot="x"
    ) as dataset:
        for episode in range(3):
            for t in plain.frames_of([episode]):
                image = plain.images(plain.cameras[0], np.array([t]))[0].permute(1, 2, 0).numpy()
                dataset.add_frame(frame("Lift it.", plain.state[t][::-1], plain.action[t][::-1], {"cam_high": image}))
            dataset.save_episode()
    text = (toy / "stream.toml").read_text().replace('dataset = "lift"', 'dataset = "odd"')
    (toy / "stream.toml").write_text(text)
    return toy, text


MAPPED = """dataset = "odd"
fps = 30
dimensions = ["m13", "m12", "m11", "m10", "m9", "m8", "m7", "m6", "m5", "m4", "m3", "m2", "m1", "m0"]
cameras = {head = "cam_high", front = "black 32x32"}
"""


def test_the_errors_name_the_lines_to_add_and_with_them_it_trains(odd, capsys):
    toy, text = odd

    def train(*flags):
        code = main(["train", f"--stream={toy}/stream.toml", f"--output={toy}/run", *FLAGS, *flags])
        return code, " ".join(capsys.readouterr().err.split())

    code, said = train()
    assert code == 2
    assert "fps = 30" in said
    lines = MAPPED.splitlines()
    (toy / "stream.toml").write_text(text.replace(lines[0], "\n".join(lines[:2])))
    code, said = train()
    assert (code, "dimensions = [" in said) == (2, True)
    (toy / "stream.toml").write_text(text.replace(lines[0], "\n".join(lines[:3])))
    code, said = train()
    assert code == 2
    assert '[task.cameras] head = "black 32x32" front = "black 32x32" (the dataset has cam_high' in said
    (toy / "stream.toml").write_text(text.replace(lines[0], MAPPED))
    assert train()[0] == 0
    audits = [json.loads(line) for line in (toy / "run" / "audit.jsonl").read_text().splitlines()]
    assert "front is black 32x32" in [line["mapping"] for line in audits if line["event"] == "mapping"][-1]


def test_a_changed_mapping_of_a_kept_task_is_refused(odd, capsys):
    toy, text = odd
    for store in ("reference", "copy"):
        (toy / "stream.toml").write_text(text.replace('dataset = "odd"\n', MAPPED))
        base = ["train", f"--output={toy}/{store}", f"--stream={toy}/stream.toml", *FLAGS, f"--replay.store={store}"]
        (toy / "sweep").rename(toy / "away")
        (toy / "sweep").mkdir()
        assert main(base) == 2
        (toy / "sweep").rmdir()
        (toy / "away").rename(toy / "sweep")
        (toy / "stream.toml").write_text(
            text.replace('dataset = "odd"\n', MAPPED.replace('"m13", "m12"', '"m12", "m13"'))
        )
        capsys.readouterr()
        assert main(base) == 2
        assert "'lift' or its mapping has changed since its stage" in " ".join(capsys.readouterr().err.split())


def test_an_exported_mapped_dataset_is_of_the_run_s_schema(odd, tmp_path):
    toy, text = odd
    (toy / "stream.toml").write_text(text.replace('dataset = "odd"\n', MAPPED))
    stream = catalog.load_stream(str(toy / "stream.toml"))
    reach = open_source(str(toy / "reach"))
    lift = apply(open_source(str(toy / "odd")), stream.tasks[1].mapping, PAIR)
    (tmp_path / "both").mkdir()
    write_episodes(
        tmp_path / "both", [EpisodeChoice(reach, (4, 1), {}, "Reach."), EpisodeChoice(lift, (2,), {}, "Lift.")], {}
    )
    both = open_source(str(tmp_path / "both"))
    assert (both.fps, both.action_names, both.lengths) == (30, reach.action_names, [14, 14, 14])
    here, there = both.frames_of([2]), lift.frames_of([2])
    assert np.array_equal(both.state[here], lift.state[there])
    assert np.array_equal(both.action[here], lift.action[there])
    cameras = {camera.key: camera for camera in lift.cameras}
    for camera in both.cameras:
        assert torch.equal(both.images(camera, here), lift.images(cameras[camera.key], there))
        assert torch.equal(both.images(camera, both.frames_of([0])), reach.images(camera, reach.frames_of([4])))

"""Which state dimension an action dimension belongs to: by name, by the embodiment, or to none."""

import json

import numpy as np
import pytest
import torch
from toys import write_numbers

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Mapping, Task
from holdfast.data.lerobot.source import ACTION, STATE, camera_name, open_source
from holdfast.data.lesson import Layout, Lesson, pair
from holdfast.data.mapping import apply
from holdfast.embodiments.embodiment import Dimension, Embodiment

TASK = Task("go", "Go.", ("left",))
STATES = ("x", "y", "z", "roll", "pitch", "yaw", "finger", "gripper")
ACTIONS = ("gripper", "y", "x", "speed")


def robot(*dimensions):
    return Embodiment("robot", tuple(Dimension(name, arm, kind, -10, 10, 1) for name, arm, kind in dimensions))


ARMS = robot(
    ("gripper", "left", "gripper"), ("y", "right", "joint"), ("x", "right", "delta"), ("speed", "right", "joint")
)

TARGETS = robot(*((name, "left", "target") for name in ACTIONS))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    root = tmp_path_factory.mktemp("numbers") / "go"
    write_numbers(root, STATES, ACTIONS)
    return open_source(str(root))


def rename(root, key, names):
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][key]["names"] = names
    (root / "meta/info.json").write_text(json.dumps(info))


def test_action_and_state_are_paired_by_name(source):
    assert (source.state_names, source.action_names) == (STATES, ACTIONS)
    found = pair(source)
    assert found.places.tolist() == [7, 1, 0, -1]
    assert found.commands.tolist() == [2, 1, -1, -1, -1, -1, -1, 0]
    assert np.array_equal(found.pose(source.state[3:5])[:, :3], source.state[3:5][:, [7, 1, 0]])
    assert not found.pose(source.state)[:, 3].any()


def test_an_increment_is_never_paired(source):
    assert pair(source, ARMS).places.tolist() == [7, 1, -1, -1]


def test_relative_actions_are_those_of_the_same_name(source):
    lesson = Lesson(TASK, source, np.ones(4, bool), hold=False)
    layout = Layout(None, (0, 1), np.array([True, True, False, False]), (7, 1, 0, -1))
    blocks = dict(lesson.blocks(layout, [1]))
    frame, state, action = source.starts[1], source.state, source.action
    assert np.array_equal(blocks[STATE], state[frame : source.ends[1]])
    assert np.allclose(blocks[ACTION][0, :2], action[frame, :2] - state[frame, [7, 1]])
    assert np.allclose(blocks[ACTION][1, :2], action[frame + 1, :2] - state[frame, [7, 1]])
    assert np.array_equal(blocks[ACTION][0, 2:], action[frame, 2:])
    assert np.abs(blocks[ACTION][:, :2]).max() < 1 < np.abs(action[:, :2]).min()


def test_an_idle_arm_is_held_where_it_is_measured_and_increments_at_zero(source):
    lesson = Lesson(TASK, source, ARMS.active(["left"]), True, ARMS)
    actions, _ = lesson.actions(np.array([5, 20]), (0, 1))
    wanted = source.action[[[5, 6], [20, 21]]]
    assert np.array_equal(actions[..., 0], wanted[..., 0])
    assert np.array_equal(actions[..., 1], source.state[[5, 20], 1][:, None].repeat(2, axis=1))
    assert not actions[..., 2].any()
    assert np.array_equal(actions[..., 3], wanted[..., 3])  # nothing measures it


def test_a_server_holds_idle_arms_the_same_way(source):
    pose = ARMS.pose(np.arange(8, dtype=np.float32), ARMS.measured_by(ACTIONS, STATES))
    assert np.array_equal(pose, [7, 1, np.nan, np.nan], equal_nan=True)
    held = ARMS.hold(np.full((2, 4), 9.0), pose, ["left"])
    assert np.array_equal(held[0, :3], [9, 1, 0])


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (None, ("dimension_0", "dimension_1")),
        (["actions"], ("dimension_0", "dimension_1")),  # openpi's converters
        ({"motors": ["a", "b"]}, ("a", "b")),
        ({"arm": {"left": ["a"], "right": ["b"]}}, ("a", "b")),
        ({"delta_x": 0, "delta_y": 1}, ("delta_x", "delta_y")),
        ([["a", "b"]], ("a", "b")),
    ],
    ids=["none", "one for all", "groups", "nested groups", "numbered", "list in a list"],
)
def test_names_are_read_however_they_were_written(tmp_path, names, found):
    write_numbers(tmp_path / "go", 2, 2)
    rename(tmp_path / "go", ACTION, names)
    source = open_source(str(tmp_path / "go"))
    assert source.action_names == source.state_names == found
    assert source.state_places == (-1, -1)  # the state has no names of its own


def test_an_embodiment_says_what_a_state_without_names_is(tmp_path):
    write_numbers(tmp_path / "go", 2, ("x", "y"))
    source = open_source(str(tmp_path / "go"))
    assert pair(source).places.tolist() == [-1, -1]
    assert pair(source, robot(("a", "left", "joint"), ("b", "left", "delta"))).places.tolist() == [0, -1]


def test_an_embodiments_names_pair_too(tmp_path):
    write_numbers(tmp_path / "go", ("b", "a"), ("motor_0", "motor_1"))
    source = open_source(str(tmp_path / "go"))
    assert pair(source).places.tolist() == [-1, -1]
    assert pair(source, robot(("a", "left", "joint"), ("b", "left", "joint"))).places.tolist() == [1, 0]


def test_a_mapping_orders_the_action_alone_where_the_state_has_other_names(source):
    seen = apply(source, Mapping(dimensions=("speed", "x")), None)
    assert (seen.state_names, seen.action_names, seen.state_places) == (STATES, ("speed", "x"), (-1, 0))
    assert np.array_equal(seen.state, source.state)
    assert np.array_equal(seen.action, source.action[:, [3, 2]])


def test_a_slower_rate_adds_increments_up(source):
    seen = apply(source, Mapping(fps=2), ARMS)  # every fifth of twelve frames
    assert seen.lengths == [3, 3, 3]
    assert np.allclose(seen.action[:3, 2], [source.action[a:b, 2].sum() for a, b in ((0, 5), (5, 10), (10, 12))])
    assert np.array_equal(seen.action[:3, 1], source.action[[4, 9, 11], 1])
    assert seen.fingerprint != apply(source, Mapping(fps=2), TARGETS).fingerprint


def test_a_table_that_is_wider_than_its_header_is_refused(tmp_path):
    write_numbers(tmp_path / "go", 3, 2)
    info = json.loads((tmp_path / "go/meta/info.json").read_text())
    info["features"][STATE]["shape"] = [2]
    (tmp_path / "go/meta/info.json").write_text(json.dumps(info))
    with pytest.raises(HoldfastError, match=r"declares 2 dimensions of observation.state, its tables hold 3"):
        open_source(str(tmp_path / "go"))


def test_a_camera_keeps_its_key_unless_it_is_renamed(source):
    (camera,) = apply(source, Mapping(fps=5), TARGETS).cameras
    assert camera.key == "observation.image"
    seen = apply(source, Mapping({"observation.image": "image"}), None)
    assert [c.key for c in seen.cameras] == ["observation.image"]
    assert torch.equal(seen.images(seen.cameras[0], np.arange(3)), source.images(source.cameras[0], np.arange(3)))
    assert [c.key for c in apply(source, Mapping({"top": "image"}), None).cameras] == ["observation.images.top"]


@pytest.mark.parametrize(
    ("key", "name"), [("observation.image", "image"), ("observation.images.top", "top"), ("wrist_rgb", "wrist_rgb")]
)
def test_cameras_are_called_by_a_short_name(key, name):
    assert camera_name(key) == name

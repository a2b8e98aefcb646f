import math

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS, load
from holdfast.embodiments.embodiment import Dimension, Embodiment

PAIR = load("piper_x_pair")
GRIPPERS = [6, 13]

SMALL = """
name = "one_joint"
[[dimension]]
name = "lift.pos"
arm = "left"
kind = "joint"
lower = -1.5
upper = 2
step = 0.05
[[dimension]]
name = "grip.pos"
arm = "right"
kind = "gripper"
lower = 0.0
upper = 0.08
step = 0.01
"""


def dimension(**changes):
    return Dimension(**{"name": "a", "arm": "left", "kind": "joint", "lower": -1, "upper": 1, "step": 0.1, **changes})


def test_the_pair_has_the_papers_fourteen_dimensions_in_order():
    assert PAIR is EMBODIMENTS["piper_x_pair"]
    one_arm = [*(f"joint_{i}.pos" for i in range(1, 7)), "gripper.pos"]
    assert list(PAIR.names) == [f"left_{d}" for d in one_arm] + [f"right_{d}" for d in one_arm]
    assert [d.arm for d in PAIR.dimensions] == ["left"] * 7 + ["right"] * 7
    assert [i for i, d in enumerate(PAIR.dimensions) if d.kind == "gripper"] == GRIPPERS
    assert PAIR.arms == ("left", "right")


@pytest.mark.parametrize(
    ("arms", "wanted"),
    [
        (("left",), [True] * 7 + [False] * 7),
        (("right",), [False] * 7 + [True] * 7),
        (("left", "right"), [True] * 14),
        (("right", "left"), [True] * 14),
        ((), [False] * 14),
    ],
)
def test_active_mask_covers_the_named_arms_only(arms, wanted):
    mask = PAIR.active(arms)
    assert mask.dtype == bool
    assert mask.tolist() == wanted


def test_an_unknown_arm_is_named_with_the_valid_ones():
    with pytest.raises(HoldfastError, match=r"'rigth' of embodiment 'piper_x_pair'.*Did you mean 'right'.*left, right"):
        PAIR.active(["left", "rigth"])


def test_both_arms_have_the_makers_limits():
    lower, upper = PAIR.state_range()
    degrees = np.array([[-150, 150], [0, 180], [-170, 0], [-89, 89], [-89, 89], [-120, 120]])
    for first in (0, 7):
        np.testing.assert_allclose(lower[first : first + 6], np.radians(degrees[:, 0]))
        np.testing.assert_allclose(upper[first : first + 6], np.radians(degrees[:, 1]))
    assert lower[GRIPPERS].tolist() == [0, 0]
    assert upper[GRIPPERS].tolist() == [0.1, 0.1]


def test_a_relative_action_reaches_as_far_as_a_chunk_carries_it():
    relative = np.ones(14, bool)
    relative[GRIPPERS] = False
    lower, upper = PAIR.state_range()
    low, high = PAIR.action_range(relative, chunk=10)
    steps = np.array([d.step for d in PAIR.dimensions])
    np.testing.assert_allclose(high[relative], 10 * steps[relative])
    np.testing.assert_allclose(low[relative], -10 * steps[relative])
    np.testing.assert_array_equal(low[GRIPPERS], lower[GRIPPERS])
    np.testing.assert_array_equal(high[GRIPPERS], upper[GRIPPERS])


def test_an_absolute_action_has_the_range_of_the_state():
    for action, state in zip(PAIR.action_range(np.zeros(14, bool), 50), PAIR.state_range(), strict=True):
        np.testing.assert_array_equal(action, state)


@pytest.mark.parametrize(
    "changes",
    [
        {"lower": 1.0},
        {"lower": 2.0},
        {"step": 0},
        {"step": -0.1},
        {"lower": math.nan},
        {"upper": math.inf},
        {"lower": -math.inf},
        {"step": math.inf},
        {"step": math.nan},
    ],
)
def test_a_dimension_without_a_finite_range_is_refused(changes):
    with pytest.raises(HoldfastError, match="'a' needs finite lower < upper, step > 0 and fastest >= 0"):
        dimension(**changes)


def test_a_dimension_of_an_unknown_kind_is_refused():
    with pytest.raises(HoldfastError, match=r"Did you mean 'joint'"):
        dimension(kind="joints")


@pytest.mark.parametrize("dimensions", [(), (dimension(), dimension(arm="right"))])
def test_an_embodiment_needs_dimensions_of_different_names(dimensions):
    with pytest.raises(HoldfastError, match="'mine' needs dimensions of different names"):
        Embodiment("mine", dimensions)


def test_an_unknown_embodiment_is_named_with_the_valid_ones():
    with pytest.raises(HoldfastError, match=r"'piper_pair'.*Did you mean 'piper_x_pair'"):
        load("piper_pair")


def test_a_toml_file_describes_an_embodiment(tmp_path):
    path = tmp_path / "robot.toml"
    path.write_text(SMALL)
    robot = load(str(path))
    assert robot.name == "one_joint"
    assert robot.dimensions == (
        Dimension("lift.pos", "left", "joint", -1.5, 2, 0.05),
        Dimension("grip.pos", "right", "gripper", 0.0, 0.08, 0.01),
    )
    assert robot.active(["right"]).tolist() == [False, True]


def test_the_pair_written_as_toml_reads_back_equal(tmp_path):
    path = tmp_path / "piper_x_pair.toml"
    keys = ("name", "arm", "kind", "lower", "upper", "step", "fastest")
    quoted = {k: (lambda v: f'"{v}"') if k in ("name", "arm", "kind") else repr for k in keys}
    tables = ["\n".join(f"{k} = {quoted[k](getattr(d, k))}" for k in keys) for d in PAIR.dimensions]
    path.write_text("".join(f"[[dimension]]\n{t}\n" for t in tables))
    assert load(str(path)) == PAIR  # without a name, the file's is taken


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (SMALL, "name = ", "cannot be read: it is not valid TOML"),
        (SMALL, 'name = "empty"', "dimensions.*Each .*needs name, arm, kind, lower, upper and step"),
        (SMALL, "dimension = 3", "dimensions.*got '3'"),
        (SMALL, "dimension = [3]", r"dimensions\[0\].*got '3'"),
        (SMALL, '[dimension]\nname = "a"', "dimensions"),
        ("step = 0.05\n", "", r"dimensions\[0\].step is missing.*needs name, arm, kind, lower, upper and step"),
        ("step = 0.05", "step = 0.05\nspeed = 1", r"dimensions\[0\].speed is not known"),
        ("lower = -1.5", 'lower = "-1.5"', "lower: input should be a valid number"),
        ("lower = -1.5", "lower = true", "lower: input should be a valid number"),
        ('arm = "left"', "arm = [1]", "arm: input should be a valid string"),
        ("lower = -1.5", "lower = " + "[" * 5000, "nested too deeply"),
        ("lower = -1.5", "lower = 3", "'lift.pos' needs finite lower < upper"),
        ("upper = 2", "upper = inf", "'lift.pos' needs finite lower < upper"),
        ('kind = "joint"', 'kind = "wheel"', "'delta', 'velocity' or 'binary', got 'wheel'"),
        ("grip.pos", "lift.pos", "different names"),
    ],
)
def test_a_bad_toml_file_says_what_is_wrong(tmp_path, old, new, message):
    path = tmp_path / "robot.toml"
    path.write_text(SMALL.replace(old, new, 1))
    with pytest.raises(HoldfastError, match=message):
        load(str(path))


def test_a_file_that_is_no_text_a_folder_or_absent_is_an_error_too(tmp_path):
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    for path in (binary, folder):
        with pytest.raises(HoldfastError, match="cannot be read"):
            load(str(path))
    with pytest.raises(HoldfastError, match=r"absent\.toml does not exist"):
        load(str(tmp_path / "absent.toml"))


def test_a_dimension_may_move_twice_its_usual_step_unless_it_says_otherwise():
    assert dimension().fastest == 0.2
    assert dimension(fastest=0.15).fastest == 0.15
    assert [d.fastest * 30 for d in PAIR.dimensions][:7] == pytest.approx([3.0] * 6 + [0.6])  # rad/s and m/s at 30 Hz

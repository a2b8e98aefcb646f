"""Targets, increments, velocities and switches: each is resampled, held and normalized in its own way."""

import numpy as np
import pytest
from toys import write_numbers

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Mapping, Task
from holdfast.data.doctor.checks import examine
from holdfast.data.doctor.findings import Expected
from holdfast.data.lerobot.source import open_source
from holdfast.data.lesson import Lesson, pair
from holdfast.data.mapping import apply
from holdfast.data.targets import doubtful
from holdfast.embodiments import EMBODIMENTS, load
from holdfast.embodiments.embodiment import Dimension, Embodiment, StateDimension
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Space, calibrated_space, switch
from holdfast.robots.limits import Limits
from holdfast.train.stage_data import check_schema, schema

NAMES = ("x", "dy", "speed", "suction")
ROBOT = Embodiment(
    "mixed",
    (
        Dimension("x", "left", "target", -10, 10, 1),
        Dimension("dy", "right", "delta", -1, 1, 0.1),
        Dimension("speed", "right", "velocity", -1, 1, 0.2),
        Dimension("suction", "right", "binary", 0, 1, 1),
    ),
)
TASK = Task("go", "Go.", ("left",))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    root = tmp_path_factory.mktemp("kinds") / "go"
    write_numbers(root, NAMES, NAMES, deltas=True)  # the names match, and still only `x` is a target
    return open_source(str(root))


def test_only_targets_are_paired_with_a_state(source):
    assert pair(source).places.tolist() == [0, 1, 2, 3]
    assert pair(source, ROBOT).places.tolist() == [0, -1, -1, -1]
    assert pair(source, ROBOT).commands.tolist() == [0, -1, -1, -1]


def test_a_slower_rate_adds_increments_averages_velocities_and_takes_the_last_switch(source):
    seen = apply(source, Mapping(fps=2), ROBOT)  # every fifth of twelve frames: 5, 5 and 2 of them
    raw, spans = source.action, ((0, 5), (5, 10), (10, 12))
    last = [b - 1 for _, b in spans]
    assert np.array_equal(seen.action[:3, [0, 3]], raw[last][:, [0, 3]])
    assert np.allclose(seen.action[:3, 1], [raw[a:b, 1].sum() for a, b in spans])
    assert np.allclose(seen.action[:3, 2], [raw[a:b, 2].mean() for a, b in spans])


def test_what_is_averaged_is_part_of_the_fingerprint(source):
    speeds = Embodiment("speeds", tuple(Dimension(n, "left", "velocity", -1, 1, 0.1) for n in NAMES))
    targets = Embodiment("targets", tuple(Dimension(n, "left", "target", -1, 1, 0.1) for n in NAMES))
    prints = [apply(source, Mapping(fps=2), robot).fingerprint for robot in (ROBOT, speeds, targets)]
    assert len(set(prints)) == 3


@pytest.mark.parametrize(
    ("states", "actions", "deltas", "said"),
    [
        (("x", "y"), ("x", "y"), False, None),
        (("x", "y"), ("x", "push"), False, "of push it is not known .* push has no state of its name"),
        (("x", "y"), ("x", "y"), True, "of x, y it is not known .* x (follows the change of|is far from)"),
        (2, 2, False, "of dimension_0, dimension_1 it is not known .* has no state of its name"),
    ],
    ids=["targets", "an action without a state", "increments by the state's names", "no names"],
)
def test_a_slower_rate_needs_to_know_what_actions_are(tmp_path, states, actions, deltas, said):
    write_numbers(tmp_path / "go", states, actions, deltas=deltas)
    source = open_source(str(tmp_path / "go"))
    assert apply(source, Mapping(fps=10), None).lengths == [12, 12, 12]  # no frame is dropped
    robot = Embodiment("r", tuple(Dimension(name, "arm", "target", -99, 99, 1) for name in source.action_names))
    wanted = apply(source, Mapping(fps=2), robot)
    if said is None:
        found = apply(source, Mapping(fps=2), None)
        assert (found.fingerprint, found.action.tolist()) == (wanted.fingerprint, wanted.action.tolist())
        return
    with pytest.raises(HoldfastError, match=said) as caught:
        apply(source, Mapping(fps=2), None)
    assert 'embodiment = "robot.toml"' in str(caught.value)
    assert 'kind = "delta"' in str(caught.value)
    (finding,) = examine(source.dataset, Expected(mapping=Mapping(fps=2)), fast=True).findings
    assert (finding.kind, finding.severity) == ("mapping", "error")


def test_limits_of_increments_are_those_of_the_runs_step(tmp_path):
    """Increments of up to 0.1, of which the run sums five: doctor, normalization and limits take them alike."""
    write_numbers(tmp_path / "go", ("x",), ("dx",))
    mapping, said = Mapping(fps=2), {}
    for reach in (0.1, 0.5):
        robot = Embodiment("r", (Dimension("dx", "left", "delta", -reach, reach, reach / 2),))
        source = apply(open_source(str(tmp_path / "go")), mapping, robot)
        largest = np.abs(source.action).max()
        assert 0.1 < largest <= 0.5
        found = examine(source.dataset, Expected(TASK, robot, mapping=mapping), fast=True).findings
        said[reach] = [f.advice for f in found if f.kind == "action-kind"]
        space = calibrated_space(robot, np.zeros(1, bool), 4, pair(source, robot).commands)
        limits, command = Limits(robot), Limits(robot).start(np.zeros(1))
        for _ in range(10):  # a robot speeds up slowly
            command = limits.step(command, np.zeros(1), np.array([largest]))
        assert (space.action.q99[0] >= largest) == (command.pose[0] == pytest.approx(largest)) == (not said[reach])
    assert "limits of one step of the run, which here sums 5 increments" in said[0.1][0]


@pytest.mark.parametrize("size", [2, 3])
def test_a_state_without_names_has_none_of_increments(tmp_path, size):
    hand = Embodiment("hand", tuple(Dimension(n, "arm", "delta", -1, 1, 0.1) for n in ("dx", "dy")))
    write_numbers(tmp_path / "go", size, ("dx", "dy"))
    source = open_source(str(tmp_path / "go"))
    for mapping in (None, Mapping(dimensions=("dy", "dx"))):
        seen = apply(source, mapping, hand)
        assert seen.state_names == tuple(f"state_{i}" for i in range(size))
        assert np.array_equal(seen.state, source.state)
    stage = [Lesson(TASK, apply(source, None, hand), np.ones(2, bool), False, hand)]
    check_schema(schema(source), stage)  # as earlier versions stored it
    check_schema(schema(stage[0].source), stage)
    other = schema(source) | {"state_names": ["x", "y", "z"][:size]}
    with pytest.raises(HoldfastError, match="differs from the run's first one in state_names"):
        check_schema(other, stage)


@pytest.mark.parametrize("robot", [None, "joints", "mixed"])
def test_a_state_without_names_may_be_that_of_targets(tmp_path, robot):
    kinds = {"joints": {"a": "joint", "b": "joint"}, "mixed": {"a": "joint", "b": "delta"}}
    write_numbers(tmp_path / "go", 2, ("a", "b"))
    source = open_source(str(tmp_path / "go"))
    if robot:
        robot = Embodiment("r", tuple(Dimension(name, "arm", kind, -1, 1, 1) for name, kind in kinds[robot].items()))
    assert apply(source, None, robot).state_names == ("a", "b")


def test_an_idle_arm_does_not_move_and_keeps_its_switch(source):
    lesson = Lesson(TASK, source, ROBOT.active(["left"]), True, ROBOT)
    actions, _ = lesson.actions(np.array([5, 20]), (0, 1, 2))
    assert not actions[..., [1, 2]].any()
    assert np.array_equal(actions[..., 3], source.action[[5, 20], 3][:, None].repeat(3, axis=1))
    other = Lesson(TASK, source, ROBOT.active(["right"]), True, ROBOT)
    assert np.array_equal(other.actions(np.array([5]), (0, 1))[0][0, :, 0], source.state[[5, 5], 0])


def test_a_server_holds_what_is_known_and_leaves_the_switch_to_the_policy():
    places = ROBOT.measured_by(NAMES, NAMES)
    pose = ROBOT.pose(np.arange(1, 5, dtype=np.float32), places)
    assert np.array_equal(pose, [1, np.nan, np.nan, np.nan], equal_nan=True)
    held = ROBOT.hold(np.full((2, 4), 9, np.float32), pose, ["left"])
    assert held.tolist() == [[9, 0, 0, 9]] * 2
    assert ROBOT.hold(np.full((2, 4), 9, np.float32), pose, ["right"]).tolist() == [[1, 9, 9, 9]] * 2


def test_an_increment_that_could_not_stay_is_refused():
    with pytest.raises(HoldfastError, match=r"'dx' of kind 'delta' needs lower <= 0 <= upper"):
        Dimension("dx", "left", "delta", 0.1, 1, 0.1)


FILE = """
[[dimension]]
name = "x"
arm = "hand"
kind = "target"
lower = 0
upper = 1
step = 0.1
[[dimension]]
name = "on"
arm = "hand"
kind = "binary"
lower = 0
upper = 1
step = 1
[[state]]
name = "force"
lower = -5
upper = 5
[[state]]
name = "x"
lower = -0.1
upper = 1.1
"""


def test_a_file_may_describe_the_state_on_its_own(tmp_path):
    file = tmp_path / "hand.toml"
    file.write_text(FILE)
    hand = load(str(file))
    assert hand.states == (StateDimension("force", -5, 5), StateDimension("x", -0.1, 1.1))
    assert hand.measured_by(("a", "b"), ("c", "d")).tolist() == [1, -1]  # by the robot's names
    space = calibrated_space(hand, np.zeros(2, bool), 4, np.array([-1, 0]))
    assert (space.state.q01, space.state.q99) == ((-5, -0.1), (5, 1.1))
    assert (space.action.q01, space.action.q99) == ((0, 0), (1, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[state]]", "[[states]]", r"unknown key 'states'.*Did you mean 'state'"),
        ("upper = 5", "upper = -5", "State 'force' needs finite lower < upper"),
        ('name = "force"', 'name = "x"', "needs dimensions of different names"),
        ('name = "force"\n', "", r"states\[0\].name is missing.*\[\[state\]\] needs name, lower and upper"),
    ],
)
def test_a_bad_description_of_the_state_is_refused(tmp_path, old, new, message):
    (tmp_path / "hand.toml").write_text(FILE.replace(old, new))
    with pytest.raises(HoldfastError, match=f"(?i){message}"):
        load(str(tmp_path / "hand.toml"))


def test_a_switch_is_normalized_by_its_two_values():
    measured = Stats.from_range(np.array([-0.5, 1.0]), np.array([0.5, 1.0]))  # never switched off
    space = Space(measured, measured)
    declared = Stats.from_range(np.array([-9.0, 0.0]), np.array([9.0, 1.0]))
    found = switch(space, Space(declared, declared), np.array([False, True]))
    assert (found.action.q01, found.action.q99) == ((-0.5, 0.0), (0.5, 1.0))
    assert found.state == measured


def test_a_robots_limits_follow_the_kind():
    limits = Limits(ROBOT)
    first = limits.start(np.array([2.0, np.nan, np.nan, np.nan]))
    assert first.pose.tolist() == [2, 0, 0, 0]
    moved = limits.step(first, np.array([2.0, np.nan, np.nan, 0.3]), np.array([9.0, 9.0, -9.0, 0.7]))
    assert moved.pose[3] == 1  # a switch jumps
    assert 0 < moved.pose[1] <= 0.2 + 1e-12  # at most the largest increment
    assert -0.4 - 1e-12 <= moved.pose[2] < 0
    after = moved
    for _ in range(5):
        after = limits.step(after, np.array([2.0, np.nan, np.nan, 0.3]), np.array([9.0, 9.0, -9.0, 0.7]))
    assert after.pose[1:3] == pytest.approx([0.2, -0.4])  # each command on its own, never added up
    assert limits.hold(after, "waited").pose.tolist() == [after.pose[0], 0, 0, 1]
    assert limits.step(after, np.array([np.nan] * 4), np.zeros(4)).reasons == {"not finite": NAMES}


def walk(tmp_path, act, names=("x", "y")):
    """A dataset whose state, of the action's names, moves as `act` says: (state, change) -> action."""
    write_numbers(tmp_path / "walk", names, names)
    made = open_source(str(tmp_path / "walk"))
    state = made.state - 5  # around 0, where an increment is not far from the state
    change = np.diff(state, axis=0, append=state[-1:])
    change[made.ends - 1] = 0
    return made.with_numbers(state, act(state, change).astype(np.float32))


@pytest.mark.parametrize(
    ("act", "doubts"),
    [
        (lambda state, change: state + change, {}),
        (lambda state, change: state + 1.5 * change, {}),  # a target that the arm does not quite reach
        (lambda state, change: change, {0: "delta", 1: "delta"}),
        (lambda state, change: 100 * change, {0: "delta", 1: "delta"}),
        (lambda state, change: np.degrees(state + change), {0: "far", 1: "far"}),
        (
            lambda state, change: np.where(np.arange(len(state)) % 7 < 3, 9, -9)[:, None] + 0 * state,
            {0: "binary", 1: "binary"},
        ),
    ],
    ids=["targets", "far targets", "increments", "scaled increments", "degrees", "switches"],
)
def test_what_actions_look_like(tmp_path, act, doubts):
    source = walk(tmp_path, act)
    assert doubtful(source, pair(source)) == doubts


def shaken(state, noise):
    return (state + noise * np.random.default_rng(5).normal(size=state.shape)).astype(np.float32)


TIME = np.tile(np.arange(12), 3)[:, None] * np.ones(2)  # the frames of three episodes
SWUNG = np.sin(TIME / 3)
PUSHED = 0.05 * (np.isin(TIME, (2, 3)) * 1.0 - np.isin(TIME, (6, 7)))  # there and back
MOVED = 0.04 * np.isin(TIME, range(4, 9)) + 0.02 * np.isin(TIME, (3, 9))  # where that leads, late


@pytest.mark.parametrize(
    ("state", "action", "passes"),
    [
        (shaken(SWUNG, 0.01), np.sin(TIME / 3 + 0.5), True),
        (shaken(SWUNG * [1, 0], 0.01), SWUNG * [1, 0] + TIME * [0, 1e-16], True),
        (shaken(SWUNG * [1, 0] + [0, 30], 0.01), shaken(SWUNG * [1, 0] + [0, 30], 1e-3), True),
        (np.maximum(SWUNG, -0.6), SWUNG, True),
        (shaken(MOVED, 0.04), shaken(PUSHED, 1e-4), False),
        (shaken(5 + MOVED, 0.04), shaken(PUSHED, 1e-4), False),
        (shaken(TIME / 4, 0.1), shaken(0.1 + 0 * TIME, 0.03), False),
    ],
    ids=["late targets", "rounding", "an arm at rest", "a full hand", "increments", "off centre", "steady increments"],
)
def test_frames_are_dropped_of_targets_that_one_can_see(tmp_path, state, action, passes):
    write_numbers(tmp_path / "go", ("x", "y"), ("x", "y"))
    source = open_source(str(tmp_path / "go")).with_numbers(state.astype(np.float32), action.astype(np.float32))
    if passes:
        assert apply(source, Mapping(fps=5), None).lengths == [6, 6, 6]
        return
    with pytest.raises(HoldfastError, match="of x, y it is not known"):
        apply(source, Mapping(fps=5), None)


def test_the_doctor_says_what_an_action_looks_like_and_what_to_write(tmp_path):
    write_numbers(tmp_path / "go", ("x", "y"), ("x", "y"), deltas=True)
    (finding,) = [f for f in examine(str(tmp_path / "go"), fast=True).findings if f.kind == "action-state"]
    assert 'kind = "delta"' in finding.advice
    assert "--policy.use_relative_actions" in finding.advice


def test_the_doctor_compares_actions_with_their_kind(tmp_path):
    write_numbers(tmp_path / "go", ("a", "b"), ("dx", "on"), deltas=True)
    robot = Embodiment(
        "r", (Dimension("dx", "left", "delta", -0.01, 0.01, 0.01), Dimension("on", "left", "binary", 0, 1, 1))
    )
    found = examine(str(tmp_path / "go"), Expected(TASK, robot), fast=True).findings
    assert [(f.kind, f.where) for f in found if f.kind == "action-kind"] == [
        ("action-kind", "dx"),
        ("action-kind", "on"),
    ]
    assert "beyond -0.01 to 0.01" in found[0].detail + found[1].detail
    assert not any("cable" in f.advice for f in found)


def test_cables_are_for_motors_only(tmp_path):
    write_numbers(tmp_path / "go", ("x",), ("x",))
    for kind, spoken in (("joint", True), ("target", False)):
        robot = Embodiment("r", (Dimension("x", "left", kind, -100, 100, 50),))  # it hardly moves
        found = examine(str(tmp_path / "go"), Expected(TASK, robot), fast=True).findings
        still = [f for f in found if f.kind == "frozen-joint" and "never moves" in f.detail]
        assert [("cable" in f.advice) for f in still] == [spoken] * len(still) != []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("joint", {"never moves in the whole dataset", "No joint of the task's arms moves"}),
        ("delta", {"has the same value in the whole dataset", "No value of the task's arms changes"}),
        ("binary", {"has the same value in the whole dataset", "No value of the task's arms changes"}),
    ],
)
def test_the_doctor_speaks_of_an_action_by_its_kind(tmp_path, kind, words):
    write_numbers(tmp_path / "go", ("x",), ("a",))
    robot = Embodiment("r", (Dimension("a", "left", kind, -100, 100, 50),))
    found = examine(str(tmp_path / "go"), Expected(TASK, robot), fast=True).findings
    still = " ".join(f.detail for f in found if f.kind == "frozen-joint" and f.where.startswith(("action", "episodes")))
    for word in ("never moves", "has the same value", "No joint of the", "No value of the"):
        assert (word in still) == any(word in text for text in words)


def test_shipped_hands_are_commanded_by_increments():
    assert [d.kind for d in EMBODIMENTS["metaworld"].dimensions] == ["delta"] * 3 + ["velocity"]
    assert [d.kind for d in EMBODIMENTS["libero"].dimensions] == ["delta"] * 6 + ["binary"]

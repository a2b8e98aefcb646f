"""Whatever a policy says, what reaches the arms is a permitted command."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.embodiments import piper_x_ik as ik
from holdfast.robots.limits import LEAD, RISE, Limits, Workspace
from holdfast.twin.world import _home

PAIR = EMBODIMENTS["piper_x_pair"]
LOWER, UPPER = PAIR.state_range()
FASTEST = np.array([d.fastest for d in PAIR.dimensions])
JOINT = np.array([d.kind == "joint" for d in PAIR.dimensions])
HOME = _home()
LIMITS = Limits(PAIR, Workspace())
ANYTHING = st.floats(width=64) | st.sampled_from([np.nan, np.inf, -np.inf, 1e6, -1e6, 0.0]) | st.floats(-4, 4)


def poses(values):
    return arrays.arrays(np.float64, 14, elements=values)


def starts():
    return poses(st.floats(0, 1)).map(lambda share: LOWER + share * (UPPER - LOWER))


def outside(pose):
    return np.array([np.abs(Workspace().shift("left", pose[:7])), np.abs(Workspace().shift("right", pose[7:]))])


def follow(measured, command):
    """An arm that lags behind what it is told."""
    return measured + 0.6 * (command - measured)


@given(starts(), st.lists(st.tuples(poses(ANYTHING), st.just(1.0) | st.floats(0, 1)), min_size=1, max_size=30))
def test_whatever_comes_in_every_command_is_within_joint_limits_speed_and_lead(measured, wanted):
    command = LIMITS.start(measured)
    for action, part in wanted:
        following = LIMITS.step(command, measured, action, part)
        assert np.isfinite(following.pose).all()
        assert (following.pose >= LOWER).all()
        assert (following.pose <= UPPER).all()
        assert (np.abs(following.pose - command.pose) <= part * FASTEST + 1e-12).all()
        ahead = np.abs(following.pose - measured)[JOINT]
        allowed = np.maximum(LEAD * FASTEST, np.abs(command.pose - measured))[JOINT]
        assert (ahead <= allowed + 1e-12).all()
        if (following.pose != action).any():
            assert following.reasons, "every change has a reason"
        measured, command = follow(measured, following.pose), following


@given(starts(), poses(st.sampled_from([-1.0, 1.0])))
def test_an_oscillating_policy_moves_the_arms_by_a_third_of_their_speed_at_most(measured, direction):
    limits = Limits(PAIR)
    command = limits.start(measured)
    for sign in [1, -1] * 10:
        command = limits.step(command, measured, direction * sign * 1e6)
        assert (np.abs(command.move)[JOINT] <= (FASTEST / RISE)[JOINT] + 1e-12).all()


@given(st.lists(poses(st.floats(-4, 4)), min_size=5, max_size=40))
def test_hands_that_begin_inside_the_workspace_stay_inside(wanted):
    command = LIMITS.start(HOME)
    for action in wanted:
        command = LIMITS.step(command, command.pose, action)
        assert outside(command.pose).max() <= 1e-6


@given(starts(), st.lists(poses(st.floats(-4, 4)), min_size=1, max_size=10))
def test_hands_that_begin_outside_never_go_further_out(measured, wanted):
    command = LIMITS.start(measured)
    for action in wanted:
        following = LIMITS.step(command, command.pose, action)
        assert (outside(following.pose) <= outside(command.pose) + 1e-6).all()
        command = following


def test_a_sane_action_passes_unchanged_and_without_a_reason():
    command = LIMITS.start(HOME)
    wanted = HOME + np.where(JOINT, 0.02, 0.001)
    passed = LIMITS.step(command, HOME, wanted)
    np.testing.assert_array_equal(passed.pose, wanted)
    assert passed.reasons == {}


def test_a_wanted_pose_is_reached_at_full_speed_after_a_short_rise():
    command, wanted = LIMITS.start(HOME), HOME.copy()
    wanted[0] += 0.55
    moves = []
    while not np.allclose(command.pose, wanted) and len(moves) < 30:
        command = LIMITS.step(command, command.pose, wanted)
        moves.append(command.move[0])
    np.testing.assert_allclose(moves[:4], [0.1 / 3, 0.2 / 3, 0.1, 0.1])
    assert len(moves) == 7


def test_one_number_that_is_not_finite_stops_both_arms_and_says_why():
    wanted = HOME + 0.01
    wanted[3] = np.nan
    held = LIMITS.step(LIMITS.start(HOME), HOME, wanted)
    np.testing.assert_array_equal(held.pose, HOME)
    assert held.reasons == {"not finite": PAIR.names}


def test_a_sensor_that_fails_stops_the_arms():
    held = LIMITS.step(LIMITS.start(HOME), np.full(14, np.nan), HOME + 0.01)
    np.testing.assert_array_equal(held.pose, HOME)


def test_reasons_name_the_dimensions_they_changed():
    wanted = HOME.copy()
    wanted[9] = 9.0
    command = LIMITS.step(LIMITS.start(HOME), HOME, wanted)
    assert command.reasons == dict.fromkeys(("joint limit", "speed", "acceleration"), (PAIR.names[9],))


def test_a_blocked_joint_is_not_told_to_be_far_away_but_fingers_may_close_on_a_thing():
    command, wanted = LIMITS.start(HOME), HOME.copy()
    wanted[0], wanted[6] = HOME[0] + 1.0, 0.0
    for _ in range(30):
        command = LIMITS.step(command, HOME, wanted)  # nothing moves
    assert command.pose[0] == pytest.approx(HOME[0] + 0.3)
    assert command.pose[6] == 0.0


def test_a_hand_pressed_at_the_table_slides_along_it():
    position, rotation = ik.forward("left", HOME[:6])
    lowest, wanted = position.copy(), HOME.copy()
    lowest[2], lowest[0] = -0.02, position[0] + 0.1
    wanted[:6] = ik.solve("left", lowest, rotation, HOME[:6])
    command = LIMITS.start(HOME)
    for _ in range(60):
        command = LIMITS.step(command, command.pose, wanted)
    reached, _ = ik.forward("left", command.pose[:6])
    assert reached[0] == pytest.approx(lowest[0], abs=0.01)
    assert -0.01 <= reached[2] - 0.0145 <= 0.0
    assert "workspace" in command.reasons


def test_a_robot_that_measures_the_impossible_does_not_start():
    for value in (3.0, np.nan):
        measured = HOME.copy()
        measured[4] = value
        with pytest.raises(HoldfastError, match=r"left_joint_5\.pos measures"):
            LIMITS.start(measured)


def test_forward_kinematics_are_those_of_the_simulated_arm():
    from holdfast.twin import cell
    from holdfast.twin.world import World

    world = World(cell.build())
    rng = np.random.default_rng(0)
    for _ in range(5):
        pose = LOWER + rng.uniform(size=14) * (UPPER - LOWER)
        world.reset(pose)
        world.settle(0)
        for i, side in enumerate(("left", "right")):
            position, rotation = world.tcp(side)
            found = ik.forward(side, pose[7 * i : 7 * i + 6])
            np.testing.assert_allclose(found[0], position, atol=1e-6)
            np.testing.assert_allclose(found[1], rotation, atol=1e-6)


def test_a_workspace_is_for_the_pair_it_was_made_for():
    from holdfast.embodiments.embodiment import Dimension, Embodiment

    other = Embodiment("one", (Dimension("a.pos", "left", "joint", -1, 1, 0.1),))
    assert Limits(other).start(np.zeros(1)).pose == [0]
    with pytest.raises(HoldfastError, match="known for PiPER-X pairs"):
        Limits(other, Workspace())
    with pytest.raises(HoldfastError, match="low < high"):
        Workspace((0, 0, 0), (1, 1, 0))

"""An attempt's loop: steps go on at their pace, answers are asked for early, arms stop when answers fail."""

import numpy as np
import pytest
from fakes import BOTH, HOME, ONE, PAIR, FakeAnswerer, FakeClock, FakeKeys, FakeRobot, FakeThread

from holdfast.core.errors import HoldfastError
from holdfast.policies.action_queue import ActionQueue, check_horizon
from holdfast.robots.async_client import AsyncClient
from holdfast.robots.client import UnansweredError
from holdfast.robots.keys import NoKeys
from holdfast.robots.limits import Limits, Workspace
from holdfast.robots.loop import WAITED, Conduct, ControlLoop, bring
from holdfast.robots.robot import FaultError

LIMITS = Limits(PAIR, Workspace())


def attempt(robot, answerer, deadline=5.0, keys=None, **changes):
    """An attempt of a few seconds on a fake clock; returns its outcome."""
    conduct = Conduct(**{"task": ONE, "horizon": 8, "ahead": 4, "seconds": 2.0, **changes})
    clock = robot.clock = answerer.clock = FakeClock()
    client = AsyncClient(answerer, deadline, clock, FakeThread(clock))
    client.connect()
    return ControlLoop(robot, client, LIMITS, conduct, keys or NoKeys(), lambda seen, command: None, clock).run()


def numbers(robot):
    """Which step's action was carried out at every step, as the fake answerer numbers them."""
    return np.round((robot.poses[:, 0] - HOME[0]) * 1000 - 1).astype(int).tolist()


def test_every_step_carries_out_the_action_that_was_meant_for_it_whatever_the_chunks():
    for horizon, ahead in ((8, 4), (12, 4), (16, 0), (1, 0), (3, 2), (1, 15)):
        robot = FakeRobot(steps=50)
        outcome = attempt(robot, FakeAnswerer(), horizon=horizon, ahead=ahead, realtime=False)
        assert numbers(robot) == list(range(50)), (horizon, ahead)
        assert outcome.ended == "over"
        assert outcome.limited == {}


def test_answers_take_over_after_the_horizon_and_are_asked_for_ahead():
    answerer = FakeAnswerer()
    attempt(FakeRobot(steps=40), answerer, horizon=8, ahead=4, realtime=False)
    asked = [question.images["head"][0, 0, 0] - 1 for question in answerer.questions]
    assert asked == [0, 4, 12, 20, 28, 36]
    assert [question.number for question in answerer.questions] == list(range(6))


def test_asking_early_hides_a_latency_of_100_ms():
    robot = FakeRobot(steps=45)
    outcome = attempt(robot, FakeAnswerer(delay=0.1, steps=18), horizon=8, ahead=6)
    assert WAITED not in outcome.limited, "no step waited for an answer"
    assert numbers(robot) == list(range(45))
    assert np.diff([when for when, _ in robot.sent]) == pytest.approx(1 / 30)
    assert outcome.slow == 0


def test_without_asking_early_the_same_latency_makes_steps_wait():
    robot = FakeRobot(steps=45)
    outcome = attempt(robot, FakeAnswerer(delay=0.1), horizon=16, ahead=0)
    assert outcome.limited[WAITED] == 6, "three steps of 33 ms for each of two answers"


def test_a_late_answer_is_spliced_by_its_step_number():
    delays = iter([0.0, 0.29, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    robot, answerer = FakeRobot(steps=45), FakeAnswerer(delay=lambda: next(delays), steps=30)
    outcome = attempt(robot, answerer, horizon=8, ahead=4)
    asked = [question.images["head"][0, 0, 0] - 1 for question in answerer.questions]
    assert asked[:2] == [0, 4]
    assert asked[2] == 17, "the second answer took over at step 13 instead of 8, for eight steps"
    assert numbers(robot) == list(range(45)), "and yet every action was carried out at its step"
    assert WAITED not in outcome.limited


def test_a_policy_slower_than_its_chunks_moves_the_robot_with_pauses_and_skips_nothing():
    robot, answerer = FakeRobot(steps=80), FakeAnswerer(delay=0.4, steps=8)
    outcome = attempt(robot, answerer, horizon=4, ahead=4, seconds=9)
    assert outcome.limited[WAITED] >= 10
    moved = np.flatnonzero(np.diff(robot.poses[:, 0]))
    assert len(moved) >= 15, "it gets on"
    assert np.abs(np.diff(robot.poses[:, 0])).max() < 0.03


def test_arms_are_stopped_within_100_ms_of_the_deadline_when_an_answer_is_late():
    delays = iter([0.0, 1.5])
    robot = FakeRobot()
    outcome = attempt(robot, FakeAnswerer(delay=lambda: next(delays)), deadline=0.3, seconds=60)
    assert outcome.ended == "unanswered"
    assert "no answer within the deadline of 0.3 s" in outcome.why
    assert 0 < outcome.stopped_after <= 0.1
    assert robot.stops[0] == pytest.approx(4 / 30 + 0.3 + outcome.stopped_after), "the late question was of step 4"
    assert all(when < robot.stops[0] for when, _ in robot.sent), "nothing is sent after the stop"


def test_arms_are_stopped_in_the_step_in_which_the_server_is_found_gone():
    def gone(question):
        if question.number == 2:
            raise UnansweredError("The server is gone.")
        return np.repeat(question.state[None], 16, axis=0)

    robot = FakeRobot()
    outcome = attempt(robot, FakeAnswerer(actions=gone), seconds=60)
    assert (outcome.ended, outcome.why) == ("unanswered", "The server is gone.")
    assert outcome.stopped_after == 0
    assert outcome.steps == 12, "the third question was of step 12"
    assert robot.stops


def test_a_slow_step_is_counted_and_delays_the_ones_after_it():
    robot = FakeRobot(steps=10)
    look, slow = robot.observe, {4: 0.1}

    def observe():
        robot.clock.sleep(slow.get(robot.told, 0.0))
        return look()

    robot.observe = observe
    outcome = attempt(robot, FakeAnswerer())
    assert outcome.slow == 1
    gaps = np.diff([when for when, _ in robot.sent])
    assert gaps[3] == pytest.approx(1 / 30 + 0.1)
    assert gaps[5:] == pytest.approx(1 / 30), "those after it do not catch up"


def test_connecting_is_tried_again_with_longer_pauses_until_patience_ends():
    clock, answerer, tried = FakeClock(), FakeAnswerer(), []

    def connect():
        tried.append(clock.now())
        raise UnansweredError("nobody")

    answerer.connect = connect
    with pytest.raises(UnansweredError, match="nobody"):
        AsyncClient(answerer, 1.0, clock, FakeThread(clock)).connect(patience=6.0)
    assert tried == pytest.approx([0.0, 0.1, 0.3, 0.7, 1.5, 3.1, 5.1])


def test_steps_go_on_and_hold_while_an_answer_is_late_but_within_its_deadline():
    delays = iter([0.0, 0.9, 0.0, 0.0, 0.0, 0.0])
    robot = FakeRobot(steps=60)
    outcome = attempt(robot, FakeAnswerer(delay=lambda: next(delays)), deadline=2.0, seconds=60)
    assert outcome.ended == "over"
    assert outcome.limited[WAITED] >= 5
    assert np.diff([when for when, _ in robot.sent]) == pytest.approx(1 / 30), "at the robot's rate all the while"
    assert (np.diff(robot.poses[16:28], axis=0) == 0).all(), "the last command is held"


def test_the_idle_arm_is_held_where_it_was_measured_at_the_start_and_does_not_creep():
    def wild(question):
        return np.tile(question.state, (16, 1)) + np.linspace(0, 0.2, 16)[:, None]

    robot = FakeRobot(steps=90, sag=0.004)
    attempt(robot, FakeAnswerer(actions=wild), seconds=9, realtime=False)
    assert (robot.poses[:, 7:] == HOME[7:]).all()
    assert (robot.poses[-1, :6] != HOME[:6]).all()
    robot = FakeRobot(steps=10)
    attempt(robot, FakeAnswerer(actions=wild), task=BOTH, realtime=False)
    assert (robot.poses[-1, 7:13] != HOME[7:13]).all(), "a task of both arms moves both"


@pytest.mark.parametrize(
    "garbage",
    [
        lambda q: np.full((16, 14), np.nan),
        lambda q: np.full((16, 14), 1e6),
        lambda q: np.tile([[1e6], [-1e6]], (8, 14)),
        lambda q: np.random.default_rng(q.number).choice([np.nan, np.inf, 1e6, -1e6, 0.0], (16, 14)),
        lambda q: np.random.default_rng(q.number).normal(0, 2, (16, 14)),
    ],
    ids=["nan", "far", "oscillating", "mixed", "noise"],
)
def test_a_policy_of_garbage_never_sends_a_command_beyond_the_limits(garbage):
    robot = FakeRobot(steps=100)
    outcome = attempt(robot, FakeAnswerer(actions=garbage), task=BOTH, seconds=9, realtime=False)
    lower, upper = PAIR.state_range()
    fastest = np.array([d.fastest for d in PAIR.dimensions])
    poses = np.vstack([HOME, robot.poses])
    assert len(robot.poses) == 100
    assert ((poses >= lower) & (poses <= upper)).all()
    assert (np.abs(np.diff(poses, axis=0)) <= fastest + 1e-12).all()
    assert outcome.limited


def test_keys_end_an_attempt_and_the_arms_stop():
    for key, ended in ((" ", "operator"), ("q", "quit"), ("\x1b", "quit")):
        robot = FakeRobot()
        outcome = attempt(robot, FakeAnswerer(), keys=FakeKeys({5: key}), realtime=False)
        assert outcome.ended == ended
        assert outcome.steps == 4
        assert robot.stops


def test_the_time_given_ends_an_attempt():
    outcome = attempt(FakeRobot(), FakeAnswerer(), seconds=1.0, realtime=False)
    assert (outcome.ended, outcome.steps) == ("time", 30)


def test_a_robots_fault_stops_the_arms_and_ends_the_attempt():
    robot = FakeRobot()
    look = robot.observe

    def observe():
        if robot.looks > 10:
            raise FaultError("An arm reports a collision.")
        return look()

    robot.observe = observe
    outcome = attempt(robot, FakeAnswerer(), realtime=False)
    assert (outcome.ended, outcome.why) == ("fault", "An arm reports a collision.")
    assert robot.stops


def test_the_arms_stop_also_when_the_program_fails():
    robot = FakeRobot()
    with pytest.raises(ZeroDivisionError):
        attempt(robot, FakeAnswerer(actions=lambda question: 1 / 0))
    assert robot.stops


def test_a_robot_is_brought_to_a_pose_slowly_and_any_key_stops_it():
    robot, goal = FakeRobot(rate=1000), HOME + np.where(np.arange(14) % 7 == 6, -0.02, 0.2)
    assert bring(robot, Limits(PAIR), goal, NoKeys(), clock=FakeClock())
    np.testing.assert_allclose(robot.poses[-1], goal, atol=1e-6)
    assert np.abs(np.diff(robot.poses, axis=0)).max() <= 0.025 + 1e-12
    assert not bring(FakeRobot(rate=1000), LIMITS, goal, FakeKeys({2: "x"}), clock=FakeClock())


def test_plans_without_a_gap_are_checked():
    assert check_horizon(None, 4, 16) == 12
    assert check_horizon(8, 4, 16) == 8
    for horizon, ahead in ((13, 4), (0, 4), (None, 16), (None, -1)):
        with pytest.raises(HoldfastError, match="Answers have 16 steps"):
            check_horizon(horizon, ahead, 16)


def test_plans_splice_late_answers_and_stand_still_without_counting():
    plan, chunk = ActionQueue(horizon=3, ahead=1), np.arange(5)[:, None]
    assert plan.due
    assert plan.needy
    plan.put(0, chunk)
    assert [plan.take()[0] for _ in range(2)] == [0, 1]
    assert plan.due, "one step ahead of the third"
    assert not plan.needy
    assert [plan.take()[0] for _ in range(3)] == [2, 3, 4], "the horizon is over, the actions are not"
    assert plan.needy
    assert plan.take() is None
    assert plan.take() is None
    plan.put(2, 10 + chunk)
    assert plan.take()[0] == 13, "asked at step 2, carried out at step 5"
    assert plan.step == 6

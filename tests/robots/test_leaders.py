"""Two simulated leaders on virtual CAN buses, and what the followers make of them."""

import math
import time

import numpy as np
import pytest
from fake_piper import TARGETS, FakeLeader, FakePiper, PatientClock, passed, until
from fakes import FakeClock

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.config_leaders import PiperLeadersConfig
from holdfast.robots.config_piper import PiperPairConfig
from holdfast.robots.leaders import LeaderArm, PiperLeaders
from holdfast.robots.limits import Workspace
from holdfast.robots.piper import PiperPair
from holdfast.robots.robot import FaultError

PAIR = EMBODIMENTS["piper_x_pair"]
LEFT = [d for d in PAIR.dimensions if d.arm == "left"]
FASTEST = np.array([d.fastest for d in PAIR.dimensions])
DEGREE = math.pi / 180


@pytest.fixture
def lead_ports(ports):
    return tuple(f"{port}-lead" for port in ports)


@pytest.fixture
def fakes(lead_ports):
    """Two arms in leader mode."""
    fakes = [FakeLeader(port) for port in lead_ports]
    yield fakes
    for fake in fakes:
        fake.close()


@pytest.fixture
def leaders(lead_ports, fakes, tmp_path, clock):
    """The connected teleoperator."""
    left, right = lead_ports
    config = PiperLeadersConfig(left_port=left, right_port=right, bus="virtual", calibration_dir=tmp_path)
    teleoperator = PiperLeaders(config, clock)
    teleoperator.connect()
    yield teleoperator
    teleoperator.disconnect()


def asked(leaders):
    return np.array(list(leaders.get_action().values()))


def test_lerobot_finds_the_leaders_by_their_type_and_they_speak_the_pairs_language(tmp_path):
    from lerobot.teleoperators.config import TeleoperatorConfig
    from lerobot.teleoperators.utils import make_teleoperator_from_config

    config = TeleoperatorConfig.get_choice_class("piper_leaders")(calibration_dir=tmp_path)
    leaders = make_teleoperator_from_config(config)
    assert isinstance(leaders, PiperLeaders)
    pair = PiperPair(PiperPairConfig(calibration_dir=tmp_path))
    assert list(leaders.action_features.items()) == list(pair.action_features.items())
    assert leaders.feedback_features == {}
    assert leaders.is_calibrated
    assert not leaders.is_connected
    for port in (config.left_port, config.right_port):
        assert len(port) <= 15, "the longest name that Linux gives to a network interface"


@pytest.mark.parametrize(("kind", "config"), [(PiperLeaders, PiperLeadersConfig), (PiperPair, PiperPairConfig)])
def test_two_arms_on_one_port_are_refused(kind, config, tmp_path):
    with pytest.raises(HoldfastError, match=r"of its own, got 'can_a' \(left\), 'can_a' \(right\)"):
        kind(config(left_port="can_a", right_port="can_a", calibration_dir=tmp_path))


def test_an_action_is_the_leaders_pose_in_radians_and_metres(leaders, fakes):
    assert tuple(leaders.get_action()) == PAIR.names
    fakes[0].joints, fakes[1].opening = [1234, 90_000, -90_000, 0, 0, -5678], 41_234
    until(lambda: leaders.get_action()["left_joint_6.pos"] == pytest.approx(-5.678 * DEGREE))
    until(lambda: leaders.get_action()["right_gripper.pos"] == pytest.approx(0.041234))
    assert leaders.get_action()["left_joint_1.pos"] == pytest.approx(1.234 * DEGREE)
    assert leaders.get_action()["right_joint_1.pos"] == 0


def test_a_leader_is_only_listened_to_so_it_stays_free_to_move(leaders, fakes):
    leaders.get_action()
    leaders.send_feedback({})
    leaders.disconnect()
    assert not leaders.is_connected
    for fake in fakes:
        passed(fake)
        assert fake.received == []


def test_a_leader_beyond_the_limits_asks_for_the_limit(leaders, fakes):
    lower, upper = PAIR.state_range()
    fakes[0].joints, fakes[0].opening = [180_000] * 6, 200_000
    fakes[1].joints, fakes[1].opening = [-180_000] * 6, -5_000
    wanted = [*upper[:7], *lower[7:]]
    until(lambda: np.array_equal(asked(leaders), wanted))
    assert np.array_equal(asked(leaders), wanted)


def test_a_leader_that_falls_silent_is_a_fault_in_words(leaders, fakes, clock):
    fakes[1].speaks = False
    left, right = (lambda arm=arm: arm._heard(arm._sdk) for arm in leaders._arms)
    until(lambda: left() > right() + 0.1)  # so only the right one is silent for long

    clock.time = right() + 0.19
    assert leaders.get_action()
    clock.time = right() + 0.21
    with pytest.raises(FaultError, match=r"The leader on .*right-lead has said nothing for 0\.2 s\.$"):
        leaders.get_action()


def test_a_leader_that_is_connected_again_never_has_its_pose_of_before(leaders, fakes, clock):
    leaders.disconnect()
    fakes[0].joints = [-20_000, 80_000, -70_000, 60_000, 50_000, 40_000]
    passed(fakes[0])
    clock.time = time.time()
    leaders.connect()
    np.testing.assert_allclose(asked(leaders)[:6] / DEGREE, [-20, 80, -70, 60, 50, 40])


class HastyClock(PatientClock):
    """Time passes whenever somebody waits."""

    def sleep(self, seconds):
        super().sleep(seconds)
        self.time += seconds


@pytest.mark.parametrize("told", [(), TARGETS[:2]], ids=["nothing", "half a pose"])
def test_an_arm_that_does_not_tell_its_whole_pose_is_no_leader(lead_ports, told):
    fake = FakeLeader(lead_ports[0], told=told)
    arm = LeaderArm(lead_ports[0], LEFT, "virtual", HastyClock())
    with pytest.raises(HoldfastError, match=r"left-lead sends no targets\..*leader mode"):
        arm.connect(seconds=0.5)
    assert not arm.connected
    fake.close()


def test_an_arm_in_normal_mode_is_no_leader(lead_ports):
    fake = FakePiper(lead_ports[0])
    with pytest.raises(HoldfastError, match="leader mode"):
        LeaderArm(lead_ports[0], LEFT, "virtual", HastyClock()).connect(seconds=0.5)
    fake.close()


def test_a_follower_on_the_leaders_bus_is_refused_since_no_limits_would_apply(leaders, fakes, lead_ports):
    follower = FakePiper(lead_ports[1])
    until(lambda: leaders._arms[1]._sdk.GetArmJointMsgs().time_stamp)
    with pytest.raises(FaultError, match=r"On .*right-lead an arm obeys the leader directly, without limits"):
        leaders.get_action()
    follower.close()


def test_one_leader_that_is_missing_closes_the_other(lead_ports, tmp_path, clock):
    fake = FakeLeader(lead_ports[0])
    left, right = lead_ports
    config = PiperLeadersConfig(left_port=left, right_port=right, bus="virtual", calibration_dir=tmp_path)
    leaders = PiperLeaders(config, clock)

    def sleep(seconds):
        time.sleep(seconds)
        clock.time += 50 * seconds * leaders._arms[0].connected  # time passes once the left one was found

    clock.sleep = sleep
    with pytest.raises(HoldfastError, match="right-lead sends no targets"):
        leaders.connect()
    assert not any(arm.connected for arm in leaders._arms)
    fake.close()


@pytest.fixture
def paced(ports, arms, tmp_path, clock):
    """The followers, with a clock of their own for the pace of commands, and room to move."""
    room = Workspace((-2.0, -2.0, -2.0), (2.0, 2.0, 2.0))
    left, right = ports
    config = PiperPairConfig(left_port=left, right_port=right, bus="virtual", workspace=room, calibration_dir=tmp_path)
    robot = PiperPair(config, clock, FakeClock())
    robot.connect()
    yield robot
    robot.disconnect()


def commands(pair, leaders, steps, rate=30):
    """What the followers are sent, step by step."""
    sent = []
    for _ in range(steps):
        pair._pace.sleep(1 / rate)
        sent.append(list(pair.send_action(leaders.get_action()).values()))
    return np.array(sent)


def test_a_leader_that_starts_far_away_makes_no_follower_jump(paced, leaders, fakes):
    far = 60 * DEGREE
    fakes[0].joints = [0, 90_000, -90_000, 0, 0, 60_000]
    until(lambda: leaders.get_action()["left_joint_6.pos"] == pytest.approx(far))
    begun = np.array([paced.get_observation()[name] for name in PAIR.names])

    sent = [begun]
    while sent[-1][5] < far - 1e-3:  # the lead over the arm's measured pose makes it wait for the arm
        sent.extend(commands(paced, leaders, 1))
        assert len(sent) < 10_000
    steps = np.abs(np.diff(sent, axis=0))
    assert (steps <= FASTEST + 1e-9).all()
    assert len(sent) > far / FASTEST[5]
    assert (np.array(sent)[:, 7:] == begun[7:]).all(), "the other arm stands still"


def test_a_leader_that_jumps_after_a_reconnect_makes_no_follower_jump(paced, leaders, arms, fakes, clock):
    before = commands(paced, leaders, 5)[-1]
    leaders.disconnect()
    fakes[0].joints, fakes[1].joints = [-60_000, 60_000, -60_000, 0, 0, 0], [60_000, 90_000, -90_000, 40_000, 0, 0]
    clock.time = time.time()
    leaders.connect()
    until(lambda: leaders.get_action()["right_joint_4.pos"] == pytest.approx(40 * DEGREE))
    passed(*arms)
    sent = np.vstack([before, commands(paced, leaders, 20)])
    steps = np.abs(np.diff(sent, axis=0))
    assert (steps <= FASTEST + 1e-9).all()
    assert (steps[0] <= FASTEST / 3 + 1e-9).all(), "and it starts gently"
    assert steps[:, [0, 7]].sum() > 0.1, "but it follows"


@pytest.mark.parametrize("rate", [30, 60, 200])
def test_followers_are_no_faster_when_commands_come_more_often(paced, rate):
    """`lerobot-teleoperate` sends 60 commands a second if not told otherwise."""
    pose = sent = paced.get_observation()
    for _ in range(rate // 2):  # half a second: 15 control steps
        paced._pace.sleep(1 / rate)
        paced._pose = lambda sent=sent: np.array(list(sent.values()))  # an arm that is where it should be
        sent = paced.send_action({**pose, "left_joint_6.pos": 2.0})
    moved = sent["left_joint_6.pos"] - pose["left_joint_6.pos"]
    assert moved <= (15 + 1) * FASTEST[5] + 1e-9, "one step was saved up at the start"
    assert moved >= 13 * FASTEST[5], "and the joint needs two or three to reach its speed"


def test_a_late_command_makes_up_for_an_early_one(paced):
    pose = sent = paced.get_observation()
    angles = []
    for wait in [1, 1, 1, 1.4, 0.6, 1, 1.9, 0.1]:
        paced._pace.sleep(wait / 30)
        paced._pose = lambda sent=sent: np.array(list(sent.values()))
        sent = paced.send_action({**pose, "left_joint_6.pos": 2.0})
        angles.append(sent["left_joint_6.pos"])
    np.testing.assert_allclose(np.diff(angles)[2:], FASTEST[5], err_msg="full speed, though the clock is uneven")

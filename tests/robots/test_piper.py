"""The plugin against two simulated arms on a virtual CAN bus, through the maker's own SDK."""

import math
import struct
import time
from importlib import import_module

import numpy as np
import pytest
from fake_piper import ENABLE, GRIPPER_TARGET, MODE, QUICK_STOP, TARGETS, FakePiper, passed, until
from fakes import ONE, FakeAnswerer

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.arm import PiperArm
from holdfast.robots.async_client import AsyncClient
from holdfast.robots.keys import NoKeys
from holdfast.robots.leaders import PiperLeaders
from holdfast.robots.lerobot_robot import LeRobotRobot, PiperRobot
from holdfast.robots.limits import Limits, Workspace
from holdfast.robots.loop import Conduct, ControlLoop
from holdfast.robots.piper import PiperPair
from holdfast.robots.robot import FaultError

PAIR = EMBODIMENTS["piper_x_pair"]


class Wrapped(LeRobotRobot):
    embodiment = PAIR
    rate = 30


LEFT = [d for d in PAIR.dimensions if d.arm == "left"]
DEGREE = math.pi / 180


def test_names_are_the_embodiments_and_lerobot_finds_the_robot_by_its_type(tmp_path):
    from lerobot.robots.config import RobotConfig
    from lerobot.robots.utils import make_robot_from_config

    config = RobotConfig.get_choice_class("piper_pair")(calibration_dir=tmp_path)
    robot = make_robot_from_config(config)
    assert isinstance(robot, PiperPair)
    assert tuple(robot.action_features) == PAIR.names
    assert set(robot.observation_features) == set(PAIR.names)
    assert not robot.is_connected


def test_the_plugin_offers_robot_and_leaders():
    plugin = import_module("lerobot_robot_piper_pair")
    assert plugin.PiperPair is PiperPair
    assert plugin.PiperLeaders is PiperLeaders


def test_connecting_switches_the_arms_on_where_they_stand(pair, arms):
    assert pair.is_connected
    for fake in arms:
        assert fake.enabled
        until(lambda fake=fake: fake.gripper_on)
        assert fake.opening_target == 40_000, "the gripper stays as it was found"
        assert not fake.sent(TARGETS[0]), "nothing moves before the first command"
    seen = pair.get_observation()
    np.testing.assert_allclose([seen[name] for name in PAIR.names[:3]], [0, math.pi / 2, -math.pi / 2])
    assert seen["right_gripper.pos"] == 0.04


def test_units_are_exact_both_ways_and_arms_follow(pair, arms):
    pose = pair.get_observation()
    wanted = {**pose, "left_joint_1.pos": pose["left_joint_1.pos"] + 1.234 * DEGREE, "right_gripper.pos": 0.041234}
    sent = pair.send_action(wanted)
    assert sent["left_joint_1.pos"] == pytest.approx(wanted["left_joint_1.pos"])
    until(lambda: arms[0].sent(TARGETS[0]) and arms[1].sent(GRIPPER_TARGET)[2:])
    assert struct.unpack(">ii", arms[0].sent(TARGETS[0])[-1]) == (1234, 90_000)
    assert struct.unpack(">iHBB", arms[1].sent(GRIPPER_TARGET)[-1]) == (41_234, 1000, 1, 0)
    assert arms[0].sent(MODE)[-1][:4] == bytes([1, 1, 100, 0])
    until(lambda: abs(pair.get_observation()["left_joint_1.pos"] - wanted["left_joint_1.pos"]) < 1e-5)
    until(lambda: abs(pair.get_observation()["right_gripper.pos"] - 0.041234) < 1e-6)


def test_no_rounding_leads_beyond_a_limit(ports, arms, clock):
    arm = PiperArm(ports[0], LEFT, "virtual", clock)
    arm.connect()
    lower, upper = (np.array([getattr(d, end) for d in LEFT]) for end in ("lower", "upper"))
    for pose in (lower - 1, upper + 1, lower, upper):
        arms[0].received.clear()
        arm.send(pose)
        until(lambda: arms[0].sent(GRIPPER_TARGET))
        told = [n for frame in TARGETS for n in struct.unpack(">ii", arms[0].sent(frame)[-1])]
        for number, dimension in zip(told, LEFT, strict=False):
            assert dimension.lower - 1e-12 <= number / 1000 * DEGREE <= dimension.upper + 1e-12
        assert 0 <= struct.unpack(">iHBB", arms[0].sent(GRIPPER_TARGET)[-1])[0] <= 100_000
    with pytest.raises(HoldfastError, match="finite"):
        arm.send(np.full(7, np.nan))
    arm.disconnect(limp=False)


def test_lerobots_own_commands_pass_the_limits_too(pair, arms):
    pose = pair.get_observation()
    sent = pair.send_action({**pose, "left_joint_4.pos": 1e6, "right_joint_1.pos": -1e6})
    assert sent["left_joint_4.pos"] == pytest.approx(pose["left_joint_4.pos"] + 0.1 / 3)
    assert sent["right_joint_1.pos"] == pytest.approx(pose["right_joint_1.pos"] - 0.1 / 3)
    assert pair.send_action(dict.fromkeys(PAIR.names, math.nan)) == sent


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ({"status": 7}, "reports collision occurred"),
        ({"status": 1}, "reports emergency stop"),
        ({"errors": 1 << 10}, "reports joint 3 angle limit"),
        ({"errors": 1 << 4}, "reports communication status joint 5"),
        ({"motor": 1 << 1}, "reports motor overheating of motor 1"),
        ({"obeys": False, "enabled": False}, "reports motor 1 switched off"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_arm_in_trouble_is_a_fault_in_words(pair, arms, harm, said):
    for name, value in harm.items():
        setattr(arms[1], name, value)
    until(lambda: pair._arms[1].fault())
    with pytest.raises(FaultError, match=f"right {said}"):
        pair.get_observation()


def test_an_arm_that_falls_silent_is_a_fault_in_words(pair, arms, clock):
    arms[1].speaks = False
    left, right = (lambda arm=arm: arm._heard(arm._sdk) for arm in pair._arms)
    until(lambda: left() > right() + 0.1)  # so only the right one is silent for long

    clock.time = right() + 0.19
    assert pair.get_observation()
    clock.time = right() + 0.21
    with pytest.raises(FaultError, match=r"right has said nothing for 0\.2 s\.$"):
        pair.get_observation()


def test_the_quick_stop_reaches_both_arms_and_they_obey_no_more(pair, arms):
    pair.emergency_stop()
    until(lambda: all(fake.sent(QUICK_STOP) for fake in arms))
    until(lambda: pair._arms[0].fault())
    assert pair._arms[0].fault() == "reports emergency stop"


@pytest.mark.parametrize("limp", [False, True])
def test_arms_fall_only_where_the_settings_say_so(pair, arms, limp):
    pair.config.disable_torque_on_disconnect = limp
    pair.disconnect()
    assert not pair.is_connected
    for fake in arms:
        passed(fake)
    assert [fake.enabled for fake in arms] == [not limp] * 2
    assert [data[1] for data in arms[0].sent(ENABLE)][-1] == (1 if limp else 2)


def test_a_robot_can_be_connected_again(pair, arms):
    pair.disconnect()
    pair.connect()
    assert pair.get_observation()["left_joint_2.pos"] == pytest.approx(math.pi / 2)


def test_an_arm_that_is_not_there_or_does_not_obey_is_named(ports, clock):
    arm = PiperArm(ports[0], LEFT, "virtual")
    with pytest.raises(HoldfastError, match=f"{ports[0]} says nothing"):
        arm.connect(seconds=0.2)
    fake = FakePiper(ports[1], obeys=False)

    def sleep(seconds):
        time.sleep(seconds)
        clock.time += seconds * bool(fake.sent(ENABLE))  # time passes once the arm was told to switch its motors on

    clock.sleep = sleep
    with pytest.raises(HoldfastError, match="does not switch its motors on"):
        PiperArm(ports[1], LEFT, "virtual", clock).connect(seconds=0.1)
    fake.close()


def test_a_port_that_is_not_up_tells_the_command_that_mends_it():
    with pytest.raises(HoldfastError, match="sudo ip link set can_nowhere up type can bitrate 1000000"):
        PiperArm("can_nowhere", LEFT).connect()


def test_wrapped_it_is_a_robot_for_the_loop(pair, arms):
    pair.disconnect()
    robot = Wrapped(pair)
    limits = Limits(PAIR, Workspace())
    command = limits.start(robot.observe().state)
    wanted = command.pose + np.array([0.2] + [0.0] * 13)

    def there():
        nonlocal command
        command = limits.step(command, robot.observe().state, wanted)
        robot.send(command.pose)
        return abs(robot.observe().state[0] - wanted[0]) < 1e-4

    until(there)
    arms[0].received.clear()
    robot.stop()
    until(lambda: arms[0].sent(TARGETS[0]))
    assert struct.unpack(">ii", arms[0].sent(TARGETS[0])[-1])[0] == round(math.degrees(wanted[0]) * 1000)
    assert robot.picture().shape == (240, 320, 3)
    assert not robot.over


def test_an_attempt_moves_the_arms_and_ends_with_their_fault(pair, arms, tmp_path):
    pair.disconnect()
    robot, steps = Wrapped(pair), []

    def forward(question):
        if question.number == 2:
            arms[0].status = 7
        return question.state + np.outer(np.arange(1, 17), [0.005] + [0.0] * 13)

    client = AsyncClient(FakeAnswerer(actions=forward), 60.0)
    client.connect()
    conduct = Conduct(ONE, horizon=8, ahead=4, seconds=600.0)
    outcome = ControlLoop(
        robot, client, Limits(PAIR), conduct, NoKeys(), lambda seen, command: steps.append(command)
    ).run()
    client.close()
    assert outcome.ended == "fault"
    assert "left reports collision occurred" in outcome.why
    assert outcome.steps >= 10
    assert arms[0].targets[0] > 1000, "more than a degree"
    assert arms[0].joints[0] > 0, "and it moved"
    assert arms[1].joints == arms[1].targets == [0.0, 90_000.0, -90_000.0, 0.0, 0.0, 0.0], "the idle arm stood still"


def test_a_file_that_describes_the_pair_is_checked(tmp_path):
    file = tmp_path / "pair.toml"
    for text, said in (
        ('colour = "red"', "Unknown key 'colour' of "),
        ("left_port = ", "cannot be read"),
        ('left_port = "can_left"', "names \\[cameras\\]"),
        ('[cameras]\nhead = "1"\n[workspace]\nlow = [0, 0]\n', "low < high"),
    ):
        file.write_text(text)
        with pytest.raises(HoldfastError, match=said):
            PiperRobot(file)
    with pytest.raises(HoldfastError, match="cannot be read"):
        PiperRobot(tmp_path / "missing.toml")

"""Robots by name: ours, a class of the user's own, and any arena that has an embodiment."""

import sys

import numpy as np
import pytest
from fakes import PAIR, FakeRobot

from holdfast import robots
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.robots.robot import Robot

CAMERAS = ("head", "front", "left_wrist", "right_wrist")


class Arm(FakeRobot):
    """A robot of the user's own, which needs no operator."""

    rate = 30
    resets_itself = True
    made: list = []  # noqa: RUF012

    def __init__(self, config):
        super().__init__()
        self.made.append(self)

    def observe(self):
        images = {name: np.zeros((32, 32, 3), np.uint8) for name in CAMERAS}
        return Observation(super().observe().state, images)


class Wired(Arm):
    needs_config = True

    def __init__(self, config):
        self.config = config.read_text()
        super().__init__(config)


class Loose(Arm):
    def __init__(self, config):
        raise OSError("no such port")


class Stepless(Arm):
    rate = 0


class Quitting(Arm):
    def __init__(self, config):
        raise SystemExit(0)


class Misspelled(Robot):
    embodiment, rate = PAIR, 30
    observe = stop = picture = lambda self: None

    def sendd(self, pose):
        pass


class Undecided(Arm):
    @property
    def resets_itself(self):
        return True


class Wordy(Arm):
    needs_config = "no"


class Lacking:
    embodiment, rate = PAIR, 30


def no_class():
    pass


@pytest.fixture(autouse=True)
def nothing_made(monkeypatch):
    monkeypatch.setattr(Arm, "made", [])


def test_ours_say_what_they_need_before_they_are_connected():
    twin, piper = robots.find("twin"), robots.find("piper")
    assert (twin.embodiment, twin.rate, twin.needs_operator, twin.arena.name) == (PAIR, 30, False, "twin")
    assert (piper.embodiment, piper.rate, piper.needs_operator, piper.arena) == (PAIR, 30, True, None)
    piper.check_settings("pair.toml", fast=False)
    for robot, config, fast, said in (
        (piper, None, False, "--robot piper needs --config FILE"),
        (twin, "pair.toml", False, "--robot twin takes no --config"),
        (piper, "pair.toml", True, "--fast is for simulated robots"),
    ):
        with pytest.raises(HoldfastError, match=said):
            robot.check_settings(config, fast)


def test_a_class_of_your_own_is_found_by_its_path_and_connected_with_its_file(tmp_path):
    found = robots.find("test_door:Wired")
    assert (found.embodiment, found.rate, found.arena, Arm.made) == (PAIR, 30, None, [])
    (tmp_path / "arm.txt").write_text("port 1")
    robot = found.connect(tmp_path / "arm.txt", None, {}, None)
    assert (robot.config, robot.workspace, robot.over, robot.trial(1)) == ("port 1", None, False, None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pipr", r"Unknown robot 'pipr'.*Did you mean 'piper'.*package.module:Class"),
        ("nowhere:Arm", "Robot nowhere:Arm cannot be imported .*PYTHONPATH"),
        ("test_door:Leg", "module test_door has no Leg"),
        ("test_door:no_class", "test_door:no_class is not a class"),
        ("test_door:Misspelled", "is not a robot: it lacks send. See"),
        ("test_door:Lacking", "is not a robot: it lacks workspace, .*begin, observe, .*add_a_robot.md"),
        ("test_door:Undecided", "resets_itself of its class must be True or False.*got <property"),
        ("test_door:Wordy", "needs_config of its class must be True or False.*got 'no'"),
        ("test_door:Stepless", "a rate, a whole number above 0; got Embodiment and 0"),
        ("nowhere.toml", "nowhere.toml"),
        ("fake_arena:FakeArena", "names no embodiment"),
    ],
)
def test_what_is_no_robot_is_said_in_a_line(name, said, monkeypatch):
    monkeypatch.syspath_prepend(f"{__file__.rpartition('/')[0]}/../arenas")
    with pytest.raises(HoldfastError, match=said) as found:
        robots.find(name)
    assert str(found.value).count(" workspace,") <= 1


def test_an_arena_with_an_embodiment_is_a_robot(monkeypatch):
    monkeypatch.syspath_prepend(f"{__file__.rpartition('/')[0]}/../arenas")
    found = robots.find("test_simulated_robot:Bodied")
    assert (found.embodiment.name, found.rate, found.arena.name, found.needs_operator) == ("point", 10, "fake", False)
    task = found.arena.task("touch")
    robot = found.connect(None, task, {"top": (16, 24)}, None)
    assert (robot.trial(1).source, robot.workspace) == ("fake", None)
    robot.close()


@pytest.mark.parametrize(("kind", "why"), [("Loose", "OSError: no such port"), ("Quitting", "SystemExit: 0")])
def test_a_robot_that_does_not_connect_says_why(kind, why):
    with pytest.raises(HoldfastError, match=rf"--robot test_door:{kind} does not connect \({why}\)"):
        robots.find(f"test_door:{kind}").connect(None, None, {}, None)


def test_every_robot_of_the_table_is_one():
    for name in robots.ROBOTS:
        assert Robot in robots.find(name).kind.__mro__


def test_the_command_drives_a_robot_of_your_own(small_run, tmp_path, capsys):
    words = [
        "rollout",
        "--robot=test_door:Arm",
        "--task=press_button",
        "--device=cpu",
        "--seconds=0.2",
        "--deadline=60",
    ]
    policy = f"--policy={small_run}/stages/01-press_button/checkpoint"
    own = sys.modules["test_door"].Arm.made
    assert main([*words, policy, "--dry-run"]) == 0
    assert own == [], "not connected"
    assert main([*words, policy]) == 0
    (robot,) = own
    assert len(robot.sent) == 6
    assert main([*words, policy, "--fast"]) == 2
    assert "--fast is for simulated robots" in capsys.readouterr().err

"""`lerobot-teleoperate` and `lerobot-record`, as a person types them, with simulated leaders, followers and cameras."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fake_piper import READY, FakeLeader, passed, until
from piper_sdk import C_PiperInterface_V2

from holdfast.commands.doctor import main as doctor
from holdfast.core.clock import UnixClock
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.arm import PiperArm
from holdfast.robots.leaders import LeaderArm
from holdfast.robots.robot import FaultError

pytestmark = pytest.mark.slow  # LeRobot's commands take a while to import
PAIR = EMBODIMENTS["piper_x_pair"]
STEP = 500  # 0.001 degrees a frame
CAMERAS = "{{{}}}".format(
    ", ".join(
        f"{name}: {{type: fake, width: 64, height: 48, fps: 30, seed: {i}}}"
        for i, name in enumerate(("head", "left_wrist", "right_wrist", "front"))
    )
)


class Cell:
    """Four simulated arms. A frame of a command lasts until all of them have moved and spoken."""

    def __init__(self, ports, followers, folder):
        self.lead_ports = tuple(f"{port}-lead" for port in ports)
        self.leaders = [FakeLeader(port) for port in self.lead_ports]
        self.flags = [
            "--robot.type=piper_pair",
            f"--robot.left_port={ports[0]}",
            f"--robot.right_port={ports[1]}",
            "--robot.bus=virtual",
            f"--robot.cameras={CAMERAS}",
            "--teleop.type=piper_leaders",
            f"--teleop.left_port={self.lead_ports[0]}",
            f"--teleop.right_port={self.lead_ports[1]}",
            "--teleop.bus=virtual",
            f"--robot.calibration_dir={folder}",
            f"--teleop.calibration_dir={folder}",
        ]
        self.time, self.frames, self.before_frame = 0.0, 0, lambda frame: None
        self._followers = followers

    def perf_counter(self):
        return self.time

    def sleep(self, seconds):
        """The end of a frame: the people at the leaders move them on."""
        self.time += seconds
        self.frames += 1
        for leader in self.leaders:
            leader.joints = [self.frames * STEP, *READY[1:]]
        self.before_frame(self.frames)
        passed(*self.leaders, *self._followers)


@pytest.fixture
def cell(ports, arms, clock, monkeypatch, tmp_path):
    cell = Cell(ports, arms, tmp_path / "calibration")
    monkeypatch.setattr(UnixClock, "now", lambda _: clock.now())  # no arm is ever late
    yield cell
    for leader in cell.leaders:
        leader.close()


def run(cell, monkeypatch, command, *flags):
    """Run a command of LeRobot on the cell's time."""
    import fake_camera  # noqa: F401  (registers itself)

    monkeypatch.setattr(command, "precise_sleep", cell.sleep)
    monkeypatch.setattr(command, "time", SimpleNamespace(perf_counter=cell.perf_counter))
    monkeypatch.setattr(sys, "argv", ["lerobot", *cell.flags, *flags])
    command.main()


def record_flags(folder, episodes):
    return (
        "--dataset.repo_id=me/stack_bowls",
        f"--dataset.root={folder}",
        "--dataset.no_stamp=true",
        "--dataset.push_to_hub=false",
        "--dataset.single_task=Stack the bowls.",
        f"--dataset.num_episodes={episodes}",
        "--dataset.episode_time_s=0.98",
        "--dataset.reset_time_s=0.2",
        "--play_sounds=false",
    )


def test_lerobot_teleoperate_moves_the_followers_to_the_leaders(cell, arms, monkeypatch):
    from lerobot.scripts import lerobot_teleoperate

    run(cell, monkeypatch, lerobot_teleoperate, "--fps=30", "--teleop_time_s=0.98")
    assert cell.frames == 30
    for fake in arms:
        assert 20 * STEP < fake.targets[0] <= 30 * STEP, "where the leaders were a few frames ago"
        assert fake.joints[0] > 15 * STEP
        assert fake.enabled, "and it holds"
    for leader in cell.leaders:
        assert leader.received == []


def test_lerobot_record_makes_a_dataset_that_the_doctor_finds_healthy(cell, monkeypatch, tmp_path, capsys):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.scripts import lerobot_record

    folder = tmp_path / "stack_bowls"
    run(cell, monkeypatch, lerobot_record, *record_flags(folder, episodes=2))

    dataset = LeRobotDataset("me/stack_bowls", root=folder)
    assert dataset.num_episodes == 2
    assert dataset.num_frames == 60
    assert dataset.features["action"]["names"] == list(PAIR.names)
    assert dataset.features["observation.state"]["names"] == list(PAIR.names)
    assert [key.removeprefix("observation.images.") for key in dataset.meta.camera_keys] == [
        "head", "left_wrist", "right_wrist", "front"
    ]  # fmt: skip
    rows = dataset.hf_dataset.with_format("numpy")
    actions, states = np.stack(rows["action"]), np.stack(rows["observation.state"])
    degrees = np.degrees(actions[:, [0, 7]])
    assert (degrees[29] > 20 * STEP / 1000).all(), "the leaders' path"
    steps = degrees / (STEP / 1000)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3, err_msg="a whole number of frames")
    assert np.degrees(np.abs(actions - states).max()) < 20 * STEP / 1000, "the followers are not far behind"

    capsys.readouterr()
    assert doctor([str(folder)]) == 0
    assert capsys.readouterr().out.strip().endswith("nothing found in 1 dataset")


def test_a_leader_that_falls_silent_ends_the_recording_and_keeps_what_is_whole(
    cell, ports, arms, clock, monkeypatch, tmp_path, capsys
):
    from lerobot.scripts import lerobot_record

    def heard(kind, port):
        return kind._heard(C_PiperInterface_V2(port))  # the SDK keeps one object per port

    def fall_silent(frame):
        if frame == 45:  # in the second episode
            cell.leaders[1].speaks = False
            others = ((PiperArm, ports[0]), (PiperArm, ports[1]), (LeaderArm, cell.lead_ports[0]))
            until(lambda: min(heard(*other) for other in others) > heard(LeaderArm, cell.lead_ports[1]) + 0.1)
            clock.time = heard(LeaderArm, cell.lead_ports[1]) + 0.21

    cell.before_frame = fall_silent
    folder = tmp_path / "stack_bowls"
    with pytest.raises(FaultError, match=r"The leader on .*right-lead has said nothing for 0\.2 s"):
        run(cell, monkeypatch, lerobot_record, *record_flags(folder, episodes=2))
    assert all(fake.enabled for fake in arms), "the followers hold"

    capsys.readouterr()
    assert doctor([str(folder)]) == 0
    assert "1 episode of 30 frames" in capsys.readouterr().out

"""A small run of an untrained policy, the one that evaluation's tests use; and two simulated arms behind the plugin."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "evaluate"))


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """Two stages, press_button and push_box; tests that write to it copy it first."""
    from runs import make_run

    return make_run(tmp_path_factory.mktemp("rollouts") / "small")


@pytest.fixture
def ports(request):
    """Names of two buses that no other test uses: the SDK keeps one object per name."""
    return f"{request.node.name}-left", f"{request.node.name}-right"


@pytest.fixture
def arms(ports):
    """Two simulated arms."""
    from fake_piper import FakePiper

    fakes = [FakePiper(port) for port in ports]
    yield fakes
    for fake in fakes:
        fake.close()


@pytest.fixture
def clock():
    """Unix time that stands still."""
    from fake_piper import PatientClock

    return PatientClock()


@pytest.fixture
def pair(ports, arms, tmp_path, clock):
    """The connected robot."""
    from holdfast.robots.config_piper import PiperPairConfig
    from holdfast.robots.piper import PiperPair

    config = PiperPairConfig(left_port=ports[0], right_port=ports[1], bus="virtual", calibration_dir=tmp_path)
    robot = PiperPair(config, clock)
    robot.connect()
    yield robot
    robot.disconnect()

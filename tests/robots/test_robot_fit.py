"""A policy moves only a robot that it was trained for: the same dimensions in the same order, at the same rate."""

import json
import shutil
from dataclasses import replace

import pytest
from fakes import CAMERAS, PAIR, FakeRobot

from holdfast import robots
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.wire import WireError
from holdfast.embodiments.embodiment import Embodiment
from holdfast.robots.client import About, InProcess, _about
from holdfast.robots.fit import check_fits
from holdfast.runs.embodiment import settle_embodiment

NAMES = PAIR.names
TURNED = (*NAMES[7:], *NAMES[:7])  # right before left
FAKE = robots.NamedRobot("fake", PAIR, 30, kind=FakeRobot)
FITTING = About(NAMES, CAMERAS, 16, fps=30.0)


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (replace(FITTING, names=TURNED), "dimension 1 of its action is 'right_joint_1.pos', .* 'left_joint_1.pos'"),
        (replace(FITTING, names=NAMES[:7]), "dimension 8 of its action is missing, of the robot 'right_joint_1.pos'"),
        (replace(FITTING, names=(*NAMES, "lift")), "dimension 15 of its action is 'lift', of the robot missing"),
        (replace(FITTING, state_names=TURNED), "dimension 1 of its state is 'right_joint_1.pos'"),
        (replace(FITTING, fps=10.0), "trained at 10 steps a second, --robot fake takes 30"),
        (replace(FITTING, fps=float("nan")), "trained at nan steps a second"),
        (replace(FITTING, names=("x" * 10_000,)), r"^.{0,500}$"),
    ],
)
def test_another_order_or_rate_is_refused(about, said):
    with pytest.raises(HoldfastError, match=said):
        check_fits(about, FAKE)


def test_what_a_policy_does_not_say_is_not_compared():
    assert check_fits(FITTING, FAKE) is None
    assert check_fits(replace(FITTING, fps=None, state_names=NAMES), FAKE) is None


def test_a_runs_robot_decides_whatever_its_datasets_call_the_dimensions():
    called = [f"motor_{number}" for number in range(14)]
    named = replace(FITTING, names=tuple(called))
    check_fits(named, FAKE, PAIR, called)
    with pytest.raises(HoldfastError, match=r"dimension 1 of its action is 'motor_0'.*--run RUN --stage K"):
        check_fits(named, FAKE)
    with pytest.raises(HoldfastError, match=r"dimension 1 of its state is 'angle_0'"):
        check_fits(replace(named, state_names=("angle_0",)), FAKE, PAIR, called)
    with pytest.raises(HoldfastError, match=r"dimension 1 of its action is 'right_joint_1.pos'"):
        check_fits(replace(FITTING, names=TURNED), FAKE, PAIR, called)  # a server with another policy
    turned = Embodiment("turned", (*PAIR.dimensions[7:], *PAIR.dimensions[:7]))
    with pytest.raises(HoldfastError, match=r"of the robot that its run was trained for is .*right_joint_1"):
        check_fits(named, FAKE, turned, called)
    first = replace(PAIR.dimensions[0], kind="velocity", lower=-1.0, upper=1.0)
    with pytest.raises(HoldfastError, match=r"trained for is .*'velocity'.*'joint'"):
        check_fits(named, FAKE, replace(PAIR, dimensions=(first, *PAIR.dimensions[1:])), called)


def test_a_server_says_its_rate_and_the_names_of_its_state():
    greeting = {"names": ["a"], "cameras": {}, "horizon": 4}
    assert _about(greeting) == About(("a",), {}, 4)
    said = _about({**greeting, "state_names": ["b", "c"], "fps": 20})
    assert (said.state_names, said.fps) == (("b", "c"), 20.0)
    for nonsense in ({"fps": "fast"}, {"fps": [30]}, {"horizon": float("inf")}, {"state_names": 3}):
        with pytest.raises(WireError, match="does not say what it serves"):
            _about({**greeting, **nonsense})


@pytest.fixture
def change(small_run, tmp_path):
    """A copy of the run with something changed in its schema."""

    def make(**changes):
        run = shutil.copytree(small_run, tmp_path / "run")
        file = run / "stages/01-press_button/checkpoint/schema.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
        return run

    return make


@pytest.mark.sim
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"names": TURNED}, "dimension 1 of its action is 'right_joint_1.pos'"),
        ({"state_names": TURNED}, "dimension 1 of its state is 'right_joint_1.pos'"),
        ({"fps": 10}, "trained at 10 steps a second, --robot twin takes 30"),
    ],
)
def test_a_policy_in_this_process_is_checked_by_what_its_checkpoint_says(change, capsys, changes, said):
    run = change(**changes)
    for words in ([f"--run={run}", "--stage=1"], [f"--policy={run}/stages/01-press_button/checkpoint"]):
        assert main(["rollout", "--task=press_button", "--device=cpu", "--fast", "--seconds=0.1", *words]) == 2
        assert said in capsys.readouterr().err
    assert not (run / "rollouts").exists()


@pytest.mark.sim
def test_a_run_that_was_trained_for_another_robot_is_refused(change, capsys):
    run = change(names=[f"motor_{number}" for number in range(14)])
    words = ["rollout", "--task=press_button", f"--run={run}", "--stage=1", "--device=cpu", "--dry-run"]
    settle_embodiment(run / "embodiment.json", PAIR)
    assert main(words) == 0
    (run / "embodiment.json").unlink()
    settle_embodiment(run / "embodiment.json", Embodiment("turned", (*PAIR.dimensions[7:], *PAIR.dimensions[:7])))
    assert main(words) == 2
    assert "of the robot that its run was trained for is ('right_joint_1.pos'" in capsys.readouterr().err


def test_a_bundle_says_what_it_was_trained_for_and_is_verified(change, tmp_path):
    from holdfast.serve.new_bundle import make

    bundle = make(change(), 1, tmp_path / "bundle", "piper_x_pair").path
    about = InProcess(bundle, ("x",)).connect()
    assert (about.names, about.state_names, about.fps) == (NAMES, NAMES, 30)
    (bundle / "normalization.json").write_text("{}")
    with pytest.raises(HoldfastError, match="does not have the bytes"):
        InProcess(bundle, NAMES).connect()


def test_a_folder_of_lerobot_says_nothing(small_run):
    policy = InProcess(small_run / "stages/01-press_button/checkpoint/policy", NAMES).connect()
    assert (policy.names, policy.state_names, policy.fps) == (NAMES, (), None)

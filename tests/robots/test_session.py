"""Attempts as they are written down: in the twin, which scores itself, and on a robot, whose videos people score."""

import json
import shutil
import time
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from fakes import CAMERAS, HOME, ONE, PAIR, FakeAnswerer, FakeClock, FakeKeys, FakeRobot, FakeThread

from holdfast import arenas, catalog
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial, TrialProtocol
from holdfast.robots.async_client import AsyncClient
from holdfast.robots.client import About, InProcess, PolicyClient
from holdfast.robots.keys import NoKeys
from holdfast.robots.limits import Limits, Workspace
from holdfast.robots.loop import Conduct, ControlLoop
from holdfast.robots.recorder import Dataset
from holdfast.robots.session import Book, Session
from holdfast.robots.simulated import Simulated
from holdfast.runs.trials import Trials

pytestmark = pytest.mark.sim

BUTTON = catalog.task("press_button")
LIMITS = Limits(PAIR, Workspace())


def session(robot, answerer, book, task=BUTTON, keys=None, deadline=30.0, **changes):
    settings = {"horizon": 8, "ahead": 4, "seconds": 1.0, "realtime": False, **changes}
    clock = answerer.clock = FakeClock()
    client = AsyncClient(answerer, deadline, clock, FakeThread(clock))
    conduct = Conduct(task, **settings)
    return Session(robot, client, LIMITS, conduct, keys or NoKeys(), book, lambda text: None, clock)


@pytest.fixture(scope="module")
def twin():
    robot = Simulated(arenas.load("twin"), BUTTON, CAMERAS)
    yield robot
    robot.close()


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def trials(run):
    with Trials(run / "trials.sqlite") as file:
        return file.all()


def test_the_twin_scores_itself_and_leaves_video_and_record(twin, run):
    book = Book(run, 2, "weights", "space", "mia")
    reports = list(session(twin, FakeAnswerer(), book, seed=5).run(2))
    assert [report.folder.name for report in reports] == ["0001", "0002"]
    found = trials(run)
    assert [(t.seed, t.valid, t.score, t.source, t.stage) for t in found] == [
        (5, True, 0.0, "twin", 2),
        (6, True, 0.0, "twin", 2),
    ]
    assert found[0].video == "rollouts/0001/video.mp4"
    assert found[0].protocol == TrialProtocol(8, ahead=4, limits=True)
    content = json.loads((run / "rollouts/0001/rollout.json").read_text())
    assert {key: content[key] for key in ("task", "stage", "policy", "normalization", "operator", "seconds")} == {
        "task": "press_button",
        "stage": 2,
        "policy": "weights",
        "normalization": "space",
        "operator": "mia",
        "seconds": 1.0,
    }
    assert (content["source"], content["valid"], content["milestones"], content["seed"]) == ("twin", True, [], 5)
    assert abs(content["when"] - time.time()) < 600
    assert not (run / "live.jpg").exists(), "nothing is live any more"
    import av

    with av.open(str(run / "rollouts/0001/video.mp4")) as film:
        assert film.streams.video[0].width == 640
        assert sum(1 for _ in film.decode(video=0)) >= 10


def test_trials_that_people_have_scored_are_made_alike_too(run):
    book = Book(run, 1, "weights")
    made = Trial("reach", 1, (), source="operator", operator="Ada", weights="weights", score=0.0)
    with Trials(run / "trials.sqlite") as file:
        file.add(made)  # people may score what other programs did
        file.add(replace(made, operator="Bob", protocol=TrialProtocol(12, limits=True)))
        file.add(replace(made, source="twin", operator="", seed=1, protocol=TrialProtocol(9)))  # of another source
    with pytest.raises(HoldfastError, match=r"made otherwise \(rolled out, horizon 12, asked 0 ahead; now"):
        list(session(FakeRobot(), FakeAnswerer(), book, ONE, FakeKeys({1: "q"})).run(1))
    assert list(session(FakeRobot(), FakeAnswerer(), book, ONE, FakeKeys({1: "q"}), horizon=12, ahead=0).run(1)) == []


def test_a_kill_before_the_record_leaves_the_simulators_trial(twin, run, monkeypatch):
    """A record without it would be offered to people as an attempt that nobody has judged."""
    monkeypatch.setattr("holdfast.robots.session.write_rollout", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        list(session(twin, FakeAnswerer(), Book(run, 1, "weights"), seconds=0.2).run(1))
    assert [trial.source for trial in trials(run)] == ["twin"]


def test_an_unanswered_attempt_in_the_twin_is_not_valid_and_not_scored_and_its_layout_stays_free(twin, run):
    delays = iter([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    book = Book(run, 1, "weights")
    slow = FakeAnswerer(delay=lambda: next(delays))
    failed, good = session(twin, slow, book, deadline=0.2, realtime=True).run(2)
    assert failed.outcome.ended == "unanswered"
    assert 0 < failed.outcome.stopped_after <= 0.1
    assert good.outcome.ended == "time", "the next attempt goes well"
    first, second = trials(run)
    assert (first.valid, first.score, first.seed) == (False, None, None)
    assert "no answer within the deadline" in first.notes
    assert (second.valid, second.score, second.seed) == (True, 0.0, 1)
    assert not json.loads((failed.folder / "rollout.json").read_text())["valid"]
    with Trials(run / "trials.sqlite") as file:
        again = Trial("press_button", 1, (), source="twin", seed=0, weights="weights", score=0.0)
        assert file.add(again) not in (1, 2), "the layout can be tried again"


def test_a_server_killed_in_the_twin_stops_the_arms_and_is_found_again(twin):
    from test_client import LONG, Process, free_port

    port = free_port()
    process = Process(port)
    client = AsyncClient(PolicyClient(f"ws://127.0.0.1:{port}"), LONG)
    client.connect()
    poses = []

    def see(seen, command):
        poses.append(command.pose)
        if len(poses) == 20:
            process.kill()

    twin.begin(0)
    conduct = Conduct(BUTTON, 8, 4, 60.0, realtime=False)
    outcome = ControlLoop(twin, client, LIMITS, conduct, NoKeys(), see).run()
    assert outcome.ended == "unanswered"
    assert len(poses) <= 20 + 8, "by the first question after the kill"
    process = Process(port)
    client.connect()
    twin.begin(0)
    conduct = Conduct(BUTTON, 8, 4, 0.5, realtime=False)
    assert ControlLoop(twin, client, LIMITS, conduct, NoKeys(), lambda s, c: None).run().ended == "time"
    client.close()
    process.kill()


def test_attempts_in_the_twin_are_a_function_of_their_seed(twin, run):
    def wander(question):
        rng = np.random.default_rng((question.seed, question.number))
        return question.state + np.cumsum(rng.normal(0, 0.02, (16, 14)), axis=0)

    seen = []
    for _ in range(2):
        twin.begin(3)
        list(session(twin, FakeAnswerer(actions=wander), Book(), seed=3).run(1))
        seen.append(twin.observe().state)
    np.testing.assert_array_equal(*seen)


def test_trials_of_one_cell_are_made_alike(twin, run):
    book = Book(run, 1, "weights")
    list(session(twin, FakeAnswerer(), book, seconds=0.2).run(1))
    with pytest.raises(HoldfastError, match="horizon 8, asked 4 ahead; now standard rolled out, horizon 12"):
        list(session(twin, FakeAnswerer(), book, horizon=12, ahead=0).run(1))


def test_what_happened_opens_as_a_lerobot_dataset(tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    robot, folder = FakeRobot(), tmp_path / "data"
    move, made = robot.send, []
    robot.send = lambda pose: (made.append(folder.exists()), move(pose))
    with Dataset(folder) as dataset:
        book = Book(dataset=dataset)
        keys = FakeKeys({1: " ", 40: " "})
        list(session(robot, FakeAnswerer(), book, ONE, keys).run(2))
    assert all(made), "what takes long is done before the arms move"
    opened = LeRobotDataset("local/data", root=folder)
    assert (opened.num_episodes, opened.num_frames, opened.fps) == (2, 60, 30)
    assert opened.features["action"]["names"] == list(PAIR.names)
    sample = opened[7]
    np.testing.assert_allclose(sample["action"], robot.poses[7], atol=1e-6)
    assert sample["task"] == ONE.instruction
    assert sample["observation.images.head"].shape == (3, 32, 32)
    with pytest.raises(HoldfastError, match="exists already"):
        Dataset(folder)


def test_a_real_robots_attempts_start_by_key_wait_for_a_judge_and_go_back_to_the_start(run):
    robot = FakeRobot(rate=300, stays=True)
    keys = FakeKeys({3: " ", 40: " ", 43: " "})
    book = Book(run, 1, "weights", operator="mia")
    attempts = session(robot, FakeAnswerer(), book, ONE, keys, seconds=0.2).run(2)
    reports = [next(attempts)]
    away, before = robot.state[0] - HOME[0], len(robot.sent)
    assert away > 0.02, "the attempt ended elsewhere"
    reports += attempts
    assert np.abs(robot.poses[before : before + 160] - HOME).max(axis=1).argmin() > 0
    np.testing.assert_allclose(robot.poses[len(robot.sent) - 61], HOME, atol=1e-6)
    assert [report.outcome.ended for report in reports] == ["operator", "time"]
    assert [(r.trial.valid, r.trial.score, r.trial.source, r.trial.operator) for r in reports] == [
        (True, None, "operator", "mia")
    ] * 2
    assert trials(run) == [], "people score them later"
    contents = [json.loads((run / f"rollouts/000{i}/rollout.json").read_text()) for i in (1, 2)]
    assert [content["valid"] for content in contents] == [True, True]
    assert [content["milestones"] for content in contents] == [None, None]
    assert contents[0]["protocol"] == {"horizon": 8, "ahead": 4, "limits": True}
    with pytest.raises(HoldfastError, match=r"horizon 8, asked 4 ahead; now rolled out, horizon 12"):
        list(session(FakeRobot(), FakeAnswerer(), book, ONE, FakeKeys({1: "q"}), horizon=12, ahead=0).run(1))
    other = replace(book, weights="others")
    assert list(session(FakeRobot(), FakeAnswerer(), other, ONE, FakeKeys({1: "q"}), horizon=12, ahead=0).run(1)) == []


def test_a_server_that_comes_back_with_another_policy_ends_the_session(run):
    answerer = FakeAnswerer()
    attempts = session(FakeRobot(steps=5), answerer, Book(), ONE, FakeKeys({1: " "})).run(2)
    next(attempts)
    answerer.connect = lambda: About(PAIR.names, CAMERAS, 16, weights="other")
    with pytest.raises(HoldfastError, match="serves another policy"):
        next(attempts)


def test_quitting_ends_the_session_and_the_attempt_does_not_count(run):
    robot, keys = FakeRobot(), FakeKeys({1: " ", 10: "q"})
    reports = list(session(robot, FakeAnswerer(), Book(run, 1, "w", operator="mia"), ONE, keys).run(5))
    assert [report.outcome.ended for report in reports] == ["quit"]
    (trial,) = trials(run)
    assert (trial.valid, trial.score, trial.source, trial.notes) == (False, None, "operator", "Stopped by key.")
    assert list(session(FakeRobot(), FakeAnswerer(), Book(run), ONE, FakeKeys({1: "q"})).run(5)) == []


def test_a_policy_computed_here_and_the_same_asked_over_the_network_move_the_twin_alike(small_run, tmp_path):
    from holdfast.policies.pilot import Pilot

    checkpoint = small_run / "stages/01-press_button/checkpoint"
    here = InProcess(checkpoint, PAIR.names)
    about = here.connect()
    assert (about.answer_steps, about.cameras["head"]) == (16, (32, 32))
    robot = Simulated(arenas.load("twin"), BUTTON, about.cameras)
    ends = []
    for answerer in (here, _Echo(Pilot(checkpoint, PAIR.names))):
        robot.begin(0)
        list(session(robot, answerer, Book(), seconds=1.5).run(1))
        ends.append(robot.observe().state)
    robot.close()
    np.testing.assert_allclose(*ends, atol=1e-5)
    assert np.abs(ends[0] - HOME).max() > 0.01, "it did move"


class _Echo:
    """A pilot behind the wire, without the network: what `holdfast serve` does with a question."""

    def __init__(self, pilot):
        self._pilot = pilot

    def connect(self):
        return None

    def answer(self, question, seconds):
        from holdfast.core.observation import Question
        from holdfast.core.wire import pack, unpack

        asked = unpack(pack({"state": question.state.astype(np.float32), "images": question.images}))
        look = Question(question.task, asked["state"], asked["images"], question.seed, question.number)
        return unpack(pack({"actions": self._pilot.answer([look])[0]}))["actions"].astype(float)

    def close(self):
        pass


def test_the_command_runs_a_stage_of_a_run_in_the_twin(small_run, tmp_path, capsys):
    from holdfast.cli import main

    run = shutil.copytree(small_run, tmp_path / "run")
    words = ["rollout", "--task=press_button", f"--run={run}", "--stage=1", "--device=cpu"]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "12 of 16 steps executed, the next one requested 4 steps ahead" in said
    assert "arms stop when an answer takes more than 0.5 s" in said
    assert not (run / "rollouts").exists()
    record = tmp_path / "data"
    assert main([*words, "--fast", "--seconds=0.5", "--trials=2", f"--record={record}"]) == 0
    assert "attempt 2 of 2: score 0 of 100" in capsys.readouterr().out
    assert [t.seed for t in trials(run)] == [0, 1]
    assert trials(run)[0].protocol == TrialProtocol(16, limits=True)
    assert json.loads((run / "rollouts/0002/rollout.json").read_text())["episode"] == 1
    assert (record / "meta/info.json").exists()
    assert main([*words, "--stage=7"]) == 2
    assert "Unknown finished stage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--robot=arm"], "Unknown robot 'arm'"),
        ([], "Say which policy"),
        (["--server=ws://a", "--policy=b"], "not both"),
        (["--run=a", "--policy=b"], "not both"),
        (["--server=ws://a", "--robot=piper"], "needs --config"),
        (["--server=ws://a", "--robot=piper", "--config=a", "--fast"], "--fast is for simulated robots"),
        (["--server=ws://a", "--robot=piper", "--config=a"], "operator at a terminal"),
        (["--server=ws://a", "--trials=0"], "--trials must be above 0"),
        (["--server=here"], "named like ws://"),
        (["--run=nowhere"], "no run.yaml"),
    ],
)
def test_mistakes_are_said_in_a_line(words, said, capsys):
    from holdfast.cli import main

    assert main(["rollout", "--task=press_button", *words]) == 2
    assert said in capsys.readouterr().err

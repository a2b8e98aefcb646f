"""Trials are the same whoever runs them: alone, in a batch with others, in other processes, or to be watched."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from runs import twins

from holdfast import arenas
from holdfast.arenas.learned import LearnedPolicy, chunk_queue
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.catalog import task as catalog_task
from holdfast.core.observation import Observation, Question
from holdfast.core.records import Trial, TrialProtocol
from holdfast.evaluate import workers
from holdfast.evaluate.remote_lane import RemoteLane
from holdfast.evaluate.rollout import LocalLane, PolicyNeeds, TrialOrder, play
from holdfast.evaluate.workers import Setup, local, on_ray, run_share
from holdfast.policies.pilot import Pilot
from holdfast.twin.tasks import task_class

pytestmark = pytest.mark.sim
CPU = Setup("cpu")
TWIN = arenas.load("twin")


def load(checkpoint, horizon=None):
    return Pilot(checkpoint, TWIN.action, horizon=horizon)


def begun(seed):
    episode = ScoredEpisode(TWIN, catalog_task("press_button"))
    episode.begin(seed, "standard")
    return episode


def run(episode, policy):
    actions = []
    while not episode.over and (action := policy.act()) is not None:
        episode.step(action)
        actions.append(action)
    return actions


@pytest.fixture(scope="module")
def checkpoint(finished) -> Path:
    return finished / "stages" / "02-push_box" / "checkpoint"


@pytest.fixture(scope="module")
def batch(checkpoint):
    return load(checkpoint)


def orders(checkpoint, seeds, task="press_button", **changes) -> list[TrialOrder]:
    made = TrialOrder(
        checkpoint.parents[2], checkpoint, 2, catalog_task(task), 0, "standard", "weights", "space", TrialProtocol(16)
    )
    return [replace(made, seed=seed, **changes) for seed in seeds]


def trials(done) -> list[Trial]:
    return [trial for _, trial in done]


def played(pilot, lanes, some, *ready) -> list[Trial]:
    """Trials of one checkpoint, in the order in which they end."""
    return trials(play(lambda checkpoint: pilot, lanes, iter(some), *ready))


@pytest.mark.parametrize("robot", [None, TWIN.embodiment])
def test_the_twin_holds_idle_arms_where_they_were(robot):
    episode, wanted = begun(3), np.linspace(-1, 1, 14)
    queue = chunk_queue(episode, 1, robot)
    queue.put(0, np.array([wanted]))
    pose, arms = episode.observe().state, episode.task.arms
    assert len(arms) == 1
    assert np.array_equal(queue.take(), TWIN.embodiment.hold(wanted, pose, arms)), "to the last bit"


def looks() -> list[Question]:
    rng = np.random.default_rng(0)
    return [
        Question(
            catalog_task(task),
            rng.uniform(-0.5, 0.5, 14),
            {
                camera: rng.integers(0, 256, (32, 32, 3), np.uint8)
                for camera in ("head", "front", "left_wrist", "right_wrist")
            },
            seed=seed,
        )
        for seed, task in enumerate(["push_box", "press_button", "push_box", "stack_bowls", "press_button"])
    ]


def test_an_answer_does_not_depend_on_who_else_asks(batch):
    together = batch.answer(looks())
    for look, answer in zip(looks(), together, strict=True):
        assert np.array_equal(batch.answer([look])[0], answer)
    assert np.array_equal(batch.answer(looks()[::-1])[0], together[-1])


def test_answers_may_be_begun_before_earlier_ones_are_finished(batch):
    wanted = [batch.answer([look])[0] for look in looks()]
    begun = [batch.begin([look]) for look in looks()]
    for answers, actions in zip(begun[::-1], wanted[::-1], strict=True):
        assert np.array_equal(answers()[0], actions)


def test_an_answer_depends_on_seed_and_number(batch):
    look = looks()[0]
    answers = [batch.answer([other])[0] for other in (look, replace(look, seed=9), replace(look, number=1))]
    assert answers[0].shape == (16, 14)
    assert not np.array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])


def test_horizon_cuts_the_answer(checkpoint):
    assert load(checkpoint, horizon=5).answer(looks()[:1])[0].shape == (5, 14)


def test_lanes_and_processes_change_nothing(checkpoint, batch):
    some = [*orders(checkpoint, range(2)), *orders(checkpoint, range(1), "push_box")]
    alone = [trial for order in some for trial in played(batch, [LocalLane("twin")], [order])]
    assert len({str(trial.normalization) for trial in alone}) == 1
    assert twins(played(batch, [LocalLane("twin") for _ in range(2)], some)) == twins(alone)
    far = [RemoteLane("twin") for _ in range(2)]
    assert twins(played(batch, far, some, RemoteLane.ready)) == twins(alone)
    for lane in far:
        lane.close()


def test_nobody_waits_for_a_lane_that_is_slow(checkpoint, batch):
    slow, quick = LocalLane("twin"), LocalLane("twin")

    def ready(lanes, waits):
        return [lane for lane in lanes if lane is quick or waits][-1:]

    seeds = [trial.seed for trial in played(batch, [slow, quick], orders(checkpoint, range(4)), ready)]
    assert seeds == [1, 2, 3, 0]


def test_questions_are_made_ready_while_others_are_answered(checkpoint, batch):
    first, second = LocalLane("twin"), LocalLane("twin")
    told = []

    class Slow:
        size, cameras, answer_steps = batch.size, batch.cameras, batch.answer_steps

        def begin(self, questions):
            told.append("begin")
            answers = batch.begin(questions)
            return lambda: (told.append("finish"), answers())[1]

    def ready(lanes, waits):
        return lanes[:1]

    played(Slow(), [first, second], orders(checkpoint, range(2)), ready)
    assert told[:4] == ["begin", "begin", "finish", "begin"]
    assert told.count("begin") == told.count("finish")


def two_checkpoints(finished, first, second) -> list[TrialOrder]:
    folders = [finished / "stages" / name / "checkpoint" for name in ("01-press_button", "02-push_box")]
    return [*orders(folders[0], first, stage=1, weights="1"), *orders(folders[1], second, weights="2")]


@pytest.fixture
def asked(monkeypatch) -> dict[Path, set[int]]:
    """The seeds of the trials in which each checkpoint's policy was asked; trials of untrained ones look alike."""
    seeds: dict[Path, set[int]] = {}

    class Watched(Pilot):
        def __init__(self, folder, *options):
            assert folder not in seeds, "each is loaded once"
            self.seeds = seeds.setdefault(folder, set())
            super().__init__(folder, *options)

        def begin(self, questions):
            self.seeds.update(question.seed for question in questions)
            return super().begin(questions)

    monkeypatch.setattr("holdfast.policies.pilot.Pilot", Watched)
    workers._pilot.cache_clear()
    return seeds


def test_lanes_go_on_with_the_next_checkpoint_and_its_policy(finished, asked):
    some = two_checkpoints(finished, (0, 1), (2, 3))
    slow, quick = LocalLane("twin"), LocalLane("twin")

    def ready(lanes, waits):
        return [lane for lane in lanes if lane is quick or waits][-1:]

    done = list(play(partial(workers._pilot, CPU), [slow, quick], iter(some), ready))
    assert [order.seed for order, _ in done] == [1, 2, 3, 0], "nobody waits for the first trial"
    assert asked == {some[0].checkpoint: {0, 1}, some[2].checkpoint: {2, 3}}
    assert [(trial.seed, trial.stage, trial.weights) for _, trial in done] == [
        (order.seed, order.stage, order.weights) for order, _ in done
    ]


def test_one_set_of_processes_serves_all_checkpoints_of_a_gpu(finished, asked, monkeypatch):
    some = two_checkpoints(finished, (0,), (1, 2))
    calls = []
    monkeypatch.setattr(workers, "play", lambda *args: calls.append(args) or play(*args))
    steps: list[int] = []
    assert len(list(workers._batched(CPU, iter(some), 2, steps.append))) == 3
    assert asked == {some[0].checkpoint: {0}, some[1].checkpoint: {1, 2}}
    assert len(calls) == 1
    assert steps == sorted(steps)
    assert steps[-1] > 0


def test_large_policies_are_on_a_gpu_one_after_another(finished, asked, monkeypatch):
    some = two_checkpoints(finished, (0,), (1, 2))
    monkeypatch.setattr(workers, "LARGE", 1)
    workers._is_large.cache_clear()
    alive = []
    monkeypatch.setattr(workers, "play", lambda load, *args: alive.append(load) or play(load, *args))
    assert len(list(workers._batched(CPU, iter(some), 2, lambda steps: None))) == 3
    workers._is_large.cache_clear()
    assert len(alive) == 2
    assert asked == {some[0].checkpoint: {0}, some[1].checkpoint: {1, 2}}


@pytest.mark.slow
def test_policies_in_other_processes_give_the_same_trials(checkpoint):
    some = orders(checkpoint, range(10))  # more than one share
    steps: list[int] = []
    found = twins(trials(local(CPU, [checkpoint], 2, steps.append)(iter(some))))
    assert found == twins(trials(run_share(CPU, some)))
    assert steps == sorted(steps)
    assert steps[0] == 0 < steps[-1], "the policy is loaded, then every answer counts"


@pytest.mark.slow
def test_ray_gives_the_same_trials(checkpoint):
    ray = pytest.importorskip("ray")
    some = orders(checkpoint, range(2))
    ray.init("local", num_cpus=1, include_dashboard=False)  # each further process imports LeRobot once more
    try:
        assert twins(trials(on_ray(CPU)(iter(some)))) == twins(trials(run_share(CPU, some)))
    finally:
        ray.shutdown()


def test_watching_a_seed_shows_the_trial_that_was_scored(checkpoint):
    episode = begun(1)
    run(episode, LearnedPolicy(episode, load(checkpoint), seed=1))
    (trial,) = played(load(checkpoint), [LocalLane("twin")], orders(checkpoint, [1]))
    own = episode.trial(stage=2)
    assert (trial.milestones, trial.penalties, trial.seconds) == (own.milestones, own.penalties, own.seconds)
    assert trial == replace(own, run="small", weights="weights", normalization="space", protocol=TrialProtocol(16))


def test_a_trial_ends_at_full_score_and_says_when_what_was_reached(checkpoint):
    episode = begun(3)
    actions = run(episode, TWIN.policy("expert", episode.environment, None))
    lane = LocalLane("twin")
    lane.begin(orders(checkpoint, [3])[0], PolicyNeeds((32, 32), ("head",), horizon=1000))
    seen = lane.result()
    assert isinstance(seen, Observation)
    assert seen.images["head"].shape == (32, 32, 3)
    lane.go(np.array(actions + [actions[-1]] * 60))
    trial = lane.result()
    assert isinstance(trial, Trial)
    assert (trial.score, trial.source, trial.seed, trial.level) == (100.0, "twin", 3, "standard")
    assert trial.seconds <= (len(actions) + 60) / 30 < TWIN.max_steps("press_button") / 30
    assert list(trial.times) == [milestone.name for milestone in episode.task.milestones]
    assert list(trial.times.values()) == sorted(trial.times.values())
    assert trial.times[trial.milestones[-1]] == pytest.approx(trial.seconds, abs=0.7)


def test_a_filmed_trial_is_the_same_and_its_video_plays_anywhere(checkpoint, batch, tmp_path, monkeypatch):
    import av

    monkeypatch.setattr(task_class("press_button"), "max_steps", 90)
    (plain,) = played(batch, [LocalLane("twin")], orders(checkpoint, [0]))
    (filmed,) = played(batch, [LocalLane("twin")], orders(checkpoint, [0], run=tmp_path, video="videos/a.mp4"))
    assert replace(filmed, video="", run="small") == plain
    with av.open(str(tmp_path / filmed.video)) as video:
        stream = video.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert stream.frames == pytest.approx(10 * (plain.seconds + 1), abs=2)
    assert (tmp_path / filmed.video).stat().st_size < 500_000
    assert [file.name for file in (tmp_path / "videos").iterdir()] == ["a.mp4"]

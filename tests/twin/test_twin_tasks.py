"""What every task of the twin must satisfy, whoever wrote it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from multiprocessing import get_context

import numpy as np
import pytest

from holdfast.arenas.scripted import score
from holdfast.catalog import task as catalog_task
from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import Expert
from holdfast.twin.scripted import POLICIES, run
from holdfast.twin.tasks import TASKS, task_class

EVERY_TASK = pytest.mark.parametrize("task", TASKS)
CLOTH = {"fold_towel", "fold_tshirt"}
NO_GRASP = {"press_button", "push_box"}  # their milestones need no grasp
OPEN_GRIPPER_MOST = {"pack_bag": 67.0}
BLIND_TRIALS = {"fold_towel": 4, "fold_tshirt": 10, "place_fruits": 10}  # fewer of slow tasks


@dataclass(frozen=True)
class Episode:
    """An expert's episode: a fingerprint of its states and of some of its pixels, the arms at every step, the score."""

    digest: str
    arms: np.ndarray
    score: float


def episode(task: str, seed: int, env: CellEnv | None = None) -> Episode:
    """Play an expert's episode."""
    env = env or CellEnv(task)
    env.reset(seed)
    expert = Expert(env.world, env.task.scripts, seed)
    found, arms = hashlib.sha256(), []
    while not env.over and (action := expert.act()) is not None:
        if env.steps % 50 == 0:
            for image in env.observe((32, 48)).images.values():
                found.update(image.tobytes())
        env.step(action)
        arms.append(env.world.state())
        for values in (env.world.data.qpos, env.world.data.qvel, env.world.data.ctrl):
            found.update(values.tobytes())
    return Episode(found.hexdigest() + str(env.reached()), np.stack(arms), env.score())


@cache
def episodes(task: str) -> tuple[Episode, Episode]:
    """The episodes of seeds 3 and 7 at the level standard, one after the other in one environment."""
    env = CellEnv(task)
    return episode(task, 3, env), episode(task, 7, env)


def scores(env: CellEnv, policy: str, level: str, seeds: range, jitter: bool = False) -> Iterator[float]:
    """Scores of a scripted policy, seed by seed: whoever has seen enough plays no more."""
    for seed in seeds:
        env.reset(seed, level)
        run(env, POLICIES[policy](env, seed if jitter else None))
        yield env.score()


def are_full(found: Iterator[float], least: int) -> bool:
    """Whether at least so many scores are full; looks at no more of them than it takes."""
    return any(full == least for full in accumulate((score == 100 for score in found), initial=0))


def mean_is_at_most(bar: float, found: Iterator[float], count: int) -> bool:
    """Whether the mean of `count` scores is within the bar; looks at no more of them than it takes."""
    return any(total + 100 * (count - seen) <= bar * count for seen, total in enumerate(accumulate(found), 1))


def mean_is_between(found: Iterator[float]) -> bool:
    """Whether the mean of scores is neither 0 nor 100; looks at no more of them than it takes."""
    least, most = 100.0, 0.0
    for one in found:
        least, most = min(least, one), max(most, one)
        if least < 100 and most > 0:
            return True
    return False


@EVERY_TASK
def test_name_and_time_limit(task):
    kind = task_class(task)
    assert kind.name == task
    assert kind.max_steps > 0


@EVERY_TASK
def test_doing_nothing_scores_nothing(task, env_of):
    for seed, level in enumerate(("easy", "standard", "wide")):
        assert list(scores(env_of(task), "noop", level, range(seed, seed + 1))) == [0], level


@pytest.fixture(scope="module")
def other_process():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


@EVERY_TASK
def test_same_seed_same_bits_after_other_episodes_and_in_another_process(task, other_process):
    first = other_process.submit(episode, task, 7)
    other, same = episodes(task)
    assert other.digest != first.result().digest
    assert same.digest == first.result().digest


@EVERY_TASK
def test_idle_arms_hold_their_pose(task, env_of):
    dimensions = EMBODIMENTS["piper_x_pair"].dimensions
    idle = [i for i, d in enumerate(dimensions) if d.arm not in catalog_task(task).arms]
    home = env_of(task).world.home
    for one in episodes(task):
        assert np.allclose(one.arms[:, idle], home[idle], atol=1e-3)


@EVERY_TASK
@pytest.mark.slow
def test_bars_of_the_expert(task, env_of):
    env = env_of(task)
    # Few seeds, to guard against regressions; `holdfast twin score --seeds A:B` measures the bars on hundreds.
    seeds = range(2000, 2002 if task in CLOTH else 2005)
    assert score("twin", task, "expert", "nominal", seeds[:1]).full == 1  # the same layout for all seeds
    assert are_full(scores(env, "expert", "easy", seeds[:2]), 2)
    assert [one.score for one in episodes(task)] == [100, 100]
    assert are_full(scores(env, "expert", "standard", seeds[2:]), len(seeds) - 2)
    assert are_full(scores(env, "expert", "standard", seeds, jitter=True), len(seeds) - (task not in CLOTH))


@EVERY_TASK
@pytest.mark.slow
def test_bars_of_the_baselines(task, env_of):
    env, seeds = env_of(task), range(2000, 2000 + BLIND_TRIALS.get(task, 20))
    assert mean_is_at_most(35, scores(env, "blind", "standard", seeds), len(seeds))
    if task not in NO_GRASP:
        most, seeds = OPEN_GRIPPER_MOST.get(task, 50), seeds[: 2 if task in CLOTH else 4]
        assert mean_is_at_most(most, scores(env, "open-gripper", "standard", seeds), len(seeds))


def test_the_bars_are_those_of_all_scores():
    assert are_full(iter([100, 0, 100]), 2)
    assert not are_full(iter([100, 0, 99]), 2)
    assert mean_is_at_most(50, iter([0, 100]), 2)
    assert not mean_is_at_most(49, iter([0, 100]), 2)
    assert mean_is_between(iter([100, 0]))
    assert mean_is_between(iter([50]))
    assert not mean_is_between(iter([100, 100]))
    assert not mean_is_between(iter([0, 0]))


def scores_under_noise(env: CellEnv, deviation: float) -> Iterator[float]:
    """Scores of an expert whose joint targets wander by a correlated noise of this standard deviation (rad)."""
    joints = [i for i, d in enumerate(EMBODIMENTS["piper_x_pair"].dimensions) if d.kind == "joint"]
    for seed in range(4):
        env.reset(seed)
        rng, noise, expert = np.random.default_rng(seed), np.zeros(len(joints)), POLICIES["expert"](env, None)
        while not env.over and (action := expert.act()) is not None:
            noise = 0.9 * noise + 0.44 * rng.normal(0, deviation, len(joints))
            action[joints] += noise
            env.step(action)
        yield env.score()


@EVERY_TASK
@pytest.mark.slow
def test_joint_noise_lowers_scores_by_degrees(task, env_of):
    found = (scores_under_noise(env_of(task), deviation) for deviation in (0.03, 0.06, 0.12))
    assert any(map(mean_is_between, found))  # the first suffices


def test_unknown_task_lists_the_valid_ones():
    with pytest.raises(HoldfastError, match="stack_bowls"):
        task_class("stack_bowl")

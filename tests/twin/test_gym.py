"""The twin as a Gymnasium environment and as an environment of LeRobot's."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from holdfast.catalog import task as catalog_task
from holdfast.core.errors import HoldfastError
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import Expert
from holdfast.twin.gym import CAMERAS, TwinEnv, gym_id
from holdfast.twin.tasks import TASKS


@pytest.mark.parametrize("task", TASKS)
def test_gymnasium_finds_nothing_to_complain_about(task):
    env = gymnasium.make(gym_id(task), level="wide", height=32, width=48, render_mode="rgb_array")
    assert env.get_wrapper_attr("task_description") == catalog_task(task).instruction
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*WARN")
        warnings.filterwarnings("ignore", ".*symmetric and normalized")  # advice for learners; ours are radians
        check_env(env.unwrapped)
    env.close()


def test_ids_speak_of_the_task():
    assert gym_id("stack_bowls") == "holdfast/StackBowls-v0"
    assert gymnasium.spec("holdfast/PressButton-v0").kwargs == {"task": "press_button"}


def test_rewards_sum_to_the_score_and_full_score_ends_the_episode():
    env = TwinEnv("stack_bowls", height=16, width=16)
    observation, info = env.reset(seed=3)
    expert = Expert(env._cell.world, env._cell.task.scripts)
    rewards, terminated = [], False
    while not terminated:
        assert not info["is_success"]
        action = expert.act()
        assert action is not None, "the expert ended before full score"
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        assert observation in env.observation_space
        assert not truncated
    assert sum(rewards) == pytest.approx(1)
    assert sum(reward > 0 for reward in rewards) == 4
    assert info == {
        "is_success": True,
        "score": 100,
        "milestones": ["reached", "lifted", "above", "stacked"],
        "penalties": {},
        "final": True,
        "seed": 3,
    }


def test_seed_is_the_layout_and_without_one_layouts_differ():
    env = TwinEnv("press_button", height=16, width=16)
    cell = CellEnv("press_button")
    cell.reset(11)
    env.reset(seed=11)
    assert np.array_equal(env._cell.world.position("housing"), cell.world.position("housing"))
    seeds = [env.reset()[1]["seed"] for _ in range(3)]
    assert len(set(seeds)) == 3
    env.reset(seed=11)
    assert [env.reset()[1]["seed"] for _ in range(3)] == seeds


def test_time_is_up_after_the_given_steps():
    env = TwinEnv("press_button", height=16, width=16, max_steps=3)
    env.reset(seed=0)
    flags = [env.step(env._cell.world.home)[2:4] for _ in range(3)]
    assert flags == [(False, False), (False, False), (False, True)]


def test_targets_beyond_the_limits_are_clipped():
    env = TwinEnv("press_button", height=16, width=16)
    env.reset(seed=0)
    env.step(np.full(14, 100, np.float32))
    assert env._cell.world.data.ctrl[0] == pytest.approx(env.action_space.high[0])


def test_unknown_level_is_said():
    with pytest.raises(HoldfastError, match="standard"):
        TwinEnv("press_button", level="hard")


@pytest.mark.slow
def test_runs_in_processes():
    env = gymnasium.make_vec(
        gym_id("press_button"), 2, "async", vector_kwargs={"context": "spawn"}, height=16, width=16
    )
    first, _ = env.reset(seed=[4, 5])
    assert set(first["pixels"]) == set(CAMERAS)
    actions = np.tile(first["agent_pos"][:1], (2, 1))
    for _ in range(3):
        observation, *_, info = env.step(actions)
    assert observation["pixels"]["head"].shape == (2, 16, 16, 3)
    assert info["seed"].tolist() == [4, 5]
    assert env.call("task") == ("press_button", "press_button")
    env.close()
    single = TwinEnv("press_button", height=16, width=16)
    assert np.array_equal(single.reset(seed=5)[0]["pixels"]["head"], first["pixels"]["head"][1])

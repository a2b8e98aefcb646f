"""Recipes are ordinary commands: what they print is what a user could type, and gives the config they mean."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import arenas
from holdfast.commands.flags import parse
from holdfast.recipes import RECIPES
from holdfast.recipes.recipe import flags
from holdfast.train.config import TrainConfig


@pytest.fixture(params=RECIPES)
def recipe(request):
    return RECIPES[request.param](Path("runs/some where"), seed=3)


def test_the_flags_of_a_config_give_it_back(recipe):
    for config in recipe.train:
        assert parse(TrainConfig, "train", list(flags(config)), "") == config


def test_without_and_with_replay_differ_in_nothing_else(recipe):
    sequential, er = next(iter(recipe.parts.values()))[-2:]
    assert (sequential.method, er.method) == ("sequential", "er")
    assert replace(sequential, method=er.method, output=er.output) == er
    assert sequential.folder != er.folder


def test_a_seed_changes_seeds_only(recipe):
    other = RECIPES[recipe.name](Path("runs/some where"), seed=4)
    assert [replace(c, seed=3) for c in other.train] == list(recipe.train)
    if recipe.record:
        assert other.record.seed >= recipe.record.seed + recipe.record.episodes  # no layout in common
        assert replace(other.record, seed=recipe.record.seed) == recipe.record
    assert other.evaluate == recipe.evaluate


def test_phases_follow_each_other(recipe):
    kinds = [{command[0] for command in phase} for phase in recipe.phases(cores=8)]
    whole = [{"record"}, {"train"}, {"evaluate"}, {"report"}]
    assert kinds == (whole if recipe.record else [{"train"}] * len(recipe.train))
    for phase in recipe.phases(cores=1):
        for command in phase:
            assert "0" not in command  # a process each, however few cores there are


def test_one_command_records_all_tasks_with_all_cores():
    ((command,), *_) = RECIPES["single_arm"](Path("x"), 1).phases(cores=16)
    assert command[:7] == ("record", "--tasks", "stack_bowls", "hang_cup", "press_button", "fold_towel", "push_box")
    assert command[-2:] == ("--processes", "16")


def test_the_quickstart_is_the_real_thing():
    recipe = RECIPES["quickstart"](Path("runs/quickstart"), seed=1)
    assert len(recipe.tasks) >= 3
    assert set(recipe.tasks) <= set(arenas.load("twin").tasks)
    assert all(config.device == "cpu" and config.policy.path == "nano-base" for config in recipe.train)
    assert not any("--level" in command for phase in recipe.phases(2) for command in phase)  # standard


def test_the_twins_streams_keep_the_benchmarks_order():
    assert RECIPES["single_arm"](Path("x"), 1).tasks[0] == "stack_bowls"
    assert len(RECIPES["heterogeneous"](Path("x"), 1).tasks) == 10
    asymmetric = RECIPES["heterogeneous"](Path("x"), 1).train[1].replay
    assert (asymmetric.frequency, asymmetric.share) == (0.3, "group")

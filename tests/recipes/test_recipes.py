"""Recipes are ordinary commands: what they print is what a user could type, and gives the config they mean."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import arenas
from holdfast.commands.flags import parse
from holdfast.recipes import RECIPES
from holdfast.train.config import TrainConfig
from holdfast.train.config_flags import flags


@pytest.fixture(params=RECIPES)
def recipe(request):
    return RECIPES[request.param](Path("runs/some where"), seed=3)


def test_the_flags_of_a_config_give_it_back(recipe):
    for config in recipe.train:
        for preset in ("", recipe.preset):
            assert parse(TrainConfig, "train", list(flags(config, preset)), "") == config


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
    kinds = [{chain[0][0] for chain in phase} for phase in recipe.phases(cores=8)]
    whole = [{"record"}, {"train"}, {"evaluate"}, {"report"}]
    if recipe.train[0].device == "cpu":
        whole = [{"record", "train"}, {"report"}]
    assert kinds == (whole if recipe.record else [{"train"}] * len(recipe.train))
    for command in commands(recipe, cores=1):
        assert "0" not in command  # a process each, however few cores there are


def commands(recipe, cores):
    return [command for phase in recipe.phases(cores) for chain in phase for command in chain]


def test_on_a_gpu_all_runs_are_evaluated_by_one_command_with_all_processes(recipe):
    if recipe.evaluate and recipe.train[0].device != "cpu":
        ((evaluation,),) = recipe.phases(cores=8)[-2]
        assert evaluation[1:3] == tuple(map(str, recipe.runs))
        assert "--processes" not in evaluation


@pytest.mark.parametrize("name", ["quickstart", "metaworld-mini"])
def test_on_a_cpu_no_core_waits(name):
    recipe = RECIPES[name](Path("x"), 1)
    ((recording,), (shorter, evaluation), (longer,)), _ = recipe.phases(cores=2)
    assert recording[-2:] == ("--processes", "2")
    for config, training in zip(recipe.train, (shorter, longer), strict=True):
        assert parse(TrainConfig, "train", list(training[1:]), "") == replace(config, wait=True)
    assert evaluation[:3] == ("evaluate", *map(str, recipe.runs))
    assert evaluation[-1] == "--wait", "for the longer training, which goes on beside the trials"
    assert "--processes" not in evaluation, "all cores"


def test_stages_are_shared_in_a_folder_of_the_recipe():
    for name in ("quickstart", "single_arm"):
        recipe = RECIPES[name](Path("x"), 1)
        assert recipe.shared == (Path("x/shared"),)
        trainings = [command for command in commands(recipe, cores=2) if command[0] == "train"]
        assert all("--share=x/shared" in training for training in trainings)


def test_one_command_records_all_tasks_with_all_cores():
    (((command,),), *_) = RECIPES["single_arm"](Path("x"), 1).phases(cores=16)
    assert command[:7] == ("record", "--tasks", "stack_bowls", "hang_cup", "press_button", "fold_towel", "push_box")
    assert command[-2:] == ("--processes", "16")


def test_the_quickstart_is_the_real_thing():
    recipe = RECIPES["quickstart"](Path("runs/quickstart"), seed=1)
    assert len(recipe.tasks) >= 3
    assert set(recipe.tasks) <= set(arenas.load("twin").tasks)
    assert all(config.device == "cpu" and config.policy.path == "nano-base" for config in recipe.train)
    assert not any("--level" in command for command in commands(recipe, 2))  # standard


def test_the_quickstart_is_judged_on_what_chose_none_of_its_settings():
    recipe = RECIPES["quickstart"](Path("runs/quickstart"), seed=1)
    trials = [command for command in commands(recipe, 2) if command[0] == "evaluate"]
    first = {int(command[command.index("--first-seed") + 1]) for command in trials}
    assert first == {300}, "settings were chosen on layouts 0 to 39"
    assert recipe.record.seed > 1_200_000, "and on demonstrations from 1,010,000 to 1,120,000"


def test_the_twins_streams_keep_the_benchmarks_order():
    assert RECIPES["single_arm"](Path("x"), 1).tasks[0] == "stack_bowls"
    assert len(RECIPES["heterogeneous"](Path("x"), 1).tasks) == 10
    asymmetric = RECIPES["heterogeneous"](Path("x"), 1).train[1].replay
    assert (asymmetric.frequency, asymmetric.share) == (0.5, "group")

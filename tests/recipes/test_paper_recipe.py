"""The paper's study as a recipe: all of it, by part, each training once, and refused where it cannot fit."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import catalog
from holdfast.core.errors import HoldfastError
from holdfast.recipes import RECIPES, SEEDS
from holdfast.recipes.gpus import Gpus, memory, refusal, with_gpus

RECIPE = RECIPES["paper"](Path("runs/paper"), SEEDS["paper"])
ER = {config.stream: config for config in RECIPE.train if config.folder.endswith("-er")}


def test_it_has_every_part_of_the_study():
    methods = {name: [(c.stream, c.method) for c in part] for name, part in RECIPE.parts.items()}
    for stream in ("single_arm", "bimanual"):
        assert methods[stream] == [(stream, m) for m in ("finetune", "joint", "sequential", "er")]
    replays = [c.replay for c in RECIPE.parts["heterogeneous"] if c.stream == "heterogeneous"]
    assert [(r.frequency, r.share) for r in replays] == [(0.2, "frames"), (0.3, "group")]
    assert replays[1].weights == {"bimanual": 2, "single": 1}
    strategies = [(c.stream, c.norm.strategy) for c in RECIPE.parts["normalization"]]
    assert strategies == [(s, n) for s in ("single_arm", "bimanual") for n in ("per-task", "frozen-first", "mixed")]
    assert [c.replay.ratio for c in RECIPE.parts["ratio"]] == [0.002, 0.02, 0.2]
    assert [c.replay.frequency for c in RECIPE.parts["frequency"]] == [0.05, 0.1, 0.2, 0.5]
    assert {c.stream for name in ("ratio", "frequency") for c in RECIPE.parts[name]} == {"single_arm"}


def test_a_training_that_several_parts_need_is_there_once():
    needing = [name for name, part in RECIPE.parts.items() if ER["single_arm"] in part]
    assert needing == ["single_arm", "normalization", "ratio", "frequency"]
    configs = [config for part in RECIPE.parts.values() for config in part]
    assert len(RECIPE.train) == len({c.folder for c in configs}) == 19 < len(configs)
    bare = [replace(config, output="") for config in RECIPE.train]
    assert all(bare.count(config) == 1 for config in bare)  # no training under two names
    assert {c.folder: c for c in configs} == {c.folder: c for c in reversed(configs)}  # nor two under one


def test_it_follows_the_paper():
    shared = catalog.paper()["hyperparameters"]
    assert SEEDS["paper"] == shared.seed == 42
    for config in RECIPE.train:
        assert (config.steps, config.batch_size, config.seed) == (4000, 128, 42)
        assert (config.optim.lr, config.optim.final, config.optim.ema, config.optim.warmup) == (5e-5, 0.1, 0.998, 200)
        assert (config.optim.ema_warmup, config.replay.coin, config.norm.widen) == (False, "released", "idle")
        assert config.policy.options["chunk_size"] == "10"
        assert config.policy.options["state_in_prompt"] == "false"
    for config in ER.values():
        assert (config.replay.ratio, config.replay.frequency, config.replay.share) == (0.2, 0.2, "frames")
        assert config.norm.strategy == "frozen-first"


def test_trainings_that_fill_a_gpu_run_one_after_another():
    assert [len(phase) for phase in RECIPE.phases(cores=16)] == [1] * 19
    assert [len(phase) for phase in RECIPES["single_arm"](Path("x"), 1).phases(cores=16)] == [1, 2, 1, 1]


def test_parts_are_chosen_by_name():
    chosen = RECIPE.only(["ratio", "frequency"])
    assert len(chosen.train) == 6
    with pytest.raises(HoldfastError, match="Did you mean 'ratio'"):
        RECIPE.only(["ratios"])


def test_one_gpu_of_80_gib_is_refused_with_what_would_fit():
    said = refusal(RECIPE, Gpus(1, 80))
    assert "a batch of 128 takes 95.6 GiB on each, and 75.2 can be used" in said
    for way in ("--accumulate 4 (72.1 GiB)", "--gpus 4 (72.1 GiB)", "--gpus 2 --parallel fsdp (58.6 GiB)"):
        assert way in said
    assert "a batch of 66 fits at most" in said
    assert refusal(with_gpus(RECIPE, "ddp", 4), Gpus(1, 80)) is None
    assert refusal(with_gpus(RECIPE, "fsdp", None), Gpus(2, 80)) is None
    assert refusal(with_gpus(RECIPE, "ddp", 2), Gpus(1, 80)) is not None


@pytest.mark.parametrize("gpus", [Gpus(8, 80), Gpus(8, 96), Gpus(1, 139)])
def test_larger_machines_take_it_as_it_is(gpus):
    assert refusal(RECIPE, gpus) is None


def test_a_gpu_that_cannot_hold_the_weights_needs_others():
    said = refusal(RECIPE, Gpus(1, 24))
    assert "--accumulate" not in said
    assert "--gpus 8 --parallel fsdp (18.8 GiB)" in said
    assert "fits at most" not in said
    assert "no number of GPUs" in refusal(RECIPE, Gpus(1, 4))
    assert "fits with --parallel fsdp (18.8 GiB) or" in refusal(RECIPE, Gpus(8, 48))


@pytest.mark.parametrize(("gpus", "accumulate"), [(3, None), (8, 4)])
def test_gpus_that_cannot_share_the_batch_are_refused(gpus, accumulate):
    with pytest.raises(HoldfastError, match="equally"):
        memory(with_gpus(RECIPE, "ddp", accumulate).train[0], gpus)

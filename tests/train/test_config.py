import dataclasses
import math

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.data.cache.config import CacheConfig
from holdfast.norm.config import NormConfig
from holdfast.policies.config import AugmentConfig
from holdfast.replay.config import ReplayConfig
from holdfast.train.config import (
    CheckpointConfig,
    LogConfig,
    OptimConfig,
    TrainConfig,
)

NAN, INF = math.nan, math.inf
SECTIONS = {
    "replay": ReplayConfig,
    "norm": NormConfig,
    "optim": OptimConfig,
    "cache": CacheConfig,
    "augment": AugmentConfig,
    "checkpoint": CheckpointConfig,
    "log": LogConfig,
}
BAD = {
    "replay.ratio": (0, -0.1, 1.01, NAN),
    "replay.frequency": (-0.1, 1, 1.5, NAN),
    "replay.share": ("", "equally", "Equal"),
    "replay.coin": ("", "fair"),
    "replay.mix": ("", "rows"),
    "replay.selection": ("", "best"),
    "replay.store": ("", "copies"),
    "replay.weights": ({"single": 0}, {"single": 1.0, "bimanual": -2.0}, {"single": NAN}),
    "norm.strategy": ("", "frozen_first", "none"),
    "norm.floor": (-0.1, 1.1, NAN),
    "norm.widen": ("", "active"),
    "replay.alarm": (0, -0.1, INF, NAN),
    "replay.watch_every": (0, -1),
    "norm.limit": (1, 0, -5, NAN),
    "optim.lr": (0, -1e-4, NAN),
    "optim.final": (-0.1, 1.1, NAN),
    "optim.warmup": (-1,),
    "optim.beta1": (-0.1, 1, NAN),
    "optim.beta2": (-0.1, 1, NAN),
    "optim.eps": (0, -1e-8, NAN),
    "optim.weight_decay": (-0.1, NAN),
    "optim.clip": (0, -1, NAN),
    "optim.ema": (-0.1, 1, 1.5, NAN),
    "optim.accumulate": (0, -1),
    "optim.precision": ("", "fp16"),
    "augment.shift": (-0.1, 1, NAN),
    "augment.brightness": (-0.1, 1, NAN),
    "augment.contrast": (-0.1, 1, NAN),
    "augment.saturation": (-0.1, 1, NAN),
    "augment.crop": (-0.1, 1, NAN),
    "augment.rotation": (-1, 180, NAN),
    "cache.format": ("", "png", "RAW"),
    "cache.workers": (-1,),
    "checkpoint.every": (0, -1),
    "checkpoint.keep": (0, -1),
    "log.every": (0, -1),
    "method": ("", "replay"),
    "steps": (0, -1),
    "task_steps": ({"a": 0}, {"a": 5, "b": -1}),
    "batch_size": (0, -1),
    "seed": (-1,),
    "idle": ("", "held"),
    "parallel": ("", "fsdp1"),
}
GOOD = {
    "replay.ratio": (0.002, 1),
    "replay.frequency": (0, 0.99),
    "replay.share": ("equal", "group", "frames", "need"),
    "replay.alarm": (None, 1e-6, 100),
    "replay.watch_every": (1,),
    "replay.coin": ("plain", "stratified", "released"),
    "replay.mix": ("step", "row"),
    "replay.store": ("reference", "copy"),
    "replay.weights": ({}, {"mine": 0.1}),
    "norm.strategy": ("per-task", "frozen-first", "mixed", "calibrated"),
    "norm.floor": (0, 1),
    "norm.widen": ("all", "idle"),
    "norm.limit": (1.01, INF),
    "optim.lr": (None, 1e-9),
    "optim.final": (0, 1),
    "optim.warmup": (0,),
    "optim.beta1": (0,),
    "optim.beta2": (0, 0.999),
    "optim.weight_decay": (0,),
    "optim.ema": (0, 0.9999),
    "optim.precision": ("auto", "fp32", "bf16"),
    "augment.shift": (0, 0.99),
    "method": ("er", "sequential", "joint", "finetune"),
    "steps": (1,),
    "task_steps": ({}, {"a": 1}),
    "batch_size": (1,),
    "seed": (0,),
    "idle": ("hold", "mask"),
    "parallel": ("ddp", "fsdp"),
}


def build(flag, value):
    section, _, name = flag.rpartition(".")
    return SECTIONS[section](**{name: value}) if section else TrainConfig(stream="s", **{name: value})


def pairs(table):
    return [pytest.param(flag, value, id=f"{flag}={value}") for flag, values in table.items() for value in values]


@pytest.mark.parametrize(("flag", "value"), pairs(BAD))
def test_a_bad_value_is_refused_with_the_flags_name_and_the_value(flag, value):
    with pytest.raises(HoldfastError) as caught:
        build(flag, value)
    assert f"--{flag} " in str(caught.value)
    assert str(value) in str(caught.value)


@pytest.mark.parametrize(("flag", "value"), pairs(GOOD))
def test_a_value_on_the_edge_is_accepted(flag, value):
    assert getattr(build(flag, value), flag.split(".")[-1]) == value


def test_every_field_with_a_limited_range_is_tested_here():
    free = {
        "norm.allow", "norm.stats", "cache.root", "log.tensorboard", "log.wandb", "optim.ema_warmup", "stream",
        "output", "share", "data_root", "wait", "tasks", "policy", "method_options",
        "device", "dry_run", "json", *SECTIONS,
    }  # fmt: skip
    flags = {f.name for f in dataclasses.fields(TrainConfig)}
    flags |= {f"{section}.{f.name}" for section, kind in SECTIONS.items() for f in dataclasses.fields(kind)}
    assert flags - free == set(BAD)


def test_a_stream_is_needed():
    with pytest.raises(HoldfastError, match="--stream must be given"):
        TrainConfig()


@pytest.mark.parametrize(("batch_size", "parts"), [(10, 3), (4, 8)])
def test_a_batch_must_be_cut_evenly(batch_size, parts):
    with pytest.raises(HoldfastError, match=rf"--optim\.accumulate must be a divisor of .*{batch_size}, got {parts}"):
        TrainConfig(stream="s", batch_size=batch_size, optim=OptimConfig(accumulate=parts))


def test_json_is_the_form_of_a_dry_run():
    with pytest.raises(HoldfastError, match="--json must be given together with --dry-run"):
        TrainConfig(stream="s", json=True)
    assert TrainConfig(stream="s", json=True, dry_run=True).json


def test_a_close_word_is_suggested():
    with pytest.raises(HoldfastError, match=r"Did you mean 'frozen-first'\?.*per-task"):
        NormConfig(strategy="frozen_first")


def test_the_defaults_are_the_papers():
    config = TrainConfig(stream="s")
    assert (config.steps, config.batch_size, config.seed, config.method) == (4000, 128, 42, "er")
    assert (config.replay.ratio, config.replay.frequency, config.replay.share) == (0.2, 0.2, "equal")
    assert (config.optim.beta1, config.optim.beta2, config.optim.eps, config.optim.weight_decay) == (
        0.9, 0.95, 1e-8, 1e-10,
    )  # fmt: skip
    assert (config.optim.warmup, config.optim.final, config.optim.clip, config.optim.ema) == (200, 0.1, 1.0, 0.998)
    assert config.norm.strategy == "frozen-first"
    assert config.idle == "hold"


@pytest.mark.parametrize(
    ("changes", "folder"),
    [
        ({"stream": "single_arm"}, "runs/single_arm-er"),
        ({"stream": "some/where/kitchen.toml", "method": "joint"}, "runs/kitchen-joint"),
        ({"stream": "single_arm", "output": "elsewhere/mine"}, "elsewhere/mine"),
    ],
)
def test_the_runs_folder_is_named_after_stream_and_method_unless_given(changes, folder):
    assert TrainConfig(**changes).folder == folder


def test_settings_are_plain_values_all_the_way_down():
    found = to_json(TrainConfig(stream="s", tasks=["a"]))
    assert found["replay"]["weights"] == {"bimanual": 2.0, "single": 1.0}
    assert found["policy"] == {"type": "nano", "path": None, "options": {}}
    assert found["tasks"] == ["a"]

"""Presets: settings of `holdfast train` that suit each other and a machine, by name.

A preset fills in what the user did not give. The run stores the resulting settings, so a preset may change later
without changing runs that were made with it. Recipes start from presets too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast import catalog
from holdfast.core.errors import unknown
from holdfast.norm.config import NormConfig
from holdfast.policies.config import AugmentConfig, PolicyChoice
from holdfast.replay.config import ReplayConfig
from holdfast.train.config import CheckpointConfig, OptimConfig

type Settings = dict[str, Any]  # fields of TrainConfig


@dataclass(frozen=True)
class Preset:
    """What a preset is for, and its settings."""

    text: str
    settings: Callable[[], Settings]


def preset(name: str) -> Settings:
    """The settings of a preset: `TrainConfig(stream="single_arm", **preset("cpu"))`."""
    if name not in PRESETS:
        raise unknown("--preset", name, PRESETS)
    return PRESETS[name].settings()


def _cpu() -> Settings:
    return {
        # A third of the usual denoising steps: the same scores in half of the time.
        "policy": PolicyChoice(
            path="nano-base", options={"image_size": "64", "noise_draws": "1", "denoise_steps": "3"}
        ),
        # Training this short needs many small steps rather than exact ones.
        "steps": 400,
        "batch_size": 16,
        "device": "cpu",
        "norm": NormConfig(stats="nano-base"),
        "optim": OptimConfig(lr=2.5e-4, warmup=40),
        # Each image is seen once or twice, too rarely to overfit.
        "augment": AugmentConfig(shift=0.0, brightness=0.0, contrast=0.0, saturation=0.0),
        "checkpoint": CheckpointConfig(every=250),
    }


def _gpu() -> Settings:
    """Nano at its full size, from scratch; how this was chosen is in docs/results.md."""
    return {
        "policy": PolicyChoice(options={"image_size": "96"}),
        "steps": 1200,
        "batch_size": 128,
        "replay": ReplayConfig(frequency=0.5),
        "norm": NormConfig(stats="nano-base"),
        "optim": OptimConfig(lr=5e-4, warmup=50, ema=0.99),
        "checkpoint": CheckpointConfig(every=1000),
    }


def _paper() -> Settings:
    """Where Holdfast has a way of its own, the paper's: see docs/paper.md."""
    shared = catalog.paper()["hyperparameters"]
    chunk = str(shared.chunk_size)
    return {
        "policy": PolicyChoice(
            type="pi05_fast",
            path="lerobot/pi05_base",
            options={
                "chunk_size": chunk,
                "n_action_steps": chunk,
                "use_relative_actions": "true",
                "state_in_prompt": "false",
            },
        ),
        "steps": shared.steps_per_task,
        "batch_size": shared.batch_size,
        "replay": ReplayConfig(
            ratio=shared.replay_ratio, frequency=shared.replay_frequency, share="frames", coin="released"
        ),
        "norm": NormConfig(widen="idle"),
        "optim": OptimConfig(
            lr=shared.learning_rate, warmup=shared.warmup_steps, ema=shared.ema_decay, ema_warmup=False
        ),
        "augment": AugmentConfig(shift=0, brightness=0.3, contrast=0.4, saturation=0.5, crop=0.05, rotation=5),
    }


PRESETS = {
    "cpu": Preset("nano-base at 64 px, 400 steps of 16 samples a task, for two cores", _cpu),
    "gpu": Preset("nano from scratch at 96 px, 1200 steps of 128 samples a task and f_r 0.5, for one GPU", _gpu),
    "paper": Preset("all of pi0.5 as in the paper, 4000 steps of 128 samples a task, for large GPUs", _paper),
}

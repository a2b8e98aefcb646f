"""Forgetting and its cure outside the twin: three tasks of Continual World in MetaWorld, on a CPU."""

from __future__ import annotations

from pathlib import Path

from holdfast.norm.config import NormConfig
from holdfast.policies.config import PolicyChoice
from holdfast.recipes.recipe import Evaluate, Recipe, Record, without_and_with_replay
from holdfast.replay.config import ReplayConfig
from holdfast.train.config import OptimConfig
from holdfast.train.presets import preset

TASKS = ("faucet-close-v3", "handle-press-side-v3", "window-close-v3")  # in the order of cw10
PRESET = "cpu"


def metaworld_mini(output: Path, seed: int) -> Recipe:
    """Tasks that need one stroke of the hand, at a place that only the picture tells."""
    settings = preset(PRESET) | _from_scratch()
    runs = without_and_with_replay(output, seed, stream="cw10", tasks=list(TASKS), **settings)
    return Recipe(
        name="metaworld-mini",
        tasks=TASKS,
        data=output / "data",
        preset=PRESET,
        arena="metaworld",
        parts={"metaworld-mini": runs},
        record=Record(episodes=40, size=64, seed=1_000_000 + 10_000 * seed),
        evaluate=Evaluate(trials=15, horizon=16),
    )


def _from_scratch() -> dict[str, object]:
    """What differs from the preset: `nano-base` knows another robot, so a smaller nano starts from random weights."""
    size = {"image_size": "64", "width": "64", "heads": "4", "encoder_layers": "2", "decoder_layers": "2"}
    return {
        "policy": PolicyChoice(options={**size, "noise_draws": "2", "denoise_steps": "5"}),
        "norm": NormConfig(),
        "steps": 500,
        "task_steps": {TASKS[0]: 800},  # the first one also learns to see
        "batch_size": 32,
        "optim": OptimConfig(lr=1e-3, warmup=40, ema=0.99),
        "replay": ReplayConfig(ratio=0.5),
    }

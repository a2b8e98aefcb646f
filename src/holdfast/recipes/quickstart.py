"""The first experiment to run: three tasks of the twin, learned in sequence without and with replay, on a CPU."""

from __future__ import annotations

from pathlib import Path

from holdfast.norm.config import NormConfig
from holdfast.policies.config import AugmentConfig, PolicyChoice
from holdfast.recipes.recipe import Evaluate, Recipe, Record
from holdfast.replay.config import ReplayConfig
from holdfast.train.config import CheckpointConfig, OptimConfig, TrainConfig

TASKS = ("stack_bowls", "press_button", "push_box")  # in the order of the paper's single-arm stream


def quickstart(output: Path, seed: int) -> Recipe:
    """Few demonstrations, few steps, small images: what two cores can do in ten minutes."""
    data = output / "data"

    def config(method: str) -> TrainConfig:
        return TrainConfig(
            stream="single_arm",
            tasks=list(TASKS),
            data_root=str(data),
            method=method,
            output=str(output / method),
            share=str(output / "shared"),  # the first stage is the same without and with replay
            # Half the usual denoising steps: the same scores in three quarters of the time.
            policy=PolicyChoice(
                path="nano-base", options={"image_size": "64", "noise_draws": "1", "denoise_steps": "5"}
            ),
            # Training this short needs many small steps rather than exact ones; pushing needs the most.
            steps=400,
            task_steps={"push_box": 1300},
            batch_size=16,
            seed=seed,
            device="cpu",
            # The paper's fifth of 40 demonstrations would leave four of each task for the last stage; half leaves ten.
            replay=ReplayConfig(ratio=0.5),
            norm=NormConfig(stats="nano-base"),
            optim=OptimConfig(lr=2.5e-4, warmup=40),
            # Each image is seen once or twice, too rarely to overfit.
            augment=AugmentConfig(shift=0.0, brightness=0.0, contrast=0.0, saturation=0.0),
            checkpoint=CheckpointConfig(every=250),
        )

    return Recipe(
        name="quickstart",
        tasks=TASKS,
        data=data,
        parts={"quickstart": (config("sequential"), config("er"))},
        record=Record(episodes=40, size=96, seed=1_000_000 + 10_000 * seed),
        evaluate=Evaluate(trials=15, horizon=8),
    )

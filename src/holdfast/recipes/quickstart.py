"""The newcomer's experiment: three tasks of the twin, learned one after the other without and with replay, on a CPU."""

from __future__ import annotations

from pathlib import Path

from holdfast.policies.config import PolicyChoice
from holdfast.recipes.recipe import Evaluate, Recipe, Record
from holdfast.train.config import CheckpointConfig, NormConfig, OptimConfig, ReplayConfig, TrainConfig

TASKS = ("hang_cup", "stack_bowls", "press_button")


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
            policy=PolicyChoice(path="nano-base", options={"image_size": "64", "noise_draws": "1"}),
            steps=320,
            batch_size=32,
            seed=seed,
            device="cpu",
            # The paper's fifth of 40 demonstrations would leave four of each task for the last stage; half leaves ten.
            replay=ReplayConfig(ratio=0.5, frequency=0.3),
            norm=NormConfig(stats="nano-base"),
            optim=OptimConfig(lr=1e-3, warmup=20, ema=0.98),
            checkpoint=CheckpointConfig(every=160),
        )

    return Recipe(
        name="quickstart",
        tasks=TASKS,
        data=data,
        train=(config("sequential"), config("er")),
        record=Record(episodes=40, size=96, seed=1_000_000 + 10_000 * seed),
        evaluate=Evaluate(trials=10, horizon=8),
    )

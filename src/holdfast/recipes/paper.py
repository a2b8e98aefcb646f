"""The paper's own experiment on data of a real robot: pi0.5, 4,000 steps per stage, replay of a fifth."""

from __future__ import annotations

from pathlib import Path

from holdfast.policies.config import AugmentConfig, PolicyChoice
from holdfast.recipes.recipe import Recipe
from holdfast.train.config import OptimConfig, TrainConfig


def paper(output: Path, seed: int) -> Recipe:
    """The single-arm stream from datasets under `data/`; people run the trials, so the recipe ends with training."""

    def config(method: str) -> TrainConfig:
        return TrainConfig(
            stream="single_arm",
            method=method,
            output=str(output / method),
            policy=PolicyChoice(
                type="pi05_fast",
                path="lerobot/pi05_base",
                options={
                    "chunk_size": "10",
                    "n_action_steps": "10",
                    "use_relative_actions": "true",
                    "state_in_prompt": "false",
                },
            ),
            seed=seed,
            optim=OptimConfig(lr=5e-5),
            augment=AugmentConfig(shift=0, brightness=0.3, contrast=0.4, saturation=0.5, crop=0.05, rotation=5),
        )

    return Recipe(name="paper", tasks=(), data=Path("data"), train=(config("sequential"), config("er")))

"""The first experiment to run: three tasks of the twin, learned in sequence without and with replay, on a CPU."""

from __future__ import annotations

from pathlib import Path

from holdfast.recipes.recipe import Evaluate, Recipe, Record, without_and_with_replay
from holdfast.replay.config import ReplayConfig
from holdfast.train.presets import preset

TASKS = ("stack_bowls", "press_button", "push_box")  # in the order of the paper's single-arm stream
PRESET = "cpu"


def quickstart(output: Path, seed: int) -> Recipe:
    """Few demonstrations, few steps, small images: what two cores can do in eight minutes."""
    runs = without_and_with_replay(
        output,
        seed,
        stream="single_arm",
        tasks=list(TASKS),
        task_steps={"push_box": 1100},  # pushing needs the most
        # The paper's fifth of 40 demonstrations would leave four of each task for the last stage; half leaves ten.
        **preset(PRESET) | {"batch_size": 12, "replay": ReplayConfig(ratio=0.5)},
    )
    return Recipe(
        name="quickstart",
        tasks=TASKS,
        data=output / "data",
        preset=PRESET,
        parts={"quickstart": runs},
        # Demonstrations and layouts that no setting was chosen on: docs/results.md.
        record=Record(episodes=40, size=96, seed=2_000_000 + 10_000 * seed),
        evaluate=Evaluate(trials=15, horizon=8, first_seed=300),
    )

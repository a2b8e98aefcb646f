"""The benchmark's three streams in the twin, for one GPU: the settings that keep most of what is learned.

The paper's memory and replay frequency in the twin are the study `paper-twin`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.catalog import load_stream
from holdfast.recipes.recipe import Evaluate, Recipe, Record, without_and_with_replay
from holdfast.replay.config import Share
from holdfast.train.presets import preset

PRESET = "gpu"
SIZE = 96  # of recorded images, as large as the preset reads them
EPISODES = 300  # with 100, the few that are kept of each task are learned by heart and the rest is forgotten
FIRST_STEPS = 2400  # the policy starts from scratch
# Three long tasks and a short one.
TASK_STEPS = {"fold_towel": 1600, "fold_tshirt": 1600, "pack_bag": 1600, "press_button": 800}


def single_arm(output: Path, seed: int) -> Recipe:
    """Five single-arm tasks."""
    return _twin("single_arm", output, seed)


def bimanual(output: Path, seed: int) -> Recipe:
    """Five two-arm tasks."""
    return _twin("bimanual", output, seed)


def heterogeneous(output: Path, seed: int) -> Recipe:
    """Single-arm and two-arm tasks alternating, two-arm tasks replayed twice as often."""
    return _twin("heterogeneous", output, seed, "group")


def _twin(stream: str, output: Path, seed: int, replayed: Share = "equal") -> Recipe:
    data = output / "data"
    tasks = load_stream(stream, str(data)).names
    steps = {task: count for task, count in TASK_STEPS.items() if task in tasks} | {tasks[0]: FIRST_STEPS}

    settings = preset(PRESET)
    settings["replay"] = replace(settings["replay"], share=replayed)
    runs = without_and_with_replay(output, seed, stream=stream, task_steps=steps, **settings)
    return Recipe(
        name=stream,
        tasks=tasks,
        data=data,
        preset=PRESET,
        parts={stream: runs},
        record=Record(episodes=EPISODES, size=SIZE, seed=1_000_000 + 10_000 * seed),
        evaluate=Evaluate(trials=20, horizon=8),
    )

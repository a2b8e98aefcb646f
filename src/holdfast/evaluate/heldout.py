"""How well a policy predicts held-out demonstrations: a cheap measure of forgetting, without a robot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix, Task
from holdfast.data.cache.cache import open_cache
from holdfast.data.cache.config import CacheConfig
from holdfast.data.lerobot.source import ACTION, Source, is_image, open_source
from holdfast.data.lesson import Lesson
from holdfast.data.loader import Batches
from holdfast.data.sampler import Draw
from holdfast.embodiments import EMBODIMENTS
from holdfast.embodiments.embodiment import Embodiment
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.runs.checkpoint import Checkpoint
from holdfast.runs.embodiment import find_embodiment
from holdfast.runs.heldout import write_scores
from holdfast.runs.run import FinishedStage, Run

FRAMES = 3  # scored at the start of every episode, where most of the motion is still to come


def write_heldout(run: Run, folder: Path, unseen: bool, device: str) -> Iterator[tuple[int, int, str]]:
    """Score every finished stage on held-out demonstrations `folder/<task>` and write RUN/heldout.json.

    Yields, after every cell, how many of how many are done, and its mean.
    """
    sources = {task.name: _open(folder / task.name) for task in run.tasks}
    pairs = [(s, i) for s in run.stages for i, n in enumerate(run.names, 1) if unseen or n in s.seen]
    cells: dict[tuple[int, int], tuple[float, ...]] = {}
    for done, (stage, i) in enumerate(pairs, 1):
        task = run.tasks[i - 1]
        _check_unseen(stage, task, sources[task.name])
        active = _active(run, task, sources[task.name])
        cells[i, stage.number] = scores = explained(stage.checkpoint, task, str(folder / task.name), active, 0, device)
        yield done, len(pairs), f"{task.name} after stage {stage.number}: {sum(scores) / len(scores):.1f}"
    write_scores(run.paths.heldout, Matrix(run.names, cells))


def explained(
    checkpoint: Checkpoint, task: Task, dataset: str, active: np.ndarray, seed: int = 0, device: str = "cpu"
) -> tuple[float, ...]:
    """Score a finished checkpoint on held-out demonstrations of one task, one score from 0 to 100 per episode.

    The score is the share of the episode's motion that the predicted chunks explain: 100 is perfect, 0 is no better
    than always predicting the task's mean motion. Only the task's own arms count.
    """
    source = open_source(dataset)
    adapter = adapters.load(checkpoint.policy, source.action_names, device)
    pre, post = transforms.build(adapter.config, checkpoint.normalization.execute(task.name))
    lesson = Lesson(task, source, active, hold=True)
    frames = np.concatenate([start + np.arange(FRAMES) for start in source.starts])
    cache = open_cache(source, adapter.resize, CacheConfig(), Console(quiet=True))
    batches = Batches([lesson], [cache], adapter.layout)
    batch = batches.make(Draw(np.zeros(len(frames), np.int64), frames, replayed=0))
    batches.close()
    wanted = batch.pop(ACTION)
    for key in batch:
        if is_image(key):
            batch[key] = batch[key].float() / 255
    torch.manual_seed(seed)
    predicted = post(adapter.policy.predict_action_chunk(pre(batch)))[:, : wanted.shape[1]]
    return _scores(predicted.cpu().numpy(), wanted.numpy(), ~batch["action_is_pad"].cpu().numpy(), active)


def _scores(predicted: np.ndarray, wanted: np.ndarray, valid: np.ndarray, active: np.ndarray) -> tuple[float, ...]:
    mask = valid[..., None] & active
    scale = np.where(active, wanted.std((0, 1)) + 1e-9, 1)  # so that radians and metres count equally
    error = (((predicted - wanted) / scale) ** 2 * mask).reshape(-1, FRAMES, *wanted.shape[1:]).sum((1, 2, 3))
    motion = (((wanted - wanted.mean(0)) / scale) ** 2 * mask).reshape(-1, FRAMES, *wanted.shape[1:]).sum((1, 2, 3))
    return tuple(float(v) for v in 100 * np.clip(1 - error / motion.mean(), 0, 1))


def _open(dataset: Path) -> Source:
    if not dataset.is_dir():
        raise HoldfastError(
            f"There are no held-out demonstrations {dataset}. Record some with layouts of their own: holdfast record "
            f"--tasks {dataset.name} --episodes 10 --seed 2000000 --output {dataset.parent}"
        )
    return open_source(str(dataset))


def _check_unseen(stage: FinishedStage, task: Task, source: Source) -> None:
    if source.matches(stage.checkpoint.datasets.get(task.name, "")):
        raise HoldfastError(
            f"Stage {stage.number} was trained on {source.dataset}: it is not held out. Give other data."
        )


def _active(run: Run, task: Task, source: Source) -> np.ndarray:
    """The dimensions of the task's own arms; all of them if the run was trained without an embodiment."""

    def known() -> Embodiment | None:
        return next((robot for robot in EMBODIMENTS.values() if robot.names == source.action_names), None)

    robot, dimensions = find_embodiment(run.paths.embodiment, known), source.action.shape[1]
    if robot is None:
        return np.ones(dimensions, dtype=bool)
    if dimensions != len(robot.names):
        raise HoldfastError(
            f"Dataset {source.dataset} has {dimensions} action dimensions; the run was trained for {robot.name!r}, "
            f"which has {len(robot.names)}. Give demonstrations of that robot."
        )
    return robot.active(task.arms)

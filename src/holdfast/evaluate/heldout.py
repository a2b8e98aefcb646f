"""How much of an unseen demonstration a policy would have predicted: a cheap look at forgetting, without a robot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from holdfast.data.batches import Batches, Lesson
from holdfast.data.cache import open_cache
from holdfast.data.config import CacheConfig
from holdfast.data.sampler import Draw
from holdfast.data.source import ACTION, IMAGES, open_source
from holdfast.norm.strategies import Normalization
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.records import Task

FRAMES = 3  # moments looked at in every episode: its beginning, where most is still open, and a little later


def explained(checkpoint: Path, task: Task, dataset: str, active: np.ndarray, seed: int = 0) -> tuple[float, ...]:
    """Score a finished checkpoint on held-out demonstrations of one task, one score from 0 to 100 per episode.

    The score is the share of the episode's motion that the predicted chunks explain: 100 is perfect, 0 is no better
    than always predicting the task's mean motion. Only the task's own arms count.
    """
    source = open_source(dataset)
    adapter = adapters.load(checkpoint / "policy", source.names, "cpu")
    normalization = Normalization.from_json(json.loads((checkpoint / "normalization.json").read_text()))
    pre, post = transforms.build(adapter.config, normalization.execute(task.name))
    lesson = Lesson(task, source, active, hold=True)
    frames = np.concatenate([start + np.arange(FRAMES) for start in source.starts])
    cache = open_cache(source, adapter.resize, CacheConfig(), Console(quiet=True))
    batches = Batches([lesson], [cache], adapter.layout)
    batch = batches.make(Draw(np.zeros(len(frames), np.int64), frames, replay=False))
    batches.close()
    wanted = batch.pop(ACTION)
    for key in batch:
        if key.startswith(IMAGES):
            batch[key] = batch[key].float() / 255
    torch.manual_seed(seed)
    predicted = post(adapter.policy.predict_action_chunk(pre(batch)))[:, : wanted.shape[1]]
    return _scores(predicted.numpy(), wanted.numpy(), ~batch["action_is_pad"].numpy(), active)


def _scores(predicted: np.ndarray, wanted: np.ndarray, valid: np.ndarray, active: np.ndarray) -> tuple[float, ...]:
    mask = valid[..., None] & active
    scale = np.where(active, wanted.std((0, 1)) + 1e-9, 1)  # radians and metres weigh alike
    error = (((predicted - wanted) / scale) ** 2 * mask).reshape(-1, FRAMES, *wanted.shape[1:]).sum((1, 2, 3))
    motion = (((wanted - wanted.mean(0)) / scale) ** 2 * mask).reshape(-1, FRAMES, *wanted.shape[1:]).sum((1, 2, 3))
    return tuple(float(v) for v in 100 * np.clip(1 - error / motion.mean(), 0, 1))

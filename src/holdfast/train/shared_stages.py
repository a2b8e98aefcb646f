"""Stages that several runs have in common are trained once.

The steps of a stage depend only on what `steps_key` hashes. After the last step of a stage, a run with --share puts its
training state into the shared folder. A run that is about to take the same steps takes over that state and goes on with
what is its own: the episodes it keeps, what its method keeps, the stage's checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from holdfast.core import checked_folder
from holdfast.core.json_records import to_json
from holdfast.core.locks import file_lock
from holdfast.core.records import Stage
from holdfast.policies.adapter import Adapter
from holdfast.runs.paths import StagePaths
from holdfast.train.config import TrainConfig
from holdfast.train.plan import settings_of_steps
from holdfast.train.stage_data import StageData

# Raise it when the same settings and data would give other weights.
VERSION = 3


def steps_key(config: TrainConfig, stage: Stage, data: StageData, adapter: Adapter, spaces: str, device: str) -> str:
    """A hash of everything that decides the training state after a stage's last step.

    Args:
        config: The run's settings.
        stage: The stage.
        data: Its lessons, with their caches.
        adapter: The policy at the first step.
        spaces: Hash of the normalization.
        device: Where it is trained; devices round differently.
    """
    decides = {
        "version": VERSION,
        "settings": {**settings_of_steps(config, stage), "device": torch.device(device).type},
        "stage": [stage.number, stage.steps, stage.frequency, data.learning],
        "lessons": [
            [to_json(lesson.task), to_json(lesson.embodiment), lesson.active.tolist(), lesson.hold, cache.spec.key]
            for lesson, cache in zip(data.lessons, data.caches, strict=True)
        ],
        "buffer": to_json(data.buffer) if stage.frequency else None,
        "spaces": spaces,
        "policy": {key: value for key, value in to_json(adapter.config).items() if key != "pretrained_path"},
        "weights": weights_digest(adapter.policy),
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:32]


def weights_digest(policy: torch.nn.Module) -> str:
    """A hash of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(policy.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


class SharedStages:
    """A folder with the last training state of stages, by key. Any number of runs may use it at once."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self._say = say

    @contextmanager
    def claim(self, key: str, files: StagePaths) -> Iterator[Path | None]:
        """Hold a stage while its steps are taken; other runs with the same key wait. Afterwards its state is shared.

        Yields the last state, now in `files`, if another run has taken the steps already.
        """
        with self._held(key):
            yield self._take_over(key, files)
            self._publish(key, files)

    @contextmanager
    def _held(self, key: str) -> Iterator[None]:
        lock: FileLock = file_lock(self.folder / f".{key}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            self._say("Another run takes the same steps. Waiting for it to finish them.")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _take_over(self, key: str, files: StagePaths) -> Path | None:
        shared = StagePaths(self.folder / key)
        last = checked_folder.newest(shared.progress, self._say)
        if last is None:
            return None
        self._say(f"Another run has taken the same steps: continuing with its result from {shared.folder}.")
        files.progress.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(shared.metrics, files.metrics)
        return _link(last, files.progress / last.name)

    def _publish(self, key: str, files: StagePaths) -> None:
        target = StagePaths(self.folder / key)
        last = checked_folder.newest(files.progress, self._say)
        if last is None or checked_folder.newest(target.progress, self._say):
            return
        shutil.rmtree(target.folder, ignore_errors=True)  # damaged
        temporary = StagePaths(self.folder / f".writing-{key}")
        shutil.rmtree(temporary.folder, ignore_errors=True)
        temporary.progress.mkdir(parents=True)
        _link(last, temporary.progress / last.name)
        shutil.copyfile(files.metrics, temporary.metrics)
        temporary.folder.rename(target.folder)


def _link(source: Path, target: Path) -> Path:
    """Link a folder's files elsewhere, or copy them to another file system; the folder appears whole or not at all."""
    temporary = target.with_name(f".writing-{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(source, temporary, copy_function=_link_file)
    shutil.rmtree(target, ignore_errors=True)
    return temporary.rename(target)


def _link_file(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)

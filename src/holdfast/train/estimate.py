"""How long a run will take and how much disk it needs: measured on a few real steps, not guessed."""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from holdfast import embodiments
from holdfast.core.records import Stream
from holdfast.data.cache.cache import blank_cache, plan_bytes
from holdfast.data.loader import Batches
from holdfast.policies import transforms
from holdfast.policies.device import choose_device
from holdfast.replay.buffer import Buffer
from holdfast.runs.folder import RunFolder
from holdfast.train.begin import begin_stage
from holdfast.train.config import TrainConfig
from holdfast.train.engine import settle_normalization, start_policy
from holdfast.train.plan import stages_of
from holdfast.train.setting import Setting
from holdfast.train.stage_data import open_stage
from holdfast.train.stage_sampler import build_sampler
from holdfast.train.state import TrainingState
from holdfast.train.step import Stepper

STEPS = 4  # the first warms up, the others are timed


@dataclass(frozen=True)
class Estimate:
    """What was measured on this machine and what follows from it."""

    device: str
    parameters: int
    seconds_per_step: float
    hours: float
    disk_bytes: int
    cache_bytes: int  # at most, for the frame caches of all local datasets, built already or not


def estimate(config: TrainConfig, stream: Stream, position: int = 0) -> Estimate:
    """Build the policy, check one task's ranges, and time a few steps. Leaves only cached statistics behind."""
    stages = stages_of(config, stream)
    with tempfile.TemporaryDirectory() as scratch:
        run = RunFolder(Path(scratch), lambda message: None)
        embodiment = embodiments.load(stream.embodiment) if stream.embodiment else None
        device = choose_device(config.device)
        setting = Setting(config, stream, run, embodiment, device, Console(quiet=True))
        # One task is enough, for joint training too: all batches cost the same.
        first = replace(stages[0], learns=(position,), steps=STEPS)
        data = open_stage(run, stream, first, config, embodiment, Buffer(config.replay.ratio))
        adapter = start_policy(setting, data, None)
        blank = blank_cache(data.new[0].source, adapter.resize)  # images do not affect the time of a step
        data = replace(data, caches=(blank,))
        begin_stage(setting, first, data, adapter)
        normalization = settle_normalization(setting, adapter, data, None)
        preprocess = transforms.build_training(adapter.config, [normalization.train(name) for name in data.names])
        state = TrainingState(adapter.policy.train(), config.optim)
        step = Stepper(config, adapter, preprocess, None, 1, STEPS, device)
        batches = Batches(data.lessons, data.caches, adapter.layout, device)
        times = []
        for _, _, batch in batches.iterate(build_sampler(config, first, data), 0):
            _, norm = step(state, batch)
            float(norm)  # waits for the device
            times.append(time.monotonic())
        batches.close()
    seconds = (times[-1] - times[0]) / (len(times) - 1)
    weights = sum(p.numel() * p.element_size() for p in adapter.policy.parameters())
    progress = state.size * (config.checkpoint.keep + 1)
    kept = sum(4 * math.prod(shape) for shape in config.make_method().kept_shapes(adapter.policy).values())
    return Estimate(
        device,
        sum(p.numel() for p in adapter.policy.parameters()),
        seconds,
        seconds * sum(stage.steps for stage in stages) / 3600,
        (weights + kept) * len(stages) + progress,
        sum(plan_bytes(Path(entry.dataset), adapter.resize, config.cache) for entry in stream.tasks),
    )

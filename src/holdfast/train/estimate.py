"""How long a run will take and how much disk it needs: measured on a few real steps, not guessed."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from holdfast import embodiments
from holdfast.core.own_code import is_own
from holdfast.core.records import Stage, Stream
from holdfast.data.cache.cache import blank_cache, plan_bytes
from holdfast.data.loader import Batches
from holdfast.methods.state import MethodState
from holdfast.norm.strategies import Normalization
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter
from holdfast.policies.device import choose_device
from holdfast.replay.buffer import Buffer, Kept
from holdfast.runs.folder import RunFolder
from holdfast.train.begin import begin_stage
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.parallel import ExtraLoss
from holdfast.train.engine import settle_normalization, start_policy
from holdfast.train.plan import stages_of
from holdfast.train.setting import Setting
from holdfast.train.stage_data import StageData, check_schema, open_lesson, open_stage, schema
from holdfast.train.stage_sampler import build_sampler
from holdfast.train.state import TrainingState
from holdfast.train.step import Combine, Stepper

STEPS = 4  # the first warms up, the others are timed
ENOUGH = 10.0  # seconds: a step that takes longer is not timed again
CPU_BATCH = 16  # samples that are timed on a CPU, where a larger batch takes proportionally longer

type Say = Callable[[str], None]


@dataclass(frozen=True)
class Estimate:
    """What was measured on this machine and what follows from it."""

    device: str
    parameters: int
    seconds_per_step: float  # of the first stage
    seconds_per_later_step: float  # of stages that follow on another
    hours: float
    disk_bytes: int
    cache_bytes: int  # at most, for the frame caches of all local datasets, built already or not


@dataclass(frozen=True)
class Prepared:
    """A policy with one task's data, ready for steps."""

    setting: Setting
    stage: Stage
    data: StageData
    adapter: Adapter
    normalization: Normalization
    state: TrainingState


def estimate(config: TrainConfig, stream: Stream, position: int = 0, say: Say = lambda doing: None) -> Estimate:
    """Compare all datasets, build the policy, check one task's ranges, and time a few steps.

    Leaves only cached statistics behind.

    Args:
        config: The run's settings.
        stream: Its tasks.
        position: The task that is timed: one is enough, since all batches cost the same.
        say: Called with what is being done.
    """
    stages = stages_of(config, stream)
    part = _timed_part(config)
    timed = replace(config, batch_size=round(config.batch_size * part))
    with tempfile.TemporaryDirectory() as scratch:
        ready = _prepare(timed, stream, RunFolder(Path(scratch), lambda message: None), position, say)
        later = first = _seconds_per_step(ready, ready.data, None, None, say) / part
        if times_later(config) and any(stage.start == "previous" for stage in stages):
            later = _seconds_of_later(ready, say) / part
    policy = ready.adapter.policy
    seconds = sum(stage.steps * (later if stage.start == "previous" else first) for stage in stages)
    weights = sum(p.numel() * p.element_size() for p in policy.parameters())
    progress = ready.state.size * (config.checkpoint.keep + 1)
    kept = sum(4 * math.prod(shape) for shape in config.make_method().kept_shapes(policy).values())
    return Estimate(
        ready.setting.device,
        sum(p.numel() for p in policy.parameters()),
        first,
        later,
        seconds / 3600,
        (weights + kept) * len(stages) + progress,
        sum(plan_bytes(Path(entry.dataset), ready.adapter.resize, config.cache) for entry in stream.tasks),
    )


def times_later(config: TrainConfig) -> bool:
    """Whether later stages cost more and can be timed: what a method of the user's own keeps is not known."""
    return config.make_method().costs_more_later and not is_own(config.method)


def _timed_part(config: TrainConfig) -> float:
    """The part of a batch that is timed."""
    whole = choose_device(config.device) != "cpu" or config.optim.micro_batches > 1
    return 1.0 if whole else min(1.0, CPU_BATCH / config.batch_size)


def _prepare(config: TrainConfig, stream: Stream, run: RunFolder, position: int, say: Say) -> Prepared:
    embodiment = embodiments.load(stream.embodiment) if stream.embodiment else None
    setting = Setting(config, stream, run, embodiment, choose_device(config.device), Console(quiet=True))
    stage = replace(stages_of(config, stream)[0], learns=(position,), steps=STEPS)
    say(f"reading {stream.tasks[position].dataset}")
    data = open_stage(run, stream, stage, config, embodiment, Buffer(config.replay.ratio))
    for entry in stream.distinct:
        if Path(entry.dataset).is_dir() and entry.task.name not in data.names:
            say(f"reading {entry.dataset}")
            check_schema(schema(data.new[0].source), [open_lesson(entry, config, embodiment, run)])
    say(f"building the policy {config.policy.path or config.policy.type}")
    adapter = start_policy(setting, data, None)
    blank = blank_cache(data.new[0].source, adapter.resize)  # images do not affect the time of a step
    data = replace(data, caches=(blank,))
    begin_stage(setting, stage, data, adapter)
    say("checking the ranges")
    normalization = settle_normalization(setting, adapter, data, None)
    state = TrainingState(adapter.policy.train(), config.optim)
    return Prepared(setting, stage, data, adapter, normalization, state)


def _seconds_of_later(ready: Prepared, say: Say) -> float:
    """The time of a step in a stage that has something to replay and gets what the method kept."""
    config, lesson, policy = ready.setting.config, ready.data.new[0], ready.adapter.policy
    method, device = config.make_method(), ready.setting.device
    kept = {name: torch.zeros(shape, device=device) for name, shape in method.kept_shapes(policy).items()}
    data = ready.data
    if method.replays:
        episodes = tuple(range(len(lesson.source.starts)))
        buffer = Buffer(config.replay.ratio, (Kept(lesson.task.name, "", len(episodes), episodes),))
        data = StageData((lesson, lesson), 1, buffer, ready.data.caches * 2)
    combine = Combine(method.combine, data.learning) if method.combines and data.replays else None
    extra = partial(method.extra_loss, kept=MethodState(kept) if kept else None)
    return _seconds_per_step(replace(ready, stage=replace(ready.stage, number=2)), data, extra, combine, say)


def _seconds_per_step(
    ready: Prepared, data: StageData, extra: ExtraLoss | None, combine: Combine | None, say: Say
) -> float:
    config, stage, device = ready.setting.config, ready.stage, ready.setting.device
    spaces = [ready.normalization.train(name) for name in data.names]
    preprocess = transforms.build_training(ready.adapter.config, spaces)
    place = stage.number, stage.steps, device
    step = Stepper(config, ready.adapter, preprocess, None, *place, extra=extra, combine=combine)
    batches = Batches(data.lessons, data.caches, ready.adapter.layout, device)
    say(f"timing {STEPS} steps of a {'later' if stage.number > 1 else 'first'} stage")
    times = [time.monotonic()]
    with closing(batches):
        for _, _, batch in batches.iterate(build_sampler(config, stage, data), 0):
            _, norm = step(ready.state, batch)
            float(norm)  # waits for the device
            times.append(time.monotonic())
            if times[-1] - times[0] > ENOUGH:
                break
    warm = times[1:] if len(times) > 2 else times
    return (warm[-1] - warm[0]) / (len(warm) - 1)

"""How a stream is trained, from the first task to the last. Read it top to bottom.

A run is a folder. Every decision below depends only on the run's settings and on what the folder holds, never on
what happened in memory before; so a run that is killed anywhere and started again ends with the same weights.

Several ranks run this code side by side. Each takes its part of every step; only the first prints and writes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from holdfast import embodiments
from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.core.records import Stage, Stream
from holdfast.data.loader import Batches
from holdfast.data.targets import refuse_doubtful
from holdfast.methods.state import MethodState, read_state
from holdfast.norm import range_check
from holdfast.norm.strategies import Normalization
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter
from holdfast.replay.buffer import Buffer
from holdfast.replay.selection import find_selection
from holdfast.runs.checkpoint import Checkpoint, write_contents
from holdfast.runs.folder import RunFolder
from holdfast.runs.paths import StagePaths
from holdfast.runs.run_log import RANGE_CHECK
from holdfast.train.begin import begin_stage
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.parallel import gather, rank_device, refuse_shards, shard
from holdfast.train.distributed.ranks import ALONE, Ranks
from holdfast.train.keep import keep_episodes, note_losses
from holdfast.train.kept_copies import free_frames
from holdfast.train.kept_loss import KeptLoss
from holdfast.train.log import LossTotals, MetricsLog
from holdfast.train.loss_probe import LossProbe
from holdfast.train.plan import stages_of
from holdfast.train.setting import Setting
from holdfast.train.shared_stages import steps_key
from holdfast.train.stage_data import (
    StageData,
    begin_normalization,
    check_ranges,
    check_schema,
    extend,
    open_stage,
    read_from_cache,
    schema,
)
from holdfast.train.stage_progress import StageProgress
from holdfast.train.stage_sampler import build_sampler
from holdfast.train.state import TrainingState
from holdfast.train.step import Combine, Stepper
from holdfast.train.watch import Watch


def train(config: TrainConfig, stream: Stream, console: Console, ranks: Ranks = ALONE) -> Path:
    """Train every stage of a stream that is not finished yet, and return the run's folder."""
    refuse_shards(config, ranks)
    run = RunFolder(
        Path(config.folder), lambda message: console.print(message, style="yellow", markup=False), writes=ranks.first
    )
    embodiment = embodiments.load(stream.embodiment) if stream.embodiment else None
    setting = Setting(config, stream, run, embodiment, rank_device(config.device, ranks), console, ranks)
    stages = stages_of(config, stream)
    with ranks.connected(setting.device), contextlib.ExitStack() as held:
        with ranks.together():
            if ranks.first:
                held.enter_context(run.locked())
                run.begin(to_json(config), [to_json(entry.task) for entry in stream.tasks], embodiment)
        previous: Checkpoint | None = None
        for stage in stages:
            run.log.stage = stage.number
            with ranks.together():
                finished = ranks.ask(partial(run.finished, stage))
            if finished is None:
                alone = setting.method.arrangement == "alone"
                finished = train_stage(setting, stage, None if alone else previous)
            if previous is not None and ranks.first:
                # Kept until the next stage was finished, in case the final checkpoint had been damaged on disk.
                checked_folder.prune(StagePaths(previous.folder.parent).progress, keep=0)
            previous = finished
        assert previous is not None
        if ranks.first:
            checked_folder.prune(StagePaths(previous.folder.parent).progress, keep=1)
    return run.path


def train_stage(setting: Setting, stage: Stage, previous: Checkpoint | None) -> Checkpoint:
    """Prepare a stage, take its steps, and write its final checkpoint."""
    with setting.ranks.together():
        ready = prepare_stage(setting, stage, previous)
    with setting.claimed(stage, ready.key) as taken_over:
        resume(setting, stage, ready, taken_over)
        take_steps(setting, stage, ready)
    if ready.state.average:
        ready.state.average.write_to_model()
    gather(ready.adapter.policy, setting.ranks)
    with setting.ranks.together():
        return setting.ranks.ask(partial(finish_stage, setting, stage, ready))


@dataclass(frozen=True)
class Ready:
    """A prepared stage."""

    data: StageData
    agreed: dict[str, Any]  # what all datasets of the run have in common
    buffer: Buffer
    adapter: Adapter
    normalization: Normalization
    kept: MethodState | None  # by the method, from the stage before
    state: TrainingState
    saved: Path | None  # progress of a run that was stopped
    key: str  # of the steps, if they are shared with other runs


def prepare_stage(setting: Setting, stage: Stage, previous: Checkpoint | None) -> Ready:
    """Open the data, start the policy, fix the spaces, check the ranges."""
    config, console = setting.config, setting.console
    console.rule(f"stage {stage.number}: {stage.name}, {stage.steps} steps", align="left")

    buffer = previous.buffer if previous else Buffer(config.replay.ratio)
    progress = setting.run.stage(stage).progress
    saved = setting.ranks.ask(lambda: checked_folder.newest(progress, setting.run.say))
    # After its last step a stage replays nothing, and the run's copies may have shrunk already.
    over = saved is not None and checked_folder.step(saved) == stage.steps
    rest = replace(stage, frequency=0.0) if over and not find_selection(config.replay.selection).by_rise else stage
    data = open_stage(setting.run, setting.stream, rest, config, setting.embodiment, buffer)
    agreed = previous.schema if previous else schema(data.new[0].source)
    check_schema(agreed, data.lessons)

    adapter = start_policy(setting, data, previous if stage.start == "previous" else None)
    if "use_relative_actions" not in config.policy.options:  # else the user has decided
        refuse_doubtful(data.new, adapter.layout)
    data = read_from_cache(setting.run, data, adapter.resize, config.cache, console, setting.ranks)
    begin_stage(setting, stage, data, adapter)
    normalization = settle_normalization(setting, adapter, data, previous)
    shapes = setting.method.kept_shapes(adapter.policy)
    kept = read_state(previous.folder, shapes, setting.device) if previous else None
    shares = config.share and not over and setting.method.takes_plain_steps
    key = steps_key(config, stage, data, adapter, normalization.hash, setting.device) if shares else ""
    if config.parallel == "fsdp" and setting.ranks.count > 1:
        shard(adapter.policy, setting.ranks)
    state = TrainingState(adapter.policy.train(), config.optim, setting.ranks)
    return Ready(data, agreed, buffer, adapter, normalization, kept, state, saved, key)


def resume(setting: Setting, stage: Stage, ready: Ready, taken_over: Path | None) -> None:
    """Load the state that was taken over from another run, or else this run's own progress."""
    with setting.ranks.together():
        saved = setting.ranks.ask(lambda: taken_over or ready.saved)
        if saved:
            ready.state.load(saved, stage.steps)
            setting.console.print(f"Resuming at step {ready.state.step} of {stage.steps}.")


def finish_stage(setting: Setting, stage: Stage, ready: Ready) -> Checkpoint:
    """Decide what is kept, of the episodes and by the method, and write the stage's final checkpoint."""
    config, data, normalization, policy = setting.config, ready.data, ready.normalization, ready.adapter.policy
    learned = data.new[-1]
    probe = LossProbe(config, stage, data, ready.adapter, normalization, setting.device, setting.console)
    buffer = keep_episodes(setting, data, ready.buffer, probe) if setting.method.replays else ready.buffer
    score = KeptLoss(setting, stage, ready.adapter, normalization, buffer)
    if done := setting.method.finish(policy, score, ready.kept):
        setting.run.log.write("finish", method=config.method, **done)
        buffer = note_losses(setting, data, buffer, probe)
    kept = setting.method.keep(policy, probe.samples, ready.kept)
    if kept:
        kept.check(setting.method.kept_shapes(policy), f"keep() of --method={config.method}, by its kept_shapes(),")

    def fill(target: Path) -> None:
        ready.adapter.save(Checkpoint(target).policy, normalization.test(learned.task.name))
        if kept:
            kept.write(target)
        write_contents(
            target,
            normalization=normalization,
            buffer=buffer,
            schema=ready.agreed,
            datasets={episodes.task: episodes.fingerprint for episodes in buffer.tasks} | data.fingerprints,
            config=to_json(config),
        )

    finished = setting.run.stage(stage).checkpoint
    checked_folder.write(finished.folder, fill, needed=ready.state.size // 3 + (kept.size if kept else 0))
    if config.replay.store == "copy":
        free_frames(config, data)
    return finished


def start_policy(setting: Setting, data: StageData, previous: Checkpoint | None) -> Adapter:
    """The base policy, or the averaged weights of the stage before. Refuses one that does not give what is needed."""
    config, lesson = setting.config, data.new[0]
    if previous is None:
        adapter = adapters.build(
            config.policy, lesson.source, setting.device, config.seed, lesson.pairing, setting.note
        )
    else:
        adapter = adapters.load(previous.policy, lesson.source.action_names, setting.device)
    if config.idle == "mask" and not adapter.knows_elements:
        raise HoldfastError(
            f"Policy {adapter.config.type!r} gives its loss as one number, so idle dimensions cannot be left out. "
            "Use --idle=hold, or --policy.type=nano."
        )
    if not adapter.gives(setting.method.needs):
        needed = {"loras": "a LoRA per task"}.get(setting.method.needs, f"the {setting.method.needs} behind the loss")
        raise HoldfastError(
            f"--method={config.method} needs {needed}, which policy {adapter.config.type!r} does not offer. Use "
            "--policy.type=nano or pi05_fast, or a method that works with any policy, like er."
        )
    return adapter


def settle_normalization(
    setting: Setting, adapter: Adapter, data: StageData, previous: Checkpoint | None
) -> Normalization:
    """Fix the spaces of this stage and check every new task's values in them, before any step is taken."""
    config, layout = setting.config.norm, adapter.layout
    known = previous.normalization if previous else begin_normalization(config, data.new[0], layout)
    with setting.ranks.leader_goes_first():  # one rank measures, the others read its result
        normalization = extend(known, data, layout, config, setting.config.cache.folder)
    for lesson in data.new:
        checked = check_ranges(lesson, layout, normalization.train(lesson.task.name))
        setting.run.log.write(RANGE_CHECK, space=normalization.hash, **to_json(checked))
        setting.console.print(range_check.table(checked, config.limit))
        checked.check(config.limit, config.allow, config.strategy)
    return normalization


def take_steps(setting: Setting, stage: Stage, ready: Ready) -> None:
    """Train to the stage's end, logging and saving on the way."""
    config, files, ranks = setting.config, setting.run.stage(stage), setting.ranks
    data, adapter, state = ready.data, ready.adapter, ready.state
    preprocess = transforms.build_training(adapter.config, [ready.normalization.train(name) for name in data.names])
    active = np.stack([lesson.active for lesson in data.lessons]) if config.idle == "mask" else None
    extra = partial(setting.method.extra_loss, kept=ready.kept)
    combine = Combine(setting.method.combine, data.learning) if setting.method.combines and data.replays else None
    place = stage.number, stage.steps, setting.device
    step = Stepper(config, adapter, preprocess, active, *place, ranks, extra, combine)
    batches = Batches(data.lessons, data.caches, adapter.layout, setting.device)
    probe = LossProbe(config, stage, data, adapter, ready.normalization, setting.device, setting.console)
    watch = Watch(config.replay, stage, data, probe, setting.console, ranks)
    watch.announce()
    watch.look(state)
    sampler = build_sampler(config, stage, data, state.looks)
    totals = LossTotals(data.names, adapter.names, setting.arms(adapter.names), setting.device, ranks)
    log = MetricsLog(files, config.log, setting.run.path.name, stage.name, state.step) if ranks.first else None
    with StageProgress(setting.console, stage, config, state.step, stages_of(config, setting.stream)) as progress:
        for number, draw, batch in batches.iterate(sampler, state.step, ranks.number, ranks.count):
            if number == 0:
                report_masking(setting, adapter, step.prepare(batch, config.seed))
            totals.add(draw, batch["task_index"], *step(state, batch))
            watch.look(state)
            done = number + 1 == stage.steps
            if state.step % config.log.every == 0 or done:
                with ranks.together():
                    line = totals.read(state.step, state.optimizer.param_groups[0]["lr"])
                if state.looks:
                    line["watched_loss"] = state.looks[-1].losses
                if log:
                    log.write(line)
                progress.show(line)
            if state.step % config.checkpoint.every == 0 or done:
                save_progress(files.progress, state, config.checkpoint.keep, ranks)
            progress.advance(state.step)
    batches.close()
    watch.report(state, sampler)
    if log:
        log.close()


def save_progress(folder: Path, state: TrainingState, keep: int, ranks: Ranks) -> None:
    """Save the training state, so that a kill does not lose it."""
    checked_folder.write(folder / f"step-{state.step:08d}", state.save, state.size, ranks)
    if ranks.first:
        checked_folder.prune(folder, keep)


def report_masking(setting: Setting, adapter: Adapter, batch: dict[str, Any]) -> None:
    """Warn if a policy's own loss counts steps beyond an episode's end."""
    masked = adapter.masks_padding(batch)
    setting.run.log.write("loss", policy=adapter.config.type, masks_padding=masked)
    if not masked:
        setting.run.say(
            f"Policy {adapter.config.type!r} counts padded steps beyond an episode's end in its loss; "
            "Holdfast cannot mask them from outside."
        )

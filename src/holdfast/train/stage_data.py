"""What a stage trains on: the new tasks' data, the kept episodes of the old ones, and their normalization spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Stage, Stream, StreamTask
from holdfast.data import mapping
from holdfast.data.cache.cache import Cache, open_planned, plan_cache
from holdfast.data.cache.config import CacheConfig
from holdfast.data.cache.quantiles import recall
from holdfast.data.cache.spec import Spec
from holdfast.data.lerobot.source import (
    ACTION,
    IMAGES,
    STATE,
    Source,
    camera_name,
    is_image,
    made_up_states,
    open_source,
)
from holdfast.data.lesson import Layout, Lesson
from holdfast.data.resize import Resize
from holdfast.embodiments.embodiment import Embodiment
from holdfast.norm.range_check import RangeCheck, RangeCounter
from holdfast.norm.released import read_norm_stats
from holdfast.norm.strategies import GIVEN, Normalization, Space, calibrated_space, switch, widen
from holdfast.policies.config import resolve
from holdfast.replay.buffer import Buffer, Kept
from holdfast.replay.store import EpisodeStore
from holdfast.runs.data_files import DataFiles, keep_data_files, read_data_files
from holdfast.runs.folder import RunFolder
from holdfast.train.config import NormConfig, TrainConfig
from holdfast.train.distributed.ranks import ALONE, Ranks
from holdfast.train.wait import wait_for_datasets


@dataclass(frozen=True)
class StageData:
    """Lessons of a stage: first the ones being learned, then the ones being replayed."""

    lessons: tuple[Lesson, ...]
    learning: int  # how many of them are new
    buffer: Buffer  # what is kept of the others
    caches: tuple[Cache, ...] = ()  # their frames, once the policy's size is known

    @property
    def new(self) -> tuple[Lesson, ...]:
        """The lessons being learned."""
        return self.lessons[: self.learning]

    @property
    def replays(self) -> bool:
        """Whether some are being replayed."""
        return len(self.lessons) > self.learning

    @property
    def names(self) -> list[str]:
        """Names of all tasks, in the order of the rows of a batch."""
        return [lesson.task.name for lesson in self.lessons]

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the datasets being learned, by task."""
        return {lesson.task.name: lesson.source.fingerprint for lesson in self.new}


def open_stage(
    run: RunFolder, stream: Stream, stage: Stage, config: TrainConfig, embodiment: Embodiment | None, buffer: Buffer
) -> StageData:
    """Open the datasets of this stage and of what it replays; datasets of later stages stay closed."""
    entries = [stream.tasks[i] for i in stage.learns]
    old = {kept.task for kept in buffer.tasks} - {entry.task.name for entry in entries}
    kept = [e for e in stream.distinct if e.task.name in old] if stage.frequency else []
    if config.wait:
        wait_for_datasets(entries, run.say)
    lessons = [open_lesson(entry, config, embodiment, run) for entry in entries]
    begun = any(run.stage(stage).progress.glob("step-*"))
    trained = read_data_files(run.paths.data_files)
    for lesson in lessons:
        known, back = trained.get(lesson.task.name), lesson.task.name in stream.names[: min(stage.learns)]
        if known and (begun or back):
            _check_unchanged(lesson, known.fingerprint, known)
    for entry in entries:
        if entry.mapping is not None:
            run.log.write("mapping", task=entry.task.name, dataset=entry.dataset, mapping=str(entry.mapping))
            run.say(f"Dataset {entry.dataset} is read through its mapping: {entry.mapping}.")
    lessons += [open_kept(entry, buffer.of(entry.task.name), config, embodiment, run) for entry in kept]
    return StageData(tuple(lessons), len(entries), buffer)


def open_kept(
    entry: StreamTask, kept: Kept, config: TrainConfig, embodiment: Embodiment | None, run: RunFolder
) -> Lesson:
    """Open what is kept of a task: its dataset, or the run's own copy; either must be unchanged."""
    if kept.copy is not None:
        store = EpisodeStore(run.paths.buffer)
        store.check(kept)
        entry = replace(entry, dataset=str(store.place(kept)))
    lesson = open_lesson(entry, config, embodiment, run)
    known = None if kept.copy else read_data_files(run.paths.data_files).get(kept.task)
    _check_unchanged(lesson, kept.copy or kept.fingerprint, known)
    return lesson


def _check_unchanged(lesson: Lesson, recorded: str, known: DataFiles | None) -> None:
    """Refuse data that the run has trained on and that is no longer the same; `known` are its files, if recorded."""
    source = lesson.source
    if not source.matches(recorded):
        what = f": {known.differences(_hashes(source))}" if known else ""
        raise HoldfastError(
            f"Dataset {source.dataset} of task {lesson.task.name!r} or its mapping has changed since its stage{what}. "
            "Training would go on with other demonstrations. Restore it, or start a new run with another --output."
        )


def _hashes(source: Source) -> dict[str, str]:
    return {name: file.hash for name, file in source.hashes.items()}


def open_lesson(entry: StreamTask, config: TrainConfig, embodiment: Embodiment | None, run: RunFolder) -> Lesson:
    """Open one task's dataset and check it against the embodiment."""
    raw = open_source(entry.dataset, run.log.opened)
    source = mapping.apply(raw, entry.mapping, embodiment)
    for camera in source.cameras:
        if not is_image(camera.key):
            raise HoldfastError(
                f"Camera {camera.key!r} of dataset {source.dataset} has a key that policies do not read. Rename it "
                f'under the [[task]] in the stream file: [task.cameras] top = "{camera.key}" (or another name).'
            )
    dimensions = len(source.action_names)
    if embodiment is None:
        return Lesson(entry.task, source, np.ones(dimensions, dtype=bool), hold=False)
    if dimensions != len(embodiment.dimensions):
        raise HoldfastError(
            f"Dataset {source.dataset} has {dimensions} action dimensions, embodiment {embodiment.name!r} has "
            f"{len(embodiment.dimensions)}. Name the right embodiment in the stream, or list the dataset's dimensions "
            "in the embodiment's order under the [[task]]: dimensions = [...]. It has "
            f"{', '.join(source.action_names)}."
        )
    if embodiment.states and len(embodiment.states) != len(source.state_names):
        raise HoldfastError(
            f"Dataset {source.dataset} has {len(source.state_names)} state dimensions, embodiment {embodiment.name!r} "
            f"describes {len(embodiment.states)}. Name the right embodiment in the stream, or correct its [[state]] "
            f"tables. The dataset has {', '.join(source.state_names)}."
        )
    if source.action_names != embodiment.names and set(source.action_names) == set(embodiment.names):
        raise HoldfastError(
            f"Dataset {source.dataset} stores the dimensions of {embodiment.name!r} in another order: "
            f"{source.action_names}. "
            f"Say so in the stream file: {_mapping_line('names', list(embodiment.names), source)}"
        )
    return Lesson(entry.task, source, embodiment.active(entry.task.arms), config.idle == "hold", embodiment)


def read_from_cache(
    run: RunFolder, data: StageData, resize: Resize | None, config: CacheConfig, console: Console, ranks: Ranks = ALONE
) -> StageData:
    """Make a stage read only from the frame cache, including states and actions; missing caches are built now."""
    lessons, caches = [], []
    for number, lesson in enumerate(data.lessons):
        spec = ranks.ask(partial(_plan_frames, run, lesson, resize, config))
        with ranks.leader_goes_first() as leads:
            cache = open_planned(lesson.source, spec, config, console, check=leads)
        if ranks.first:
            run.keep_frame_format(lesson.task.name, spec.format)
            if number < data.learning:
                known = DataFiles(lesson.source.fingerprint, _hashes(lesson.source))
                keep_data_files(run.paths.data_files, lesson.task.name, known)
        lessons.append(replace(lesson, source=lesson.source.with_numbers(cache.state, cache.action)))
        caches.append(cache)
    return replace(data, lessons=tuple(lessons), caches=tuple(caches))


def _plan_frames(run: RunFolder, lesson: Lesson, resize: Resize | None, config: CacheConfig) -> Spec:
    """The spec of a task's frame cache, in the format that the run started with or else one that suits the disk."""
    wanted = replace(config, format=run.frame_format(lesson.task.name, config.format))
    return plan_cache(lesson.source, resize, wanted)


def schema(source: Source) -> dict[str, Any]:
    """What all datasets of a run must agree on. `names` are the action's, and the state's unless it has its own."""
    cameras = {camera.key: [camera.height, camera.width] for camera in source.cameras}
    own = {"state_names": list(source.state_names)} if source.state_names != source.action_names else {}
    return {"fps": source.fps, "names": list(source.action_names), **own, "cameras": cameras}


def check_schema(expected: dict[str, Any], lessons: Sequence[Lesson]) -> None:
    """Refuse a dataset whose frame rate, dimensions or cameras differ from the run's."""
    for lesson in lessons:
        found = schema(lesson.source)
        for key in expected | found:
            value, here = (schema.get(key, schema["names"]) for schema in (expected, found))
            # Of a state without names, earlier versions stored those of the action.
            if key == "state_names" and key not in expected and tuple(here) == made_up_states(len(value)):
                continue
            if here != value:
                raise HoldfastError(
                    f"Dataset {lesson.source.dataset} of task {lesson.task.name!r} differs from the run's first one in "
                    f"{key}: {here} instead of {value}. If they mean the same, say so under its [[task]] in the "
                    f"stream file: {_mapping_line(key, value, lesson.source)}"
                )


def _mapping_line(key: str, wanted: Any, source: Source) -> str:
    """What to write under a [[task]] so that its dataset matches the run's schema."""
    if key == "fps":
        return f"fps = {wanted:g} (the dataset's {source.fps:g} must be a whole multiple of it)."
    if key == "state_names":
        return "dimensions = [...] where state and action have the same names; other states cannot be mapped."
    if key == "names":
        there = set(source.action_names)
        names = ", ".join(f'"{name if name in there else "?"}"' for name in wanted)
        return f"dimensions = [{names}], with the dataset's names: {', '.join(source.action_names)}."
    here = [camera_name(camera.key) for camera in source.cameras]
    lines = []
    for full, (height, width) in wanted.items():
        name = camera_name(full)
        shown = name if full == IMAGES + name else f'"{full}"'
        lines.append(f'{shown} = "{name if name in here else f"black {height}x{width}"}"')
    return f"[task.cameras] {' '.join(lines)} (the dataset has {', '.join(here)}, and sizes must agree)."


def begin_normalization(config: NormConfig, lesson: Lesson, layout: Layout) -> Normalization:
    """The normalization before anything is measured: the embodiment's ranges, and statistics that were given."""
    declared = declared_space(lesson, layout)
    if config.strategy == "calibrated" and declared and not declared.complete:
        undeclared = [lesson.source.state_names[d] for d in np.flatnonzero(lesson.pairing.commands < 0)]
        raise HoldfastError(
            "Strategy 'calibrated' takes every range from the embodiment, which declares none for the state's "
            f"{', '.join(undeclared)}. Choose --norm.strategy=frozen-first, or describe the state in the robot's file: "
            "a table [[state]] with name, lower and upper for each of its dimensions, in order."
        )
    known = Normalization(config.strategy, calibrated=declared if declared and declared.complete else None)
    if config.stats:
        source = lesson.source
        given = read_norm_stats(Path(resolve(config.stats)), len(source.action_names), len(source.state_names))
        known = known.with_task(GIVEN, _widened(given, declared, lesson, config))
    return known


def declared_space(lesson: Lesson, layout: Layout) -> Space | None:
    """The ranges that the embodiment declares; NaN for a state dimension it does not declare."""
    if lesson.embodiment is None:
        return None
    return calibrated_space(lesson.embodiment, layout.relative, layout.chunk, lesson.pairing.commands)


def extend(
    normalization: Normalization, data: StageData, layout: Layout, config: NormConfig, remember: Path
) -> Normalization:
    """Measure the new tasks, or read their statistics from the folder `remember`; earlier tasks' stay unchanged."""
    for lesson in data.new:
        measured = recall(lesson, layout, remember)
        space = _widened(measured, declared_space(lesson, layout), lesson, config)
        normalization = normalization.with_task(lesson.task.name, space)
    return normalization


def _widened(space: Space, declared: Space | None, lesson: Lesson, config: NormConfig) -> Space:
    if declared is None:
        return space
    space = switch(space, declared, lesson.pairing.of_kind("binary"))
    if config.widen == "idle":
        commands = lesson.pairing.commands
        declared = declared.without((commands >= 0) & lesson.active[commands], lesson.active)
    names = {STATE: lesson.source.state_names, ACTION: lesson.source.action_names}
    return widen(space, declared, names, config.floor)


def check_ranges(lesson: Lesson, layout: Layout, space: Space) -> RangeCheck:
    """Count a task's values against the space it will be trained in."""
    counter = RangeCounter(space, {STATE: lesson.source.state_names, ACTION: lesson.source.action_names})
    for feature, values in lesson.blocks(layout):
        counter.update(feature, values)
    return counter.finish(lesson.task.name)

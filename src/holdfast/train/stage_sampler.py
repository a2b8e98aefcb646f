"""Which frames a stage draws: of the new tasks, of the kept episodes, and in what shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from holdfast.core.records import Stage
from holdfast.data.sampler import Pool, Sampler
from holdfast.replay.looks import Look, eased, growth, replayed, shares_by_need
from holdfast.replay.schedule import shares
from holdfast.train.config import TrainConfig
from holdfast.train.stage_data import StageData


def build_sampler(config: TrainConfig, stage: Stage, data: StageData, looks: Sequence[Look] = ()) -> Sampler:
    """The sampling rule of a stage: new tasks equally, kept ones by the chosen share, which may follow the `looks`."""
    method, alarm = config.make_method(), config.replay.alarm
    current = [Pool(r, np.arange(len(lesson.source.state)), 1.0) for r, lesson in enumerate(data.new)]
    old = data.lessons[data.learning :]
    kept = {}
    for lesson in old:
        known = data.buffer.of(lesson.task.name)
        kept[known.task] = lesson.source.frames_of(replayed(known) if config.replay.watches else known.places)
    replay: list[Pool] = []
    if old:
        weights = shares(
            list(kept),
            config.replay.share,
            frames={name: len(frames) for name, frames in kept.items()},
            groups={lesson.task.name: lesson.task.group for lesson in old},
            weights=config.replay.weights,
        )
        replay = [
            Pool(data.learning + i, frames, float(w))
            for i, (frames, w) in enumerate(zip(kept.values(), weights, strict=True))
        ]

    def rows(step: int) -> int:
        frequency = stage.frequency
        if alarm is not None and stage.start == "previous":  # from the base, no watched loss could rise
            frequency = eased(frequency, alarm, list(kept), growth(looks, step))
        return method.replayed_rows(
            replace(stage, frequency=frequency), step, config.batch_size, config.replay, config.seed
        )

    return Sampler(
        config.seed,
        stage.number,
        stage.steps,
        config.batch_size,
        tuple(current),
        tuple(replay),
        rows,
        (lambda step: shares_by_need(list(kept), growth(looks, step))) if config.replay.share == "need" else None,
    )

"""The paper's study on data of a real robot: pi0.5, three streams, four methods, and everything that it varies.

Settings come from the catalog. Where Holdfast has a way of its own, the recipe takes the paper's: replayed samples by
what is kept, a coin seeded by the step, an average without warmup, and quantiles of active joints as they are. What
still differs is in docs/paper.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from holdfast import catalog
from holdfast.norm.config import NormConfig
from holdfast.norm.strategies import StrategyName
from holdfast.recipes.recipe import Parts, Recipe
from holdfast.replay.config import ReplayConfig
from holdfast.train.config import TrainConfig
from holdfast.train.presets import preset

METHODS = ("finetune", "joint", "sequential", "er")
PRESET = "paper"
STREAMS = ("single_arm", "bimanual")  # of one kind of task
PUBLISHED = catalog.paper()
SEED = PUBLISHED["hyperparameters"].seed


def paper(output: Path, seed: int) -> Recipe:
    """All parts of the study from datasets under `data/`; people run the trials, so the recipe ends with training."""
    sweeps = PUBLISHED["sweeps"]
    parts: Parts = {stream: tuple(_config(output, seed, stream, method) for method in METHODS) for stream in STREAMS}
    er = {stream: parts[stream][METHODS.index("er")] for stream in STREAMS}
    parts["heterogeneous"] = (
        *(parts[stream][METHODS.index("finetune")] for stream in STREAMS),  # the baseline of FWT
        *(_scheduled(output, seed, name) for name in ("uniform", "asymmetric")),
    )
    parts["normalization"] = tuple(
        _varied(er[stream], name, norm=replace(er[stream].norm, strategy=cast(StrategyName, name)))
        for stream in sweeps.normalization_streams
        for name in sweeps.normalizations
    )
    parts["ratio"] = tuple(
        _varied(er[stream], f"ratio-{ratio:g}", replay=replace(er[stream].replay, ratio=ratio))
        for stream in sweeps.streams
        for ratio in sweeps.ratios
    )
    parts["frequency"] = tuple(
        _varied(er[stream], f"frequency-{frequency:g}", replay=replace(er[stream].replay, frequency=frequency))
        for stream in sweeps.streams
        for frequency in sweeps.frequencies
    )
    return Recipe(name="paper", tasks=(), data=Path("data"), preset=PRESET, parts=parts, fills_gpu=True)


def _config(output: Path, seed: int, stream: str, method: str) -> TrainConfig:
    return TrainConfig(
        stream=stream, method=method, output=str(output / f"{stream}-{method}"), seed=seed, **preset(PRESET)
    )


def _scheduled(output: Path, seed: int, name: str) -> TrainConfig:
    """Experience replay on the stream of both kinds of tasks, by a published schedule."""
    schedule = PUBLISHED["schedules"][name]
    config = _config(output, seed, schedule.stream, "er")
    replay = replace(config.replay, ratio=schedule.ratio, frequency=schedule.frequency)
    if schedule.weights:
        replay = replace(replay, share="group", weights=schedule.weights)
    return replace(config, output=f"{config.output}-{name}", replay=replay)


def _varied(
    config: TrainConfig, name: str, *, norm: NormConfig | None = None, replay: ReplayConfig | None = None
) -> TrainConfig:
    """The same training with one change; if it changes nothing, the training itself."""
    changed = replace(config, norm=norm or config.norm, replay=replay or config.replay)
    return config if changed == config else replace(changed, output=f"{config.output}-{name}")

"""The benchmark's three streams in the twin, for one GPU: nano from its pretrained base, the paper's replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.catalog import load_stream
from holdfast.recipes.recipe import Evaluate, Recipe, Record
from holdfast.train.config import TrainConfig
from holdfast.train.presets import preset

PRESET = "gpu"
SIZE = 96  # of recorded images, as large as the preset reads them


def single_arm(output: Path, seed: int) -> Recipe:
    """Five single-arm tasks."""
    return _twin("single_arm", output, seed)


def bimanual(output: Path, seed: int) -> Recipe:
    """Five two-arm tasks."""
    return _twin("bimanual", output, seed)


def heterogeneous(output: Path, seed: int) -> Recipe:
    """Single-arm and two-arm tasks alternating, with the paper's asymmetric replay."""
    return _twin("heterogeneous", output, seed, {"frequency": 0.3, "share": "group"})


def _twin(stream: str, output: Path, seed: int, replay: dict[str, Any] | None = None) -> Recipe:
    data = output / "data"

    def config(method: str) -> TrainConfig:
        config = TrainConfig(
            stream=stream,
            data_root=str(data),
            method=method,
            output=str(output / method),
            share=str(output / "shared"),  # the first stage is the same without and with replay
            seed=seed,
            **preset(PRESET),
        )
        return replace(config, replay=replace(config.replay, **replay or {}))

    return Recipe(
        name=stream,
        tasks=load_stream(stream, str(data)).names,
        data=data,
        preset=PRESET,
        parts={stream: (config("sequential"), config("er"))},
        record=Record(episodes=100, size=SIZE, seed=1_000_000 + 10_000 * seed),
        evaluate=Evaluate(trials=20, horizon=8),
    )

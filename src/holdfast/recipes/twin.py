"""The benchmark's three streams in the twin, for one GPU: nano from its pretrained base, the paper's replay."""

from __future__ import annotations

from pathlib import Path

from holdfast.catalog import load_stream
from holdfast.norm.config import NormConfig
from holdfast.policies.config import PolicyChoice
from holdfast.recipes.recipe import Evaluate, Recipe, Record
from holdfast.replay.config import ReplayConfig
from holdfast.train.config import CheckpointConfig, OptimConfig, TrainConfig

SIZE = 96


def single_arm(output: Path, seed: int) -> Recipe:
    """Five single-arm tasks."""
    return _twin("single_arm", output, seed, ReplayConfig())


def bimanual(output: Path, seed: int) -> Recipe:
    """Five two-arm tasks."""
    return _twin("bimanual", output, seed, ReplayConfig())


def heterogeneous(output: Path, seed: int) -> Recipe:
    """Single-arm and two-arm tasks alternating, with the paper's asymmetric replay."""
    return _twin("heterogeneous", output, seed, ReplayConfig(frequency=0.3, share="group"))


def _twin(stream: str, output: Path, seed: int, replay: ReplayConfig) -> Recipe:
    data = output / "data"

    def config(method: str) -> TrainConfig:
        return TrainConfig(
            stream=stream,
            data_root=str(data),
            method=method,
            output=str(output / method),
            share=str(output / "shared"),  # the first stage is the same without and with replay
            policy=PolicyChoice(path="nano-base", options={"image_size": str(SIZE)}),
            steps=800,
            batch_size=128,
            seed=seed,
            replay=replay,
            norm=NormConfig(stats="nano-base"),
            optim=OptimConfig(lr=1e-3, warmup=50, ema=0.99),
            checkpoint=CheckpointConfig(every=1000),
        )

    return Recipe(
        name=stream,
        tasks=load_stream(stream, str(data)).names,
        data=data,
        parts={stream: (config("sequential"), config("er"))},
        record=Record(episodes=100, size=SIZE, seed=1_000_000 + 10_000 * seed),
        evaluate=Evaluate(trials=20, horizon=8),
    )

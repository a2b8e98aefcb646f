"""The newcomer's run: three toy tasks, learned one after the other without and with replay, on a CPU in minutes."""

from __future__ import annotations

from pathlib import Path

from holdfast.policies.config import PolicyChoice
from holdfast.train.config import CheckpointConfig, LogConfig, OptimConfig, ReplayConfig, TrainConfig

EMBODIMENT = "piper_x_pair"
STREAM = f"""\
name = "toy"
embodiment = "{EMBODIMENT}"

[[task]]
name = "reach_left"
instruction = "Reach for the mark with the left arm."
arms = ["left"]
dataset = "reach_left"

[[task]]
name = "lift_together"
instruction = "Lift at the mark with both arms."
arms = ["left", "right"]
dataset = "lift_together"

[[task]]
name = "sweep_left"
instruction = "Sweep past the mark with the left arm."
arms = ["left"]
dataset = "sweep_left"
"""


def quickstart(data: Path, output: Path, method: str, seed: int) -> TrainConfig:
    """A small nano on the toy stream, with frozen first-task statistics and more replay than in the paper."""
    small = {"image_size": 48, "width": 96, "heads": 4, "encoder_layers": 1, "decoder_layers": 2, "chunk_size": 12}
    return TrainConfig(
        stream=str(data / "stream.toml"),
        method=method,
        output=str(output / method),
        policy=PolicyChoice("nano", options={name: str(value) for name, value in small.items()}),
        steps=400,
        batch_size=32,
        seed=seed,
        device="cpu",
        # A toy task has 40 demonstrations instead of 500, so a fifth of them would be eight, then four, then two.
        replay=ReplayConfig(ratio=0.5, frequency=0.3),
        optim=OptimConfig(lr=1e-3, warmup=50, ema=0.99),
        checkpoint=CheckpointConfig(every=200),
        log=LogConfig(every=20),
    )

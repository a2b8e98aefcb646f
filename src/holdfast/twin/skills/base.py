"""The pretrained base of nano: skills of the playground, demonstrated by scripts and learned in minutes on a GPU.

It is to the twin what pi0.5 is to the paper: trained to move both arms, grasp, push and press on instruction, but on
none of the ten tasks. `src/holdfast/policies/nano/base` is a copy of what `holdfast run base` writes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.processes import worker_pool
from holdfast.core.progress import progress_bar
from holdfast.data.lerobot.source import ACTION, STATE
from holdfast.embodiments import EMBODIMENTS
from holdfast.norm.config import NormConfig
from holdfast.norm.released import write_norm_stats
from holdfast.norm.stats import RunningStats
from holdfast.norm.strategies import Space, calibrated_space, widen
from holdfast.policies.adapter import Adapter
from holdfast.policies.config import AugmentConfig
from holdfast.policies.device import choose_device
from holdfast.policies.fresh_nano import fresh_nano
from holdfast.train.config import OptimConfig
from holdfast.train.pretrain import Experience, PretrainConfig, pretrain
from holdfast.twin.cell import CAMERAS
from holdfast.twin.skills.generate import Episode, demonstrate

ROBOT = EMBODIMENTS["piper_x_pair"]


@dataclass(frozen=True)
class BaseConfig:
    """Scale of the pretraining; the shipped base was made with these numbers."""

    episodes: int = 5000
    size: int = 96  # pixels a side, as rendered
    every: int = 3  # control steps between two images
    processes: int = 14
    device: str = "cuda"
    seed: int = 0
    # Width 128 can be trained on a laptop; the base then has 2 M parameters, 8 MB.
    policy: dict[str, Any] = field(
        default_factory=lambda: {"width": 128, "heads": 4, "encoder_layers": 2, "decoder_layers": 3}
    )
    train: PretrainConfig = field(
        default_factory=lambda: PretrainConfig(
            steps=3700,
            batch_size=1024,
            sizes=(64, 96),
            seed=0,
            optim=OptimConfig(lr=1e-3, warmup=500, ema=0.999, final=0.02, weight_decay=1e-4),
            augment=AugmentConfig(brightness=0.2, contrast=0.2, saturation=0.2),
        )
    )


def make_base(config: BaseConfig, output: Path, console: Console) -> Path:
    """Demonstrate, train, and write the policy with its statistics and provenance."""
    if output.exists():
        raise HoldfastError(f"{output} exists. Choose another --output, or delete it to make the base again.")
    choose_device(config.device)  # fail on a missing GPU now, not after the demonstrations
    return teach(collect(range(config.seed, config.seed + config.episodes), config, console), config, output, console)


def teach(episodes: Sequence[Episode], config: BaseConfig, output: Path, console: Console) -> Path:
    """Train a fresh policy on demonstrations and write it."""
    device = choose_device(config.device)
    skills = dict(sorted(Counter(e.skill for e in episodes).items()))
    console.print(f"{len(episodes)} episodes: {skills}")
    experience = lay_out(episodes, config.every)
    adapter = fresh_nano(ROBOT.names, CAMERAS, config.size, device, config.seed, **config.policy)
    space = measure(episodes, adapter)
    losses: dict[int, float] = {}
    with progress_bar(console) as bar:
        task = bar.add_task("pretraining", total=config.train.steps, note="")

        def report(step: int, loss: float) -> None:
            losses[step] = round(loss, 5)
            bar.update(task, completed=step, note=f"loss {loss:.4f}")
            if not console.is_terminal:
                console.print(f"step {step}: loss {loss:.4f}")

        pretrain(adapter, space, experience.to(device), config.train, device, report)
    adapter.config.device = "cpu"  # so that it loads without a GPU
    adapter.save(output, space)
    write_norm_stats(output / "norm_stats.json", space)
    provenance = {
        "config": asdict(config),
        "episodes": len(episodes),
        "frames": len(experience.frames),
        "skills": skills,
        "instructions": sorted({e.instruction for e in episodes}),
        "loss": losses[max(losses)],
    }
    (output / "provenance.json").write_text(json.dumps(provenance, indent=1))
    return output


def collect(seeds: Sequence[int], config: BaseConfig, console: Console) -> list[Episode]:
    """Demonstrations of the playground, in the order of their seeds; failed ones are left out."""
    work = partial(demonstrate, size=config.size, every=config.every)
    episodes = []
    with worker_pool(config.processes) as pool, progress_bar(console) as bar:
        task = bar.add_task("demonstrating", total=len(seeds), note="")
        for episode in pool.map(work, seeds, chunksize=8):
            bar.advance(task)
            if episode is not None:
                episodes.append(episode)
    return episodes


def lay_out(episodes: Sequence[Episode], every: int) -> Experience:
    """Concatenate episodes for training."""
    steps = np.cumsum([0, *(len(e.states) for e in episodes)])
    counts = [len(e.frames) for e in episodes]
    frames = torch.empty(sum(counts), *episodes[0].frames.shape[1:], dtype=torch.uint8)
    filled = 0
    for episode in episodes:
        frames[filled : filled + len(episode.frames)] = torch.from_numpy(episode.frames)
        filled += len(episode.frames)
    shown = [start + every * np.arange(n) for start, n in zip(steps, counts, strict=False)]
    return Experience(
        cameras=CAMERAS,
        every=every,
        instructions=tuple(e.instruction for e in episodes),
        states=torch.from_numpy(np.concatenate([e.states for e in episodes])),
        actions=torch.from_numpy(np.concatenate([e.actions for e in episodes])),
        frames=frames,
        frame_step=torch.from_numpy(np.concatenate(shown)),
        frame_end=torch.from_numpy(np.repeat(steps[1:], counts)),
        frame_episode=np.repeat(np.arange(len(episodes)), counts),
    )


def measure(episodes: Sequence[Episode], adapter: Adapter) -> Space:
    """Quantiles over all episodes, each at least the usual share of the declared range."""
    layout, chunk = adapter.layout, adapter.layout.chunk
    running = {STATE: RunningStats(), ACTION: RunningStats()}
    for episode in episodes:
        running[STATE].update(episode.states)
        for delta in range(chunk):
            ahead = episode.actions[delta:]
            running[ACTION].update(ahead - np.where(layout.relative, episode.states[: len(ahead)], 0))
    measured = Space(running[STATE].finish(), running[ACTION].finish())
    declared = calibrated_space(ROBOT, layout.relative, chunk)
    return widen(measured, declared, {STATE: ROBOT.names, ACTION: ROBOT.names}, NormConfig().floor)

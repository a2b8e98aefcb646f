"""Does it learn at all?"""

from __future__ import annotations

import math
from typing import Any

import torch

from holdfast.data.lerobot.source import ACTION, IMAGES
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.train.config import OptimConfig
from pi05_parts.bench import CAMERAS, CHUNK, DIMENSIONS, TOKENS, Bench

LEARNING_RATE = 3e-4  # of the check that it learns


def overfit(bench: Bench) -> dict[str, Any]:
    """From random weights, 8 episodes by heart: a broken backward pass cannot lower the loss tenfold in 200 steps."""
    steps, policy = (8 if bench.tiny else 200), bench.policy()
    step, state = bench.stepper(policy, bench.batch, steps, OptimConfig(lr=LEARNING_RATE, warmup=20))
    episodes = [episode(bench, policy.config, seed) for seed in range(8)]
    losses = [step(state, _mix(episodes, number))[0][0].total for number in range(steps)]
    curve = torch.stack(losses).float().cpu()
    width = max(1, steps // 20)
    first, last = float(curve[0]), float(curve[-width:].mean())  # not the first few: the loss rises before it falls
    return {"200 steps": {"first": first, "last": last, "ratio": first / last,
                          "curve": [round(float(x), 4) for x in curve[::10]]}}  # fmt: skip


def episode(bench: Bench, config: Pi05FastConfig, seed: int) -> dict[str, Any]:
    """Frames of one demonstration: one camera in which a bright square moves along, words, and a motion of its own."""
    frames = bench.batch_of(bench.batch, 64, config, seed)
    frames = {key: value for key, value in frames.items() if not key.startswith(IMAGES) or key == IMAGES + CAMERAS[0]}
    draw, side = torch.Generator().manual_seed(100 + seed), config.image_resolution[0]
    progress = torch.linspace(0, 1, bench.batch)
    direction = torch.randn(DIMENSIONS, generator=draw).sign()
    swing = 0.3 * torch.sin(2 * math.pi * progress[:, None, None] + torch.linspace(0, 0.3, CHUNK)[:, None])
    frames[ACTION] = direction + swing.expand(-1, -1, DIMENSIONS)
    for key in (k for k in frames if k.startswith(IMAGES)):
        frames[key][:] = frames[key][:1] // 2
        for row, share in enumerate(progress):
            left = int(share * side * 0.75)
            frames[key][row, :, side // 4 : side // 2, left : left + side // 4] = 255
    frames[TOKENS][:] = frames[TOKENS][:1]
    frames[TOKENS][:, -8:] = 4 + torch.arange(bench.batch)[:, None]  # as the bins of the state say how far it is
    return frames


def _mix(episodes: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """A batch drawn from all episodes."""
    rows = len(episodes[0]["task"])
    draw = torch.Generator().manual_seed(number)
    which, place = torch.randint(len(episodes), (rows,), generator=draw), torch.randint(rows, (rows,), generator=draw)
    return {
        key: torch.stack([episodes[e][key][p] for e, p in zip(which.tolist(), place.tolist(), strict=True)])
        if isinstance(value, torch.Tensor)
        else value
        for key, value in episodes[0].items()
    }

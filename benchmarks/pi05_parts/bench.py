"""Sizes, policies, batches and clocks of the pi0.5 benchmark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lerobot.configs import FeatureType, PolicyFeature

from holdfast.data.lerobot.source import ACTION, IMAGES, STATE
from holdfast.policies.adapter import Adapter
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.modeling_pi05 import Pi05FastPolicy
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.state import TrainingState
from holdfast.train.step import Stepper

PEAK = 790e12  # bf16 FLOP/s of an H200 in practice
CAMERAS = ("head", "front", "left_wrist", "right_wrist")
TOKENS, WORDS = "observation.language.tokens", "observation.language.attention_mask"
CHUNK, DIMENSIONS = 10, 14
TINY = {
    "width": 64, "mlp_dim": 96, "depth": 3, "head_dim": 16, "vocabulary": 600, "expert_width": 32,
    "expert_mlp_dim": 48, "vision_width": 32, "vision_mlp_dim": 40, "vision_layers": 2, "vision_heads": 4,
    "image_resolution": (28, 28),
}  # fmt: skip


class Bench:
    """Sizes and device of this run, the policies made for it, and the file of what was found."""

    def __init__(self, tiny: bool, output: Path) -> None:
        self.tiny, self.output = tiny, output
        self.device = "cpu" if tiny or not torch.cuda.is_available() else "cuda"
        self.batch = 2 if tiny else 16
        self.steps = 2 if tiny else 10

    def config(self, **changes: Any) -> Pi05FastConfig:
        """Full size, or tiny."""
        image = PolicyFeature(FeatureType.VISUAL, (3, 224, 224))
        return Pi05FastConfig(
            **{
                **(TINY if self.tiny else {}),
                "device": self.device,
                "chunk_size": CHUNK,
                "n_action_steps": CHUNK,
                "input_features": {
                    STATE: PolicyFeature(FeatureType.STATE, (DIMENSIONS,)),
                    **{IMAGES + camera: image for camera in CAMERAS},
                },
                "output_features": {ACTION: PolicyFeature(FeatureType.ACTION, (DIMENSIONS,))},
                **changes,
            }
        )

    def policy(self, **changes: Any) -> Pi05FastPolicy:
        """Ours, at random."""
        torch.manual_seed(0)
        return Pi05FastPolicy(self.config(**changes))

    def batch_of(
        self, rows: int, tokens: int, config: Pi05FastConfig, seed: int = 0, padded: bool = False
    ) -> dict[str, Any]:
        """A batch as the data gives it, with the prompt's tokens already in; `padded`: no two prompts equally long."""
        draw = torch.Generator().manual_seed(seed)
        side = config.image_resolution[0]

        def pinned(values: torch.Tensor) -> torch.Tensor:
            return values.pin_memory() if self.device == "cuda" else values

        def pixels() -> torch.Tensor:
            return torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8, generator=draw)

        lengths = torch.arange(tokens - rows + 1, tokens + 1)[:, None]
        return {
            **({WORDS: pinned(torch.arange(tokens) < lengths)} if padded else {}),
            **{IMAGES + camera: pinned(pixels()) for camera in CAMERAS},
            STATE: pinned(torch.randn(rows, DIMENSIONS, generator=draw)),
            ACTION: pinned(torch.randn(rows, CHUNK, DIMENSIONS, generator=draw)),
            "action_is_pad": pinned(torch.zeros(rows, CHUNK, dtype=torch.bool)),
            TOKENS: pinned(torch.randint(4, config.vocabulary, (rows, tokens), generator=draw)),
            "task": ["Stack the bowls."] * rows,
            "task_index": torch.zeros(rows, dtype=torch.int64),
        }

    def stepper(
        self, policy: Pi05FastPolicy, rows: int, steps: int, optim: OptimConfig
    ) -> tuple[Stepper, TrainingState]:
        """The engine's step; only tokenizing is left out."""
        config = TrainConfig(stream="bench", batch_size=rows, steps=steps, device=self.device, optim=optim)
        adapter = Adapter(policy.train(), tuple(f"joint_{i}" for i in range(DIMENSIONS)))
        return Stepper(config, adapter, lambda batch: batch, None, 1, steps, self.device), TrainingState(policy, optim)

    def keep(self, found: dict[str, Any]) -> None:
        """Say and write down what a part has found so far: it may be stopped before its end."""
        print(json.dumps(found), flush=True)
        self.output.write_text(json.dumps(found))

    def sync(self) -> None:
        """Wait for the device."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any], times: int) -> float:
        """Median time of a call, the device's work included."""
        taken = []
        for _ in range(times):
            self.sync()
            begun = time.perf_counter()
            call()
            self.sync()
            taken.append(time.perf_counter() - begun)
        return sorted(taken)[len(taken) // 2]

    def peak(self) -> float:
        """Most GiB ever allocated since the peak was reset."""
        return torch.cuda.max_memory_allocated() / 2**30 if self.device == "cuda" else 0.0


def flops(config: Pi05FastConfig, rows: int, tokens: int) -> float:
    """Of a training step's matrices: 6 per parameter and token (SigLIP 0.41 B, Gemma 1.98 B, expert 0.31 B)."""

    def layer(width: int, inner: int) -> int:
        return 2 * width * (config.heads + 1) * config.head_dim + 3 * width * inner

    wide = config.vision_width
    vision = config.vision_layers * (4 * wide**2 + 2 * wide * config.vision_mlp_dim)
    language = config.depth * layer(config.width, config.mlp_dim)
    expert = config.depth * layer(config.expert_width, config.expert_mlp_dim)
    images = len(CAMERAS) * config.image_tokens
    return 6.0 * (vision * images + language * (images + tokens) + expert * CHUNK) * rows

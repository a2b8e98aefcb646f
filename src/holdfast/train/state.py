"""What must survive a kill inside a stage: live weights, their average, AdamW's moments, and the step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from holdfast.train.config import OptimConfig
from holdfast.train.optim import Average, build_optimizer

TENSORS, STEP = "training.safetensors", "state.json"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class TrainingState:
    """Model, optimizer and average of one stage. Optimizer and average are fresh at every stage's start."""

    def __init__(self, policy: Any, config: OptimConfig) -> None:
        self.policy = policy
        self.optimizer = build_optimizer(policy, config)
        self.parameters = {name: p for name, p in policy.named_parameters() if p.requires_grad}
        self.average = Average(self.parameters, config.ema) if config.ema else None
        self.step = 0

    def advance(self, clip: float) -> torch.Tensor:
        """Clip the gradients, take the optimizer's step and let the average follow; returns the gradient's norm."""
        weights = list(self.parameters.values())
        if weights[0].is_cuda:
            from holdfast.train import fused  # Triton is only there where a GPU may be

            if fused.worthwhile(weights):
                averages = self.average.by_weight if self.average else {}
                pace = self.average.pace(self.step) if self.average else 0.0
                self.step += 1
                return fused.update(self.optimizer, averages, pace, clip)
        norm = torch.nn.utils.clip_grad_norm_(weights, clip)
        self.optimizer.step()
        if self.average:
            self.average.update(self.step)
        self.step += 1
        return norm

    @property
    def size(self) -> int:
        """Bytes that `save` will write."""
        copies = 3 + (self.average is not None)
        return sum(p.numel() * p.element_size() for p in self.parameters.values()) * copies

    def save(self, folder: Path) -> None:
        """Write everything needed to go on at `self.step`."""
        tensors = {f"buffer/{name}": b for name, b in self.policy.named_buffers()}
        for name, parameter in self.parameters.items():
            tensors[f"weight/{name}"] = parameter.detach()
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"{key}/{name}"] = value
            if self.average:
                tensors[f"average/{name}"] = self.average.values[name]
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / TENSORS)
        (folder / STEP).write_text(json.dumps({"step": self.step}))

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """Inverse of `save`."""
        self.step = json.loads((folder / STEP).read_text())["step"]
        stored = load_file(folder / TENSORS)
        for name, buffer in self.policy.named_buffers():
            buffer.copy_(stored[f"buffer/{name}"])
        for name, parameter in self.parameters.items():
            parameter.copy_(stored[f"weight/{name}"])
            moments = {key: stored[f"{key}/{name}"] for key in MOMENTS if f"{key}/{name}" in stored}
            if moments:  # a parameter that never had a gradient has none
                on_device = self.optimizer.defaults["fused"]
                self.optimizer.state[parameter] = {
                    key: value.to(parameter.device) if key != "step" or on_device else value
                    for key, value in moments.items()
                }
            if self.average:
                self.average.values[name].copy_(stored[f"average/{name}"])

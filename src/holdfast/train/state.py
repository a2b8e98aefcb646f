"""The training state that a stage saves on the way: live weights, their average, AdamW's moments, step and looks."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.core.shapes import check_shapes
from holdfast.replay.looks import Look, check_looks
from holdfast.train.config import OptimConfig
from holdfast.train.distributed.ranks import ALONE, Ranks
from holdfast.train.distributed.shards import is_sharded, laid_out_like, read_shards, shard_shapes, whole, write_shards
from holdfast.train.optim import Average, build_optimizer

TENSORS, STEP = "training.safetensors", "state.json"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class TrainingState:
    """Model, optimizer and average of one stage. Optimizer and average are fresh at every stage's start."""

    def __init__(self, policy: Any, config: OptimConfig, ranks: Ranks = ALONE) -> None:
        self.policy = policy
        self.optimizer = build_optimizer(policy, config)
        self.parameters = {name: p for name, p in policy.named_parameters() if p.requires_grad}
        self.average = Average(self.parameters, config.ema, config.ema_warmup) if config.ema else None
        self.step = 0
        self.looks: list[Look] = []  # at watched episodes, if replay follows them
        self._ranks = ranks

    def advance(self, clip: float) -> torch.Tensor:
        """Clip the gradients, take the optimizer's step and update the average; returns the gradient's norm."""
        weights = list(self.parameters.values())
        if weights[0].is_cuda:
            from holdfast.train import fused  # Triton is only installed where there may be a GPU

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
        return whole(norm)

    @property
    def size(self) -> int:
        """Bytes that `save` will write."""
        copies = 3 + (self.average is not None)
        return sum(p.numel() * p.element_size() for p in self.parameters.values()) * copies

    def save(self, folder: Path) -> None:
        """Write all that is needed to continue at `self.step`, on any number of ranks; each writes its own shards."""
        tensors = {f"buffer/{name}": b for name, b in self.policy.named_buffers()}
        for name, parameter in self.parameters.items():
            tensors[f"weight/{name}"] = parameter.detach()
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"{key}/{name}"] = value
            if self.average:
                tensors[f"average/{name}"] = self.average.values[name]
        if any(is_sharded(p) for p in self.parameters.values()):
            write_shards(folder, tensors, self._ranks.group)
        elif self._ranks.first:
            save_file({k: v.contiguous() for k, v in tensors.items()}, folder / TENSORS)
        if self._ranks.first:
            looks = {"looks": to_json(self.looks)} if self.looks else {}
            (folder / STEP).write_text(json.dumps({"step": self.step, **looks}))

    @torch.no_grad()
    def load(self, folder: Path, last: int) -> None:
        """Inverse of `save`, whatever the number of ranks was; what does not fit the policy is refused.

        Args:
            folder: Where it was saved.
            last: The last step of the stage.
        """
        self.step, self.looks = _read_step(folder / STEP)
        if self.step > last:
            raise HoldfastError(f"The progress in {folder} is at step {self.step} of {last}. Delete it to go on.")
        stored = self._read_whole(folder) if (folder / TENSORS).exists() else self._read_shards(folder)
        for name, buffer in self.policy.named_buffers():
            buffer.copy_(stored[f"buffer/{name}"])
        for name, parameter in self.parameters.items():
            parameter.copy_(laid_out_like(stored[f"weight/{name}"], parameter))
            moments = {key: stored[f"{key}/{name}"] for key in MOMENTS if f"{key}/{name}" in stored}
            if moments:  # a parameter that never had a gradient has none
                counter = moments.pop("step")
                self.optimizer.state[parameter] = {
                    "step": counter.to(parameter.device),
                    **{key: laid_out_like(value, parameter) for key, value in moments.items()},
                }
            if self.average:
                self.average.values[name].copy_(laid_out_like(stored[f"average/{name}"], parameter))

    def _read_whole(self, folder: Path) -> dict[str, torch.Tensor]:
        """Read what one rank wrote."""
        try:
            stored = load_file(folder / TENSORS)
        except (OSError, SafetensorError) as error:
            raise HoldfastError(f"The progress in {folder} cannot be read: {TENSORS}: {error}.") from None
        shapes = {name: tuple(tensor.shape) for name, tensor in stored.items()}
        check_shapes(shapes, self._shapes(shapes), folder / TENSORS, "tensors")
        return stored

    def _read_shards(self, folder: Path) -> dict[str, torch.Tensor]:
        """Read what several ranks wrote, each tensor laid out as this state's own."""
        shapes = shard_shapes(folder)
        check_shapes(shapes, self._shapes(shapes), folder, "tensors")
        buffers = dict(self.policy.named_buffers())
        wanted = {}
        for key in shapes:
            kind, name = key.split("/", 1)
            like = torch.zeros(()) if kind == "step" else buffers[name] if kind == "buffer" else self.parameters[name]
            wanted[key] = torch.empty_like(like)
        read_shards(folder, wanted, self._ranks.group)
        return wanted

    def _shapes(self, found: Container[str]) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all tensors; a parameter has moments if the file has its counter."""
        shapes = {f"buffer/{name}": tuple(buffer.shape) for name, buffer in self.policy.named_buffers()}
        for name, parameter in self.parameters.items():
            shape = tuple(parameter.shape)
            shapes |= {f"weight/{name}": shape} | ({f"average/{name}": shape} if self.average else {})
            if f"step/{name}" in found:
                shapes |= {f"{key}/{name}": () if key == "step" else shape for key in MOMENTS}
        return shapes


def _read_step(file: Path) -> tuple[int, list[Look]]:
    content = outside.read_json(file)
    step = content.get("step") if isinstance(content, dict) else None
    if type(step) is not int or step < 0:
        raise HoldfastError(f"{file} must hold the number of a step, got {str(content)[:80]}.")
    found = content.get("looks", [])
    if not isinstance(found, list):
        raise HoldfastError(f"{file} must hold a list of looks, got {str(found)[:80]}.")
    looks = [from_json(Look, look, str(file)) for look in found]
    check_looks(looks, step, file)
    return step, looks

"""The network of pi0.5: the velocity by which noise becomes actions, given images and words."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.policies.lora_layers import Route, add_loras
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.gemma import ActionExpert, ExpertLayer, Extent, Gemma, TimedNorm, extent, reading, waves
from holdfast.policies.pi05.lora import task_targets
from holdfast.policies.pi05.recompute import RecomputePlan, plan, run
from holdfast.policies.pi05.vision import VisionTower, named

START_STD = 0.02  # of random weights, as in Gemma
# Matrices whose result a layer adds to its input.
ADDED = ("o_proj.weight", "out_proj.weight", "down_proj.weight", "fc2.weight")
SHAPES = 64  # compiled variants of each kind of layer at most: lengths of prompts, sizes of batches


class Prefix(NamedTuple):
    """Every layer's keys and values [B, length, 1, head_dim], and which of their tokens are real."""

    memories: list[tuple[Tensor, Tensor]]
    counts: Tensor
    real: Extent


class Pi05Network(nn.Module):
    """Velocity of an action chunk, given images and a prompt."""

    def __init__(self, config: Pi05FastConfig) -> None:
        super().__init__()
        self.config = config
        width = config.expert_width
        self.paligemma_with_expert = named(
            paligemma=reading(VisionTower(config), Gemma(config), config),
            gemma_expert=named(model=ActionExpert(config)),
        )
        self.action_in_proj = nn.Linear(config.max_action_dim, width)
        self.action_out_proj = nn.Linear(width, config.max_action_dim)
        self.time_mlp_in = nn.Linear(width, width)
        self.time_mlp_out = nn.Linear(width, width)
        self.route = Route()
        for lora in config.task_loras:
            add_loras(self, task_targets(config), lora.rank, self.route)
        self._plans: dict[tuple[int, int, int], RecomputePlan] = {}

    @property
    def vision(self) -> VisionTower:
        """The vision tower."""
        return cast(VisionTower, self.get_submodule("paligemma_with_expert.paligemma.model.vision_tower.vision_model"))

    @property
    def projector(self) -> nn.Linear:
        """From the vision tower's tokens to Gemma's."""
        return cast(nn.Linear, self.get_submodule("paligemma_with_expert.paligemma.model.multi_modal_projector.linear"))

    @property
    def language(self) -> Gemma:
        """Gemma 2B."""
        return cast(Gemma, self.get_submodule("paligemma_with_expert.paligemma.model.language_model"))

    @property
    def expert(self) -> ActionExpert:
        """The action expert."""
        return cast(ActionExpert, self.get_submodule("paligemma_with_expert.gemma_expert.model"))

    @property
    def layers(self) -> list[nn.Module]:
        """All layers. Each is compiled, sharded and recomputed as a unit."""
        return [*self.vision.layers, *self.language.layers, *self.expert.layers]

    def compile_layers(self) -> None:
        """Compile every layer at its first call; layers of one kind share the compiled code."""
        torch._dynamo.config.recompile_limit = max(SHAPES, torch._dynamo.config.recompile_limit)
        for layer in self.layers:
            layer.compile(dynamic=False)

    def start_at_random(self) -> None:
        """Initialize the weights. Expert layers start with zero scale and shift and open gates."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
                nn.init.normal_(module.weight, std=START_STD)
            if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for stack in (self.vision.layers, self.language.layers, self.expert.layers):
            for name, weight in stack.named_parameters():
                if name.endswith(ADDED):  # so that the sum over all layers does not grow with their number
                    weight.data.div_(math.sqrt(2 * len(stack)))
        for module in self.modules():
            if isinstance(module, TimedNorm):
                nn.init.zeros_(module.dense.weight)
                module.dense.bias.data.chunk(3)[2].fill_(1.0)
        # As large as what the layers add; else the noisy actions would be lost in it.
        nn.init.normal_(self.action_in_proj.weight, std=self.config.max_action_dim**-0.5)

    def read(self, images: Tensor, tokens: Tensor, words: Tensor | None) -> Prefix:
        """Run everything that does not depend on the actions.

        Args:
            images: All cameras [B, cameras, 3, S, S], values in [-1, 1].
            tokens: The prompt, padded at its end [B, length].
            words: Which tokens are the prompt's [B, length], bool; None where all are.
        """
        rows, cameras = images.shape[:2]
        recomputed = self._plan(rows, cameras, tokens.shape[1])
        seen = self.vision.embeddings(images.flatten(0, 1))
        for number, layer in enumerate(self.vision.layers):
            seen = run(layer, number < recomputed.vision, seen)
        seen = self.projector(self.vision.post_layernorm(seen)).reshape(rows, -1, self.config.width)
        prompt = self.language.embed_tokens(tokens) * math.sqrt(self.config.width)
        x = torch.cat([seen, prompt.to(seen.dtype)], 1)
        if words is None:
            counts, real = torch.full((rows,), x.shape[1], device=x.device), Extent()
        else:
            counts = seen.shape[1] + words.sum(1)
            real = extent(counts, x.shape[1])
        by = waves(torch.arange(x.shape[1], device=x.device), self.config.head_dim)
        memories = []
        for number, layer in enumerate(self.language.layers):
            x, keys, values = run(layer, number < recomputed.language, x, by, real)
            memories.append((keys, values))
        return Prefix(memories, counts, real)

    def velocity(self, prefix: Prefix, noisy: Tensor, time: Tensor) -> Tensor:
        """Velocity of noisy actions [B, chunk, max_action_dim] at time [B], from 1 (noise) to 0 (actions); fp32."""
        with torch.autocast(noisy.device.type, enabled=False):  # small, and the actions need full precision
            x = self.action_in_proj(noisy.float())
            moment = F.silu(self.time_mlp_out(F.silu(self.time_mlp_in(self._embed_time(time)))))
        by = waves(prefix.counts[:, None] + torch.arange(x.shape[1], device=x.device), self.config.head_dim)
        for layer, (keys, values) in zip(self.expert.layers, prefix.memories, strict=True):
            x = cast(ExpertLayer, layer)(x, moment, by, keys, values, prefix.real)
        x, _ = self.expert.norm(x, moment)
        with torch.autocast(noisy.device.type, enabled=False):
            return cast(Tensor, self.action_out_proj(x.float()))

    def forward(
        self, images: Tensor, tokens: Tensor, words: Tensor | None, actions: Tensor, noise: Tensor, time: Tensor
    ) -> Tensor:
        """Predicted minus true velocity at the given noise and time [B, chunk, max_action_dim]."""
        blend = torch.lerp(actions, noise, time[:, None, None])
        prefix = self.read(images, tokens, words)
        return self.velocity(prefix, blend, time) - (noise - actions)

    def act(self, images: Tensor, tokens: Tensor, words: Tensor | None, noise: Tensor) -> Tensor:
        """Integrate from noise to actions [B, chunk, max_action_dim] in Euler steps."""
        prefix = self.read(images, tokens, words)
        steps, x = self.config.num_inference_steps, noise
        for step in range(steps):
            time = torch.full((len(x),), 1 - step / steps, device=x.device)
            x = x - self.velocity(prefix, x, time) / steps
        return x

    def _embed_time(self, time: Tensor) -> Tensor:
        """Sines and cosines of the time, in double precision because the fastest has 250 periods per unit."""
        config = self.config
        share = torch.linspace(0, 1, config.expert_width // 2, dtype=torch.float64, device=time.device)
        period = config.min_period * (config.max_period / config.min_period) ** share
        angle = 2 * math.pi / period * time[:, None]
        return torch.cat([angle.sin(), angle.cos()], 1).float()

    def _plan(self, rows: int, cameras: int, words: int) -> RecomputePlan:
        if not (self.training and torch.is_grad_enabled()):
            return RecomputePlan(0, 0)
        key = rows, cameras, words
        if key not in self._plans:
            self._plans[key] = plan(self.config, self, *key)
        return self._plans[key]

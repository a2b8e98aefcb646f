"""The two transformers of pi0.5: Gemma reads images and words, a smaller one turns noise into actions.

Images and words (the prefix) never attend to the actions (the suffix). So the prefix runs first and every layer returns
its keys and values, to which the suffix attends: once in training, ten times when acting. Modules are named as in the
published weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.varlen import varlen_attn

from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.vision import named

EPSILON = 1e-6
ROPE_BASE = 10_000.0


class Waves(NamedTuple):
    """Cosines and sines of rotary positions, [..., length, 1, head_dim / 2]."""

    cos: Tensor
    sin: Tensor


def waves(positions: Tensor, head_dim: int) -> Waves:
    """The rotation of every position [..., length]."""
    exponent = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    angle = positions[..., None, None].float() / ROPE_BASE**exponent
    return Waves(angle.cos(), angle.sin())


def rotate(x: Tensor, by: Waves) -> Tensor:
    """Turn queries or keys [B, length, heads, head_dim] by their positions."""
    first, second = x.float().chunk(2, -1)
    turned = torch.cat([first * by.cos - second * by.sin, second * by.cos + first * by.sin], -1)
    return turned.to(x.dtype)


class Extent(NamedTuple):
    """Which tokens of a prefix [B, length] are real; padding is at its end. Both are None where there is no padding.

    `mask` [B, 1, 1, length] is for attention with a mask. `borders` [2 B + 1], on a GPU, is for attention without one:
    every row counts as two sequences, its real tokens and its padding, and each attends only to itself.
    """

    mask: Tensor | None = None
    borders: Tensor | None = None


def extent(counts: Tensor, length: int) -> Extent:
    """From the number of real tokens of each row, int64 [B]."""
    mask = (torch.arange(length, device=counts.device) < counts[:, None])[:, None, None]
    if not counts.is_cuda:
        return Extent(mask)
    starts = torch.arange(len(counts), device=counts.device) * length
    ends = torch.stack([starts + counts, starts + length], 1).flatten()
    return Extent(mask, F.pad(ends, (1, 0)).int())


class Attention(nn.Module):
    """Projections of attention with many heads of queries and one of keys and values."""

    def __init__(self, width: int, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.q_proj = nn.Linear(width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, head_dim, bias=False)
        self.v_proj = nn.Linear(width, head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)

    def queries(self, x: Tensor, by: Waves) -> Tensor:
        """Queries [B, length, heads, head_dim]."""
        return rotate(self.q_proj(x).unflatten(-1, (self.heads, self.head_dim)), by)

    def memory(self, x: Tensor, by: Waves) -> tuple[Tensor, Tensor]:
        """Keys and values [B, length, 1, head_dim]."""
        return rotate(self.k_proj(x)[:, :, None], by), self.v_proj(x)[:, :, None]


class FeedForward(nn.Module):
    """Gated feed-forward."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to every token."""
        return self.down_proj(F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))


class Norm(nn.Module):
    """Gemma's RMS normalization: its weight is the difference from one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize in fp32, return x's precision."""
        return (normalized(x) * (1 + self.weight.float())).to(x.dtype)


class TimedNorm(nn.Module):
    """RMS normalization whose scale and shift, and a gate on what follows, depend on the time of the flow."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor, moment: Tensor) -> tuple[Tensor, Tensor]:
        """Normalize x [B, chunk, width] at the embedded time [B, width]; also returns the gate [B, 1, width]."""
        scale, shift, gate = self.dense(moment)[:, None].float().chunk(3, -1)
        return (normalized(x) * (1 + scale) + shift).to(x.dtype), gate


def normalized(x: Tensor) -> Tensor:
    """Unit root mean square over the last axis, in fp32."""
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON)


class PrefixLayer(nn.Module):
    """A layer of Gemma 2B. The last one computes keys and values only, because nothing uses its output."""

    def __init__(self, config: Pi05FastConfig, last: bool) -> None:
        super().__init__()
        self.last = last
        self.input_layernorm = Norm(config.width)
        self.self_attn = Attention(config.width, config.heads, config.head_dim)
        self.post_attention_layernorm = Norm(config.width)
        self.mlp = FeedForward(config.width, config.mlp_dim)
        if last:
            for unused in (self.self_attn.q_proj, self.self_attn.o_proj, self.post_attention_layernorm, self.mlp):
                unused.requires_grad_(False)

    def forward(self, x: Tensor, by: Waves, real: Extent) -> tuple[Tensor, Tensor, Tensor]:
        """Refine x [B, length, width]; also returns this layer's keys and values [B, length, 1, head_dim]."""
        y = self.input_layernorm(x)
        keys, values = self.self_attn.memory(y, by)
        if self.last:
            return x, keys, values
        seen = look_around(self.self_attn.queries(y, by), keys, values, real)
        x = x + self.self_attn.o_proj(seen)
        return x + self.mlp(self.post_attention_layernorm(x)), keys, values


def look_around(q: Tensor, k: Tensor, v: Tensor, real: Extent) -> Tensor:
    """Attention of real tokens to real tokens; [B, length, heads * head_dim]."""
    if real.borders is None or q.dtype == torch.float32:  # the kernel below supports only half precision
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, real.mask, enable_gqa=True).transpose(1, 2).flatten(2)
    length = q.shape[1]
    seen = varlen_attn(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), real.borders, real.borders, length, length)
    assert isinstance(seen, Tensor)
    return seen.view(q.shape).flatten(2)


class ExpertLayer(nn.Module):
    """A layer of the action expert."""

    def __init__(self, config: Pi05FastConfig) -> None:
        super().__init__()
        width = config.expert_width
        self.input_layernorm = TimedNorm(width)
        self.self_attn = Attention(width, config.heads, config.head_dim)
        self.post_attention_layernorm = TimedNorm(width)
        self.mlp = FeedForward(width, config.expert_mlp_dim)

    def forward(self, x: Tensor, moment: Tensor, by: Waves, keys: Tensor, values: Tensor, real: Extent) -> Tensor:
        """Refine the noisy chunk x [B, chunk, width], attending to itself and to the prefix's keys and values."""
        y, gate = self.input_layernorm(x, moment)
        own_keys, own_values = self.self_attn.memory(y, by)
        seen = look_back(
            self.self_attn.queries(y, by),
            torch.cat([keys.to(own_keys.dtype), own_keys], 1)[:, :, 0],
            torch.cat([values.to(own_values.dtype), own_values], 1)[:, :, 0],
            None if real.mask is None else F.pad(real.mask[:, 0], (0, x.shape[1]), value=True),
        )
        x = x + self.self_attn.o_proj(seen) * gate
        y, gate = self.post_attention_layernorm(x, moment)
        return x + self.mlp(y) * gate


def look_back(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of a few queries [B, chunk, heads, d] to many keys [B, length, d]; `mask` [B, 1, length]: real ones.

    All heads share the keys, so their queries are one long list. That is too little work for an attention kernel.
    """
    scores = (q.flatten(1, 2) @ k.transpose(1, 2)).float() * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return (scores.softmax(-1).to(v.dtype) @ v).view(q.shape).flatten(2)


class Gemma(nn.Module):
    """The language model: word embeddings, layers, and a last norm that is in the published weights but unused."""

    def __init__(self, config: Pi05FastConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(PrefixLayer(config, i + 1 == config.depth) for i in range(config.depth))
        self.norm = Norm(config.width).requires_grad_(False)


class ActionExpert(nn.Module):
    """The action expert: layers and a last norm."""

    def __init__(self, config: Pi05FastConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ExpertLayer(config) for _ in range(config.depth))
        self.norm = TimedNorm(config.expert_width)


def reading(vision: nn.Module, language: nn.Module, config: Pi05FastConfig) -> nn.Module:
    """PaliGemma's tree of names around the vision tower and the language model."""
    linear = nn.Linear(config.vision_width, config.width)
    return named(
        model=named(
            vision_tower=named(vision_model=vision),
            multi_modal_projector=named(linear=linear),
            language_model=language,
        )
    )

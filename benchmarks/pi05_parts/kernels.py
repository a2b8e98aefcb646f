"""Kernels that were chosen, and others that could have been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

from holdfast.train import fused
from holdfast.train.config import OptimConfig
from holdfast.train.state import TrainingState
from pi05_parts.bench import Bench


def attention(bench: Bench) -> dict[str, Any]:
    """Kernels for Gemma's attention, forward and backward, that could be chosen."""
    rows, length, heads, width = (2, 40, 8, 16) if bench.tiny else (bench.batch, 1224, 8, 256)
    shape = {"device": bench.device, "dtype": torch.bfloat16, "requires_grad": True}
    q, k, v = (torch.randn(rows, length, n, width, **shape) for n in (heads, 1, 1))
    borders = torch.arange(rows + 1, device=bench.device, dtype=torch.int32) * length

    def dense(backend: SDPBackend, spread: bool) -> torch.Tensor:
        keys = [part.expand(-1, -1, heads, -1) if spread else part for part in (k, v)]
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(*(p.transpose(1, 2) for p in (q, *keys)), enable_gqa=not spread)

    def one_head(backend: SDPBackend) -> torch.Tensor:
        """All heads share their keys, so they can be taken as one with many queries."""
        with sdpa_kernel(backend):
            parts = (q.flatten(1, 2)[:, None], k.transpose(1, 2), v.transpose(1, 2))
            return scaled_dot_product_attention(*parts)

    kinds: dict[str, Callable[[], torch.Tensor]] = {
        "varlen": lambda: varlen_attn(*(p.flatten(0, 1) for p in (q, k, v)), borders, borders, length, length),
        "flash": lambda: dense(SDPBackend.FLASH_ATTENTION, False),
        "flash, keys spread": lambda: dense(SDPBackend.FLASH_ATTENTION, True),
        "flash, one head": lambda: one_head(SDPBackend.FLASH_ATTENTION),
        "cudnn, one head": lambda: one_head(SDPBackend.CUDNN_ATTENTION),
        "cudnn": lambda: dense(SDPBackend.CUDNN_ATTENTION, False),
        "cudnn, keys spread": lambda: dense(SDPBackend.CUDNN_ATTENTION, True),
        "efficient, keys spread": lambda: dense(SDPBackend.EFFICIENT_ATTENTION, True),
    }
    found = {}
    for name, call in kinds.items():
        try:
            out = call()
            gradient = torch.randn_like(out)
            forward = bench.seconds(call, 10)
            both = bench.seconds(lambda call=call, gradient=gradient: call().backward(gradient), 10)
            found[name] = {"forward_ms": forward * 1e3, "backward_ms": (both - forward) * 1e3}
        except Exception as error:
            found[name] = {"error": str(error).strip().split("\n")[0][:160]}
    return found


def update(bench: Bench) -> dict[str, Any]:
    """Clipping, AdamW and average over all weights: torch's three passes against one; and that they agree."""
    found: dict[str, Any] = {}
    results = []
    for name, allowed in (("three passes", False), ("one pass", True)):
        with torch.device(bench.device):
            torch.manual_seed(0)
            sizes = [(64, 64)] if bench.tiny else [(257152, 2048), *[(16384, 2048)] * 85]
            layer = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(size)) for size in sizes])
        layer.config = bench.config()
        layer.get_optim_params = layer.parameters
        state = TrainingState(layer, OptimConfig(lr=1e-3))
        usual, fused.worthwhile = fused.worthwhile, (fused.worthwhile if allowed else lambda _: False)
        for parameter in layer:
            parameter.grad = torch.randn_like(parameter)
        state.advance(1.0)
        results.append(
            [
                values.flatten()[:1000].clone()
                for values in (layer[-1].detach(), state.average.values[f"{len(layer) - 1}"])
            ]
        )
        found[name] = {"ms": bench.seconds(lambda state=state: state.advance(1.0), 5) * 1e3}
        fused.worthwhile = usual
        del layer, state
    found["one pass"]["apart"] = max(float((a - b).abs().max()) for a, b in zip(*results, strict=True))
    return found

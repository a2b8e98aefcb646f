"""Answers on a GPU: a copy of the network in half precision, whose whole answer is one CUDA graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.policies.cuda_graphs import CudaGraphs
from holdfast.policies.pi05.network import Pi05Network
from holdfast.policies.pi05.weights import plain_state


class Actor:
    """Answers batches of observations."""

    def __init__(self, network: Pi05Network) -> None:
        self.network = half_copy(network)
        if network.config.compile:  # the expert's layers run 180 times, and half of their kernels fuse away
            self.network.compile_layers()
        self._graphs: CudaGraphs[Tensor] = CudaGraphs()

    def __call__(
        self, images: Tensor, tokens: Tensor, words: Tensor | None, noise: Tensor, rows: Tensor | None = None
    ) -> Tensor:
        """Actions, as `Pi05Network.act` computes them; `rows` says which task's LoRA each row takes."""
        words = torch.ones_like(tokens, dtype=torch.bool) if words is None else words
        routed = [] if rows is None else [rows]
        return self._graphs.play(self._act, images, tokens, words, noise, *routed).clone()

    def _act(self, images: Tensor, tokens: Tensor, words: Tensor, noise: Tensor, rows: Tensor | None = None) -> Tensor:
        self.network.route.rows = rows
        # Without autocast's cache, which would live in the graph's memory.
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            return self.network.act(images, tokens, words, noise)


def half_copy(network: Pi05Network) -> Pi05Network:
    """A copy with layer matrices and word embeddings in bf16; norms and the action and time projections stay fp32."""
    with torch.device("meta"):
        copy = Pi05Network(network.config)
    halved = {
        f"{name}.{kind}"
        for name, module in copy.paligemma_with_expert.named_modules(prefix="paligemma_with_expert")
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d)
        for kind, _ in module.named_parameters()
    }
    state = {
        name: value.to(torch.bfloat16 if name in halved else torch.float32)
        for name, value in plain_state(network).items()
    }
    copy.load_state_dict(state, assign=True)
    return copy.eval().requires_grad_(False)

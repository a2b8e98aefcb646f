"""Actions on a GPU: a copy of the network in half precision whose whole answer is one recorded graph of kernels.

A chunk takes some thousand small kernels; launched one by one from Python they take longer than they compute.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.policies.pi05.network import Pi05Network
from holdfast.policies.pi05.weights import plain_state

WARMUP = 3  # runs before recording: libraries choose their kernels and take their workspaces


class Actor:
    """Answers batches of observations; every new shape of them is recorded once."""

    def __init__(self, network: Pi05Network) -> None:
        self.network = half_copy(network)
        if network.config.compile:  # the expert's layers are run 180 times, and half of their kernels fuse away
            self.network.compile_layers()
        self._graphs: dict[tuple[torch.Size, ...], Recording] = {}

    def __call__(self, images: Tensor, tokens: Tensor, words: Tensor | None, noise: Tensor) -> Tensor:
        """Actions, as of `Pi05Network.act`."""
        inputs = images, tokens, torch.ones_like(tokens, dtype=torch.bool) if words is None else words, noise
        key = tuple(value.shape for value in inputs)
        if key not in self._graphs:
            self._graphs[key] = Recording(self.network, inputs)
        return self._graphs[key].play(inputs)


class Recording:
    """The kernels of one answer, with the buffers they read and write."""

    def __init__(self, network: Pi05Network, inputs: tuple[Tensor, ...]) -> None:
        self._inputs = tuple(value.clone() for value in inputs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        # Without its cache: what autocast keeps would live in the graph's memory.
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            with torch.cuda.stream(side):
                for _ in range(WARMUP):
                    network.act(*self._inputs)
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._output = network.act(*self._inputs)

    def play(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Answer inputs of the recorded shapes."""
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.copy_(value)
        self._graph.replay()
        return self._output.clone()


def half_copy(network: Pi05Network) -> Pi05Network:
    """The same network with the matrices of its layers, and its words, in bf16; norms and the small ends stay fp32."""
    with torch.device("meta"):
        copy = Pi05Network(network.config)
    halved = {
        f"{name}.{kind}"
        for name, module in copy.paligemma_with_expert.named_modules(prefix="paligemma_with_expert")
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d)
        for kind in ("weight", "bias")
    }
    state = {
        name: value.to(torch.bfloat16 if name in halved else torch.float32)
        for name, value in plain_state(network).items()
    }
    copy.load_state_dict(state, assign=True)
    return copy.eval().requires_grad_(False)

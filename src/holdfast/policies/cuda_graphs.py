"""A function of tensors on a GPU, recorded as a graph of kernels and then played.

A small policy's step, and any policy's answer, takes some thousand small kernels. Launched one by one from Python they
take longer than they compute, and far longer where other programs draw pictures on the same GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

WARMUP = 3  # runs before recording: libraries choose their kernels and take their workspaces


class CudaGraphs[T]:
    """Of one function, for every shape of its inputs.

    What else the function reads, like weights, may change in value but must stay where it is in memory. What it draws
    comes from the generator as it is then. It is not kept: who keeps recordings of a method of his own would else hold
    on to himself, and to gigabytes on the GPU.
    """

    def __init__(self) -> None:
        self._by_shapes: dict[tuple[torch.Size, ...], _CudaGraph[T]] = {}

    def play(self, function: Callable[..., T], *inputs: Tensor) -> T:
        """What the function returns, in memory that the next call writes over; inputs of new shapes are recorded."""
        shapes = tuple(value.shape for value in inputs)
        with torch.cuda.device(inputs[0].device):  # which need not be the first
            if shapes not in self._by_shapes:
                self._by_shapes[shapes] = _CudaGraph(function, inputs)
            return self._by_shapes[shapes].play(inputs)


class _CudaGraph[T]:
    """The kernels of one call, with the buffers they read and write."""

    def __init__(self, function: Callable[..., T], inputs: tuple[Tensor, ...]) -> None:
        self._inputs = tuple(value.clone() for value in inputs)
        self._graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.random.fork_rng([torch.cuda.current_device()]):  # as if nothing had been drawn yet
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARMUP):
                    function(*self._inputs)
            torch.cuda.current_stream().wait_stream(side)
            # Other threads go on to copy batches meanwhile, on streams of their own.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._output = function(*self._inputs)

    def play(self, inputs: tuple[Tensor, ...]) -> T:
        """Do it again with inputs of the recorded shapes."""
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.copy_(value)
        self._graph.replay()
        return self._output

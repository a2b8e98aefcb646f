"""A function of tensors on a GPU, captured once as a CUDA graph and then replayed.

A training step of a small policy, and an answer of any policy, launches about a thousand small kernels. Launching them
one by one from Python takes longer than computing them, and much longer where other programs render on the same GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

WARMUP = 3  # runs before the capture: libraries choose their kernels and allocate their workspaces


class CudaGraphs[T]:
    """The CUDA graphs of one function, one for each set of input shapes.

    Other tensors that the function reads, like weights, may change in value but must stay at their address. Random
    numbers come from the generator's state at the time of the call. The function itself is not stored: an object that
    stores the graphs of its own method would refer to itself, and its gigabytes on the GPU would not be freed.
    """

    def __init__(self) -> None:
        self._by_shapes: dict[tuple[torch.Size, ...], _CudaGraph[T]] = {}

    def play(self, function: Callable[..., T], *inputs: Tensor) -> T:
        """Call the function, capturing it for new input shapes. The next call overwrites the result's memory."""
        shapes = tuple(value.shape for value in inputs)
        with torch.cuda.device(inputs[0].device):  # not always the default one
            if shapes not in self._by_shapes:
                self._by_shapes[shapes] = _CudaGraph(function, inputs)
            return self._by_shapes[shapes].play(inputs)


class _CudaGraph[T]:
    """One captured call, with its input and output buffers."""

    def __init__(self, function: Callable[..., T], inputs: tuple[Tensor, ...]) -> None:
        self._inputs = tuple(value.clone() for value in inputs)
        self._graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.random.fork_rng([torch.cuda.current_device()]):  # the capture must not advance the generator
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARMUP):
                    function(*self._inputs)
            torch.cuda.current_stream().wait_stream(side)
            # thread_local: other threads keep copying batches, on streams of their own.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._output = function(*self._inputs)

    def play(self, inputs: tuple[Tensor, ...]) -> T:
        """Replay the call with new inputs of the same shapes."""
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.copy_(value)
        self._graph.replay()
        return self._output

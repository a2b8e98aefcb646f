"""Where policies compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from holdfast.errors import HoldfastError


def choose_device(asked: str) -> str:
    """Resolve auto, and refuse a device that is not there."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise HoldfastError(f"--device={asked} was asked for, but torch sees no CUDA device. Use --device=cpu or auto.")
    try:
        return str(torch.device(asked))
    except RuntimeError:
        raise HoldfastError(f"Unknown device {asked!r}. Valid: auto, cpu, cuda, cuda:0.") from None


def send(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy small things that were made on the host, without waiting for what the device is doing."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)


class Ahead:
    """Prepares batches on a CUDA stream of their own, beside the step that is being computed.

    A prompt that tells the state, for example, is written by the host from numbers on the GPU: on the usual stream, the
    host would wait for all steps before. On a CPU nothing is ahead of anything.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(device))

    def __call__(self, prepare: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        """What `prepare` returns, ready for the usual stream."""
        if self._stream is None:
            return prepare(*arguments)
        with torch.cuda.stream(self._stream):
            ready = prepare(*arguments)
        usual = torch.cuda.current_stream(self._stream.device)
        usual.wait_stream(self._stream)
        for value in ready.values():
            if isinstance(value, torch.Tensor) and value.is_cuda:
                value.record_stream(usual)  # its memory is not given away before the usual stream is done with it
        return ready

"""The CUDA stream on which batches are copied and prepared, beside the step that is being computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch


def beside(device: torch.device) -> torch.cuda.Stream | None:
    """The one of a GPU, so that whatever is prepared comes after what was copied; a CPU has none."""
    if device.type != "cuda":
        return None
    return _stream(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _stream(index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(index)


def prepare_beside(device: torch.device, prepare: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Prepare a batch that lies on the host or was copied beside, and let the usual stream wait for it.

    The host does not wait for older steps either. A prompt that tells the state, for example, is written by the host
    from numbers on the GPU, for which on the usual stream all steps before would have to end.
    """
    stream = beside(device)
    if stream is None:
        return prepare(*arguments)
    with torch.cuda.stream(stream):
        ready = prepare(*arguments)
    usual = torch.cuda.current_stream(device)
    usual.wait_stream(stream)
    keep_for(usual, ready)
    return ready


def keep_for(stream: torch.cuda.Stream, batch: dict[str, Any]) -> None:
    """Give the memory of a batch away only after a stream has done what it was asked so far."""
    for value in batch.values():
        if isinstance(value, torch.Tensor) and value.is_cuda:
            value.record_stream(stream)

"""The device that policies compute on, and copies to it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from holdfast.core.errors import HoldfastError


def choose_device(asked: str) -> str:
    """Resolve auto, and refuse a device that is not available."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise HoldfastError(f"--device={asked} was asked for, but torch sees no CUDA device. Use --device=cpu or auto.")
    try:
        return str(torch.device(asked))
    except RuntimeError:
        raise HoldfastError(f"Unknown device {asked!r}. Valid: auto, cpu, cuda, cuda:0.") from None


def send(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy small tensors from the host, without waiting for the device's work in progress."""
    if device.type == "cuda" and not values.is_cuda:
        return values.pin_memory().to(device, non_blocking=True)  # pinned memory is not copied again
    return values.to(device)


def fetch(values: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Begin to copy small tensors to the host. Calling what is returned waits for the copy, without using a core."""
    if not values.is_cuda:
        return lambda: values
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    copied = torch.cuda.Event(blocking=True)
    copied.record()

    def finish() -> torch.Tensor:
        copied.synchronize()
        return host

    return finish

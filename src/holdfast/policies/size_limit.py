"""Stops building a network that is far larger than its weights.

A config of a few bytes can describe a network of any size. Whether the weights fit is known only when it is built, and
by then the machine may have no memory left. So the numbers that a constructor asks torch for are counted before torch
makes them, and compared with those in the file.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch.overrides import TorchFunctionMode

from holdfast.core import outside
from holdfast.core.errors import HoldfastError

# Some policies first build layers that they then drop, or matrices that they then share: never more than twice.
TIMES = 4
FREE = 2**26  # numbers that any policy may make: 256 MiB
_OBJECT = 2**10  # numbers that a tensor counts as at least: its Python object takes as much memory
_MAKERS = {
    torch.arange, torch.empty, torch.empty_strided, torch.eye, torch.full, torch.linspace, torch.logspace, torch.ones,
    torch.rand, torch.randint, torch.randn, torch.randperm, torch.zeros,
}  # fmt: skip


class SizeLimit(TorchFunctionMode):
    """A block in which the policy with the weights `file` is built."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._stored = sum(prod(shape) for shape in stored_shapes(file).values())
        self._made = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Count what is about to be made, and refuse it if it is too much."""
        kwargs = kwargs or {}
        if func in _MAKERS:
            shape = {key: value for key, value in kwargs.items() if key not in ("generator", "out", "pin_memory")}
            self._made += max(func(*args, **{**shape, "device": "meta"}).numel(), _OBJECT)
            if self._made > TIMES * self._stored + FREE:
                raise HoldfastError(
                    f"The config of the policy describes a network that is more than {TIMES} times as large as its "
                    f"weights {self._file}, which hold {self._stored} numbers. They do not belong together."
                )
        return func(*args, **kwargs)


def stored_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors in a safetensors file, by name; only its header is read."""
    outside.check_file(file)
    try:
        with safe_open(file, framework="pt") as stored:
            return {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118  no dict
    except (OSError, SafetensorError) as error:
        raise HoldfastError(f"The weights {file} cannot be read: {error}.") from None

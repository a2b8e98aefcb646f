"""What a method keeps from one stage to the next: tensors and plain values, as two files of a checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError
from holdfast.core.outside import read_json
from holdfast.core.shapes import check_shapes

if TYPE_CHECKING:
    import torch

TENSORS, VALUES = "method.safetensors", "method.json"
_TYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class MethodState:
    """Tensors by name, and values that JSON can hold."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    def part(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors whose names begin with `name/`, without that."""
        return {key.removeprefix(f"{name}/"): t for key, t in self.tensors.items() if key.startswith(f"{name}/")}

    def write(self, folder: Path) -> None:
        """Write both files."""
        from safetensors.torch import save_file

        save_file({name: tensor.detach().contiguous().cpu() for name, tensor in self.tensors.items()}, folder / TENSORS)
        (folder / VALUES).write_text(json.dumps(self.values, indent=1))

    def check(self, shapes: dict[str, tuple[int, ...]], origin: object) -> None:
        """Raise an error unless the tensors have exactly these names and shapes, and numbers to compute with."""
        import torch

        for name, tensor in self.tensors.items():
            if not isinstance(tensor, torch.Tensor):
                raise HoldfastError(f"{origin} has {name}, a {type(tensor).__name__}; tensors must be torch's.")
        try:
            json.dumps(self.values)
        except (TypeError, ValueError) as error:
            raise HoldfastError(f"{origin} has values that JSON cannot hold: {error}.") from None
        check_shapes({name: tuple(tensor.shape) for name, tensor in self.tensors.items()}, shapes, origin, "tensors")
        for name, tensor in self.tensors.items():
            kind = str(tensor.dtype).removeprefix("torch.")
            if kind not in _TYPES:
                raise HoldfastError(f"{origin} has {name} of type {kind}; it must be one of {', '.join(_TYPES)}.")


def read_state(folder: Path, shapes: dict[str, tuple[int, ...]], device: str) -> MethodState | None:
    """Read what a method kept in a checkpoint, tensors on the device; None if it keeps nothing."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (folder / VALUES).exists():
        if not shapes:
            return None
        raise HoldfastError(f"{folder} lacks what the method kept: there is no {VALUES}.")
    values = read_json(folder / VALUES, finite=False)
    if not isinstance(values, dict):
        raise HoldfastError(f"{folder / VALUES} must hold an object, got {str(values)[:80]!r}.")
    try:
        state = MethodState(load_file(folder / TENSORS, device), values)
    except (OSError, SafetensorError) as error:
        raise HoldfastError(f"{folder} lacks what the method kept: {error}.") from None
    state.check(shapes, folder / TENSORS)
    return state

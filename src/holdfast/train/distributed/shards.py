"""Tensors that may be split over ranks (FSDP2's DTensor), and what each rank holds of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint
from torch.distributed.tensor import DTensor, distribute_tensor


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The memory this rank holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor, on every rank."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def laid_out_like(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """A tensor moved to the device of another and sharded like it."""
    if isinstance(other, DTensor) and not isinstance(tensor, DTensor):
        return distribute_tensor(tensor, other.device_mesh, other.placements)
    return tensor.to(other.device)


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether a tensor is sharded over ranks."""
    return isinstance(tensor, DTensor)


def write_shards(folder: Path, tensors: dict[str, torch.Tensor], group: Any) -> None:
    """Write tensors from all ranks at once, each rank its shards into a file of its own."""
    checkpoint.save(tensors, storage_writer=checkpoint.FileSystemWriter(folder), process_group=group)


def shard_names(folder: Path) -> list[str]:
    """Names of the tensors in a folder of shards."""
    return list(checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata)


def read_shards(folder: Path, tensors: dict[str, torch.Tensor], group: Any) -> None:
    """Fill tensors from a folder of shards; they may be split over another number of ranks, or not at all."""
    reader = checkpoint.FileSystemReader(folder)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # expected in a single process
        checkpoint.load(tensors, storage_reader=reader, process_group=group)

"""Tensors that may be split over ranks (FSDP2's DTensor), and what each rank holds of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.tensor import DTensor, distribute_tensor

from holdfast.core.errors import HoldfastError
from holdfast.train.distributed.shard_metadata import read_metadata


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


class _ShardReader(checkpoint.FileSystemReader):
    """DCP's reader with metadata that were read without its pickle; shards it reads with `weights_only`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._metadata = read_metadata(folder)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The checked metadata, also where DCP would look for those of a single rank."""
        return self._metadata


def shard_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors in a folder of shards."""
    stored = read_metadata(folder).state_dict_metadata
    return {name: tuple(found.size) for name, found in stored.items() if isinstance(found, TensorStorageMetadata)}


def read_shards(folder: Path, tensors: dict[str, torch.Tensor], group: Any) -> None:
    """Fill tensors from a folder of shards; they may be split over another number of ranks, or not at all."""
    reader = _ShardReader(folder)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # expected in a single process
            checkpoint.load(tensors, storage_reader=reader, process_group=group)
    except CheckpointException as error:
        # torch's own words may be empty, or advise to load the file with code in it.
        kinds = sorted({type(failure).__name__ for failure, _ in error.failures.values()})
        raise HoldfastError(
            f"The progress in {folder} cannot be read: a shard is damaged ({', '.join(kinds)}). Delete this folder to "
            "go back to the one saved before."
        ) from None

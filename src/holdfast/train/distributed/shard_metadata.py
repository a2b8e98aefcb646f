"""Reads DCP's `.metadata`, which is a pickle, without running what may be in it.

Unpickling is restricted to the plain records of which DCP's metadata consists, and what comes out is checked: tensors
only, each in a shard of the same folder. DCP would unpickle a value that is no tensor without any restriction.
"""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata

from holdfast.core.errors import HoldfastError

METADATA = ".metadata"
LARGEST = 256 * 2**20  # bytes; pi0.5 on eight ranks takes a few MiB
_SHARD = re.compile(r"__\d+_\d+\.distcp")
_RECORDS = "torch.distributed.checkpoint.metadata"
_ALLOWED = {
    (_RECORDS, "ChunkStorageMetadata"),
    (_RECORDS, "Metadata"),
    (_RECORDS, "MetadataIndex"),
    (_RECORDS, "StorageMeta"),
    (_RECORDS, "TensorProperties"),
    (_RECORDS, "TensorStorageMetadata"),
    (_RECORDS, "_MEM_FORMAT_ENCODING"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("pathlib", "PosixPath"),
    *(("torch", name) for name, value in vars(torch).items() if isinstance(value, torch.dtype)),
}


class _Unpickler(pickle.Unpickler):
    """Knows the classes of DCP's metadata and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which has no place in it")
        return super().find_class(module, name)


def read_metadata(folder: Path) -> Metadata:
    """The metadata of a folder of shards."""
    try:
        with (folder / METADATA).open("rb") as file:
            return _checked(_unpickled(file))
    except Exception as error:  # of hostile bytes, whatever they lead to
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise HoldfastError(
            f"The progress in {folder} cannot be read: {METADATA}: {reason}. Delete this folder to go back to the one "
            "saved before."
        ) from None


def _unpickled(file: BinaryIO) -> Any:
    if file.seek(0, 2) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 2**20} MiB")
    file.seek(0)
    return _Unpickler(file).load()


def _checked(found: Any) -> Metadata:
    """A new record of what loading needs, if it is as DCP writes it."""
    tensors: dict[str, TensorStorageMetadata] = found.state_dict_metadata
    shards: dict[MetadataIndex, _StorageInfo] = found.storage_data
    for name, tensor in tensors.items():
        if type(name) is not str or type(tensor) is not TensorStorageMetadata or type(tensor.size) is not torch.Size:
            raise ValueError(f"{str(name)[:80]!r} is not a tensor")
    for index, place in shards.items():
        if type(index) is not MetadataIndex or type(place) is not _StorageInfo or place.transform_descriptors:
            raise ValueError(f"{str(index)[:80]} is not part of a tensor")
        if type(place.relative_path) is not str or not _SHARD.fullmatch(place.relative_path):
            raise ValueError(f"{str(place.relative_path)[:80]!r} is not the name of a shard")
        if not (type(place.offset) is type(place.length) is int and place.offset >= 0 and place.length >= 0):
            raise ValueError(f"the place of {str(index.fqn)[:80]!r} in its shard is not a range of bytes")
    return Metadata(state_dict_metadata=dict(tensors), storage_data=dict(shards))

"""Reads DCP's `.metadata`, which is a pickle, without running what may be in it.

Nothing real is within the pickle's reach: each name in it becomes a placeholder of this one load, which only keeps what
it is given. DCP's records are then built here from what was kept, after it is checked: tensors only, each in a shard of
the same folder. DCP would unpickle a value that is no tensor without any restriction.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from holdfast.core import outside
from holdfast.core.errors import HoldfastError

METADATA = ".metadata"
LARGEST = 256 * 2**20  # bytes; pi0.5 on eight ranks takes a few MiB
_MOST_DIMENSIONS = 64  # of a tensor, in torch
_SHARD = re.compile(r"__\d+_\d+\.distcp")
_RECORDS = "torch.distributed.checkpoint.metadata"
_DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
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
    *(("torch", name) for name in _DTYPES),
}


class _Placeholder:
    """Stands for a class or function that a pickle names, and keeps what the pickle calls it with."""

    kind = ""
    given: tuple[Any, ...]
    state: Any = None

    def __new__(cls, *given: Any) -> Self:
        made = super().__new__(cls)
        made.given = given
        return made

    def __setstate__(self, state: Any) -> None:
        """Keep the state aside: pickle would set any attribute, also of a class."""
        self.state = state


_LOADS: dict[int, Callable[[Any], None]] = pickle._Unpickler.dispatch
# What a pickle of DCP's metadata consists of.
_OPCODES = (
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.POP, pickle.MARK, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1,
    pickle.SHORT_BINUNICODE, pickle.BINUNICODE, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2,
    pickle.TUPLE3, pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_DICT, pickle.STACK_GLOBAL,
    pickle.GLOBAL, pickle.NEWOBJ, pickle.REDUCE, pickle.BUILD, pickle.BINFLOAT,
)  # fmt: skip


class _Unpickler(pickle._Unpickler):
    """Knows the names in DCP's metadata and nothing else, and has a placeholder for each.

    It is the one written in Python: the one in C takes as much memory as nine bytes tell it to.
    """

    stack: list[Any]

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.placeholders: dict[tuple[str, str], type[_Placeholder]] = {}

    def find_class(self, module: str, name: str) -> type[_Placeholder]:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which has no place in it")
        if (module, name) not in self.placeholders:
            self.placeholders[module, name] = type(name, (_Placeholder,), {"kind": name})
        return self.placeholders[module, name]

    def load_setitem(self) -> None:
        """Set an entry of a dictionary."""
        _check_keys(self.stack[-2:])
        _LOADS[pickle.SETITEM[0]](self)

    def load_setitems(self) -> None:
        """Set the entries of a dictionary."""
        _check_keys(self.stack)
        _LOADS[pickle.SETITEMS[0]](self)

    dispatch: ClassVar[dict[int, Any]] = {
        **{code[0]: _LOADS[code[0]] for code in _OPCODES},
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }


def _check_keys(entries: list[Any]) -> None:
    """Refuse other keys than DCP's. Tuples inside each other could take for ever to hash."""
    if not all(type(key) is str or isinstance(key, _Placeholder) for key in entries[::2]):
        raise ValueError("it has a key that is not text")


def read_metadata(folder: Path) -> Metadata:
    """The metadata of a folder of shards."""
    try:
        with outside.open_file(folder / METADATA) as file:
            return _built(_unpickled(file))
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
    try:
        return _Unpickler(file).load()
    except KeyError:
        raise ValueError("it has instructions that DCP does not write") from None


def _built(found: Any) -> Metadata:
    """What loading needs, if it is as DCP writes it."""
    fields = _fields(found, "Metadata")
    tensors, shards = fields.get("state_dict_metadata"), fields.get("storage_data")
    if type(tensors) is not dict or type(shards) is not dict:
        raise ValueError("it lists no tensors")
    # Several tensors may name one list of chunks, so a short file could list more than there is memory for.
    chunks = (_fields(found, "TensorStorageMetadata").get("chunks") for found in tensors.values())
    listed = sum(len(chunk) for chunk in chunks if type(chunk) is list)
    if listed > len(shards):
        raise ValueError(f"it lists {listed} chunks and says of {len(shards)} where they are")
    return Metadata(
        state_dict_metadata={_text(name, "the name of a tensor"): _tensor(name, tensors[name]) for name in tensors},
        storage_data=dict(_place(index, place) for index, place in shards.items()),
    )


def _tensor(name: str, found: Any) -> TensorStorageMetadata:
    fields = _fields(found, "TensorStorageMetadata")
    size, chunks = _size(fields.get("size"), name), fields.get("chunks")
    if type(chunks) is not list:
        raise ValueError(f"{name[:80]!r} has no list of chunks")
    return TensorStorageMetadata(
        properties=TensorProperties(dtype=_dtype(fields.get("properties"), name)),
        size=size,
        chunks=[_chunk(chunk, size, name) for chunk in chunks],
    )


def _chunk(found: Any, whole: torch.Size, name: str) -> ChunkStorageMetadata:
    fields = _fields(found, "ChunkStorageMetadata")
    offsets, sizes = _size(fields.get("offsets"), name), _size(fields.get("sizes"), name)
    if not len(offsets) == len(sizes) == len(whole) or any(
        first + count > end for first, count, end in zip(offsets, sizes, whole, strict=True)
    ):
        raise ValueError(f"a chunk of {name[:80]!r} is not inside the tensor")
    return ChunkStorageMetadata(offsets, sizes)


def _place(index: Any, place: Any) -> tuple[MetadataIndex, _StorageInfo]:
    """Which part of a tensor lies where."""
    part, where = _fields(index, "MetadataIndex"), _fields(place, "_StorageInfo")
    name = _text(part.get("fqn"), "the name of a tensor")
    shard = where.get("relative_path")
    if type(shard) is not str or not _SHARD.fullmatch(shard):
        raise ValueError(f"the place of {name[:80]!r} is not the name of a shard")
    if where.get("transform_descriptors"):
        raise ValueError(f"{name[:80]!r} is transformed, which Holdfast never does")
    number, hint = part.get("index"), None
    if number is not None:
        hint = _count(number, f"the number of a chunk of {name[:80]!r}")
    return MetadataIndex(name, _size(part.get("offset"), name), hint), _StorageInfo(
        shard,
        _count(where.get("offset"), f"the place of {name[:80]!r} in its shard"),
        _count(where.get("length"), f"the length of {name[:80]!r} in its shard"),
    )


def _fields(found: Any, kind: str) -> dict[Any, Any]:
    """The fields of a record of this kind."""
    if not isinstance(found, _Placeholder) or found.kind != kind or type(found.state) is not dict:
        raise ValueError(f"it has something else where {kind} belongs")
    return found.state


def _size(found: Any, name: str) -> torch.Size:
    if isinstance(found, _Placeholder) and found.kind == "Size" and len(found.given) == 1:
        numbers = found.given[0]
        if type(numbers) in (tuple, list) and len(numbers) <= _MOST_DIMENSIONS:
            return torch.Size([_count(number, f"a dimension of {name[:80]!r}") for number in numbers])
    raise ValueError(f"{name[:80]!r} is not a tensor: it has no size")


def _dtype(found: Any, name: str) -> torch.dtype:
    """The type of a tensor's numbers; a pickle of TensorProperties lists it first."""
    state = found.state if isinstance(found, _Placeholder) and found.kind == "TensorProperties" else None
    if type(state) is tuple and state and isinstance(state[0], type) and issubclass(state[0], _Placeholder):
        dtype = _DTYPES.get(state[0].kind)
        if dtype is not None:
            return dtype
    raise ValueError(f"{name[:80]!r} is not a tensor: it has no dtype")


def _text(found: Any, what: str) -> str:
    if type(found) is not str:
        raise ValueError(f"{what} is not text")
    return found


def _count(found: Any, what: str) -> int:
    if type(found) is not int or not 0 <= found < 2**63:
        raise ValueError(f"{what} is not a whole number from 0")
    return found

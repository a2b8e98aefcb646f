"""Encoding of messages to policies and simulators: msgpack with numpy arrays, as in openpi-client.

Whoever can open a connection can send anything, so reading is strict. Arrays hold plain numbers, and their shape must
match the bytes that came; there are no objects, no pickle, no extension types. A message takes no more memory than a
small multiple of its own bytes: the length and the number of containers are checked while they are read.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from holdfast.core.errors import HoldfastError

LIMIT = 16 * 2**20  # bytes of a message; four images of 720 x 1280 take 11 MiB
_LENGTH = 256  # entries of a list or map
_TEXT = 4096  # bytes of a string
_ENTRIES = 10_000  # of all lists and maps of a message together
_DEPTH = 8  # of lists and maps within each other
_AXES = 8
_DTYPES = {np.dtype(name).str: np.dtype(name) for name in (
    "?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8",
)}  # fmt: skip
_ARRAY, _SCALAR = b"__ndarray__", b"__npgeneric__"
_ARRAY_KEYS = {_ARRAY, b"data", b"dtype", b"shape"}
_SCALAR_KEYS = {_SCALAR, b"data", b"dtype"}
_SCALARS = {"b": bool, "i": int, "u": int, "f": float}  # what a scalar is written as, by the kind of its dtype


class WireError(HoldfastError):
    """A message that cannot be written or read."""


def pack(value: Any) -> bytes:
    """Write a message: None, booleans, numbers, text, numpy arrays and scalars, and lists and string-keyed maps."""
    try:
        return bytes(msgpack.packb(value, default=_write))
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"The message cannot be packed: {error}.") from None


def unpack(data: bytes, limit: int = LIMIT) -> Any:
    """Read a message; arrays are read-only views of `data`.

    Args:
        data: The message.
        limit: The most bytes it may have.
    """
    if len(data) > limit:
        raise WireError(f"The message has {len(data)} bytes, more than the {limit} allowed.")
    reader = _Reader()
    try:
        value = msgpack.unpackb(
            data,
            object_hook=reader.read_map,
            list_hook=reader.read_list,
            max_str_len=_TEXT,
            max_bin_len=limit,
            max_array_len=_LENGTH,
            max_map_len=_LENGTH,
            max_ext_len=0,
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise WireError(f"The message is no msgpack that is accepted here: {reason}.") from None
    _check(value, 0)
    return value


class _Reader:
    """Builds the value of a message, and stops if it has too many entries."""

    def __init__(self) -> None:
        self._entries = 0

    def read_list(self, items: list[Any]) -> list[Any]:
        self._count(items)
        return items

    def read_map(self, items: dict[Any, Any]) -> Any:
        self._count(items)
        if _ARRAY in items:
            return _array(items)
        if _SCALAR in items:
            return _scalar(items)
        return items

    def _count(self, items: list[Any] | dict[Any, Any]) -> None:
        self._entries += 1 + len(items)
        if self._entries > _ENTRIES:
            raise WireError(f"The message has more than {_ENTRIES} entries.")


def _array(items: dict[Any, Any]) -> np.ndarray:
    if items.keys() != _ARRAY_KEYS or items[_ARRAY] is not True:
        raise WireError("An array of the message has other keys than __ndarray__, data, dtype and shape.")
    dtype, data, shape = _dtype(items[b"dtype"]), items[b"data"], items[b"shape"]
    if type(shape) is not list or len(shape) > _AXES or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError(f"An array's shape must be at most {_AXES} whole numbers from 0 up.")
    size = dtype.itemsize
    for n in shape:
        size *= n
    if type(data) is not bytes or len(data) != size:
        found = f"{len(data)} bytes" if type(data) is bytes else f"a {type(data).__name__}"
        raise WireError(f"An array of shape {tuple(shape)} and type {dtype} has {size} bytes, got {found}.")
    return np.ndarray(shape, dtype, buffer=data)


def _scalar(items: dict[Any, Any]) -> np.generic:
    if items.keys() != _SCALAR_KEYS or items[_SCALAR] is not True:
        raise WireError("A number of the message has other keys than __npgeneric__, data and dtype.")
    dtype, data = _dtype(items[b"dtype"]), items[b"data"]
    if type(data) is not _SCALARS[dtype.kind]:
        raise WireError(f"A number of type {dtype} cannot be a {type(data).__name__}.")
    with np.errstate(over="ignore"):  # a number that is too large becomes infinity
        return dtype.type(data)


def _dtype(name: Any) -> np.dtype:
    if type(name) is not str or name not in _DTYPES:
        raise WireError(f"Unknown type of array {str(name)[:20]!r}. Valid: {', '.join(_DTYPES)}.")
    return _DTYPES[name]


def _check(value: Any, depth: int) -> None:
    """Refuse types that msgpack knows and the protocol does not use."""
    if depth > _DEPTH:
        raise WireError(f"The message is nested more than {_DEPTH} deep.")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise WireError("The keys of a map must be text.")
        for item in value.values():
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif not isinstance(value, None | bool | int | float | str | np.ndarray | np.generic):
        raise WireError(f"The message holds a {type(value).__name__}, which is not part of the protocol.")


def _write(value: Any) -> dict[bytes, Any]:
    """Numpy values as maps; everything else that msgpack does not know is refused."""
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"{type(value).__name__} has no form on the wire")
    if value.dtype.str not in _DTYPES:
        raise TypeError(f"numpy values of type {value.dtype} have no form on the wire")
    if isinstance(value, np.generic):
        return {_SCALAR: True, b"data": value.item(), b"dtype": value.dtype.str}
    return {_ARRAY: True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}

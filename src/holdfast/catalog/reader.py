"""Reads TOML tables into frozen records; every error says where it is and what is expected."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import check_name
from holdfast.core.outside import read_toml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Repeated tables are named in the singular: [[task.milestone]].
_KEYS = {"milestones": "milestone", "penalties": "penalty"}
_WORDS = {str: "text in quotes", float: "a finite number", int: "a whole number"}


def read(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    return read_toml(path)


def build[T: DataclassInstance](kind: type[T], table: object, where: str) -> T:
    """Make a record of class `kind` out of a TOML table; `where` starts every error message."""
    if not isinstance(table, dict):
        raise HoldfastError(f"{where} must be a table, got {table!r}.")
    keys = toml_keys(kind)
    check_keys(table, keys, where)
    if "name" in table:
        check_name(table["name"], where)
    missing = [
        key for key, field in keys.items() if key not in table and field.default is field.default_factory is MISSING
    ]
    if missing:
        raise HoldfastError(f"{where} lacks {', '.join(missing)}. Needed or allowed: {', '.join(keys)}.")
    hints = get_type_hints(kind)
    values = {f.name: convert(hints[f.name], table[k], f"{where}: {k!r}") for k, f in keys.items() if k in table}
    try:
        return kind(**values)
    except HoldfastError as error:
        raise HoldfastError(f"{where}: {error}") from None


def convert(hint: Any, value: Any, where: str) -> Any:
    """Return `value` as the type `hint`, after checking that its TOML type matches."""
    if isinstance(hint, UnionType):
        hint = get_args(hint)[0]  # `X | None`: TOML has no null, so a given value is an X
    if hint is Any:
        return value
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if not isinstance(value, list):
            form = "tables in double brackets [[ ]]" if is_dataclass(item) else "a list in brackets [ ]"
            raise HoldfastError(f"{where} must be {form}, got {value!r}.")
        return tuple(convert(item, entry, f"{where} {n}") for n, entry in enumerate(value, 1))
    if get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise HoldfastError(f"{where} must be a table, got {value!r}.")
        return {key: convert(get_args(hint)[1], entry, f"{where} {key!r}") for key, entry in value.items()}
    if is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where)
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        raise HoldfastError(f"{where} must be {_WORDS[hint]}, got {'nothing' if value is None else repr(value)}.")
    return value


def toml_keys(kind: type[DataclassInstance]) -> dict[str, Any]:
    """The keys a table of this class may have, with the field each one fills."""
    return {_KEYS.get(field.name, field.name): field for field in fields(kind)}


def check_keys(table: dict[str, Any], valid: Iterable[str], where: str) -> None:
    """Refuse a key that is not `valid`."""
    for key in table:
        if key not in valid:
            raise HoldfastError(f"{where}: {unknown('key', key, valid)}")

"""Frozen dataclasses as JSON: written field by field, and read back strictly.

Reading refuses what does not match the class: a missing or unknown key, text instead of a number, a value that a
`Literal` does not list. The error names the file, the field and the value.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from holdfast.core import outside
from holdfast.core.errors import HoldfastError

type Plain = dict[str, Any]  # an object of JSON


def to_json(record: Any) -> Any:
    """A record as plain values: dictionaries, lists, text, numbers."""
    if is_dataclass(record):
        return {item.name: to_json(getattr(record, item.name)) for item in fields(record)}
    if isinstance(record, dict):
        return {str(key): to_json(value) for key, value in record.items()}
    return [to_json(value) for value in record] if isinstance(record, list | tuple) else record


def finite(value: Any) -> Any:
    """The same plain values for JSON that others read: NaN and infinity, which it does not have, become null."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_json[T](cls: type[T], content: Any, what: str) -> T:
    """Inverse of `to_json`; `what` names the origin of `content` in errors."""
    from pydantic import ValidationError

    model = _model(cast("Any", cls))
    try:
        found: T = model.model_validate_json(json.dumps({"record": content})).record
    except ValidationError as error:
        raise HoldfastError(f"{what} cannot be used: {_describe(error.errors()[0])}.") from None
    except HoldfastError as error:  # the record's own checks
        raise HoldfastError(f"{what} cannot be used: {error}") from None
    return found


def read_json[T](cls: type[T], file: Path) -> T:
    """Read a record's file."""
    return from_json(cls, read_content(file), str(file))


def read_content(file: Path) -> Any:
    """The content of a JSON file of our own, in which NaN may stand for a number that is not known."""
    return outside.read_json(file, finite=False)


@cache
def _model(cls: Any) -> Any:
    # Imported when first needed: pydantic takes 50 ms, too long for `holdfast --help`. The dataclass is wrapped in a
    # model because pydantic applies a model's settings to every dataclass inside it.
    from pydantic import ConfigDict, create_model

    return create_model(cls.__name__, __config__=ConfigDict(extra="forbid", strict=True), record=(cls, ...))


def _describe(error: Any) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"][1:]).lstrip(".")
    if error["type"] == "missing":
        return f"{place} is missing"
    if error["type"] == "unexpected_keyword_argument":
        return f"{place} is not known"
    reason = error["msg"][0].lower() + error["msg"][1:]
    return f"{place + ': ' if place else ''}{reason}, got {str(error['input'])[:80]!r}"

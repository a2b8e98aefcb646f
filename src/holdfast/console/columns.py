"""The fields of a table of trials: values as text that no spreadsheet takes for a formula, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from holdfast.core.names import check_name

# What spreadsheets take for a formula, also in full width, and what already has quotes in front, so that reading is the
# exact inverse of writing. A space in front would be lost when it is read.
_FORMULA = re.compile(r"'*[=+\-@\s＝＋－＠]")


def to_field(value: Any) -> str:
    """A value as a field. Numbers stay as they are; all else must not look like a formula."""
    text = _text(value)
    return f"'{text}" if not isinstance(value, int | float) and _FORMULA.match(text) else text


def plain(column: str, field: str) -> str:
    """A field without surrounding space, except after notes, and without the `'` before what looks like a formula."""
    text = field.lstrip() if column == "notes" else field.strip()
    return text[1:] if text.startswith("'") and _FORMULA.match(text, 1) else text


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "; ".join(value)
    if isinstance(value, dict):
        return "; ".join(f"{name}={number!r}" for name, number in value.items())
    return repr(value) if isinstance(value, float) else str(value)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, got {text!r}.")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 19:
        raise ValueError(f"must be a whole number from 0 of at most 19 digits, got {text[:40]!r}.")
    return int(text)


def _flag(text: str) -> bool:
    words = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if text.lower() not in words:
        raise ValueError(f"must be yes or no, got {text!r}.")
    return words[text.lower()]


def _time(text: str) -> float:
    try:
        return _finite(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except OverflowError:  # before the years that computers count
        raise ValueError(f"must be Unix seconds or a time since 1970, got {text[:40]!r}.") from None


def _source(text: str) -> str:
    check_name(text, "column 'source'")
    return text


def _list(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(";") if part.strip()))


def _counts(kind: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    def counts(text: str) -> dict[str, Any]:
        pairs = [part.partition("=") for part in _list(text)]
        if len({name.strip() for name, _, _ in pairs}) < len(pairs):
            raise ValueError(f"must have every name once, got {text[:80]!r}.")
        return {name.strip(): kind(number.strip()) if equals else kind("1") for name, equals, number in pairs}

    return counts


READERS: dict[str, Callable[[str], Any]] = {
    "stage": _whole, "when": _time, "source": _source, "seed": _whole, "milestones": _list, "final": _flag,
    "penalties": _counts(_whole), "valid": _flag, "score": _finite, "seconds": _finite, "times": _counts(_finite),
}  # fmt: skip

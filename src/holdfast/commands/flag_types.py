"""Checks the types of flags before draccus converts them: it takes `no` for the number 0, and complains of decoders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from holdfast.core.errors import HoldfastError

COLLECTED = ("options", "method_options")  # fields that are filled from flags of other names

# Types with the words for them, and with an example of them as a part of a list or table.
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "null"}
_EXAMPLES = {int: ("1", "2"), float: ("0.5", "1.5"), str: ("a", "b")}


def check_types(config: type[Any], given: Iterator[tuple[str, str]]) -> None:
    """Refuse values that are not of their flag's type; flags that the config does not declare are left alone."""
    kinds = dict(_kinds(config, "--"))
    for flag, value in given:
        kind = kinds.get(flag)
        if is_dataclass(kind):
            below = [name for name in kinds if name.startswith(f"{flag}.")]
            raise HoldfastError(f"{flag} stands for several flags. Give one of them: {', '.join(below)}.")
        if kind is not None and not _fits(kind, value):
            shown = "nothing" if not value or value.startswith("--") else repr(value)
            raise HoldfastError(f"{flag} must be {_words(kind)}, got {shown}.")


def _kinds(config: type[Any], prefix: str) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(config)
    for item in fields(config):
        if item.name in COLLECTED:
            continue
        kind = hints[item.name]
        yield prefix + item.name, kind
        if is_dataclass(kind):
            assert isinstance(kind, type)
            yield from _kinds(kind, f"{prefix}{item.name}.")


def _fits(kind: Any, text: str) -> bool:
    if not ({bool, int, float, list, dict} & {get_origin(part) or part for part in _parts(kind)}):
        return True  # text, whose choices the config checks
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    return bool(text.strip()) and _is(kind, value)


def _is(kind: Any, value: Any) -> bool:
    """Whether a value of YAML is of a type."""
    parts = _parts(kind)
    if len(parts) > 1:
        return any(_is(part, value) for part in parts)
    inner = get_args(kind)
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is(inner[0], item) for item in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_is(inner[1], item) for item in value.values())
    if kind is float:
        return type(value) in (int, float) or (isinstance(value, str) and _is_number(value))
    if kind in (bool, int, NoneType):
        return type(value) is kind
    return not isinstance(value, list | dict)


def _is_number(text: str) -> bool:
    """YAML takes 1e-3 for text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _words(kind: Any) -> str:
    if len(parts := _parts(kind)) > 1:
        return " or ".join(map(_words, parts))
    inner = get_args(kind)
    if get_origin(kind) is list:
        return f"a list like [{', '.join(_EXAMPLES[inner[0]])}]"
    if get_origin(kind) is dict:
        return f"a table in quotes, like '{{name: {_EXAMPLES[inner[1]][0]}}}'"
    return _WORDS.get(kind, "text")

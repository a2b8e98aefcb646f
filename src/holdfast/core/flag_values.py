"""Refuses flags with which draccus, the parser of flags, would read files: it reads them without our checks."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError

CONFIG_FILE = "config_path"  # draccus adds this flag to every parser
_INCLUDE = "include"


def check_flag(name: str, value: str) -> None:
    """Refuse a flag that names a file of settings, or whose value would be replaced by the content of a file."""
    if name.replace("-", "_") == CONFIG_FILE:
        raise HoldfastError(f"--{CONFIG_FILE} is not supported: give the settings as flags.")
    if value.startswith(_INCLUDE) or _includes(value):
        raise HoldfastError(
            f"--{name} cannot be {value[:80]!r}: a value with a tag (!...), an alias (*...) or the word include in "
            "front could read other files."
        )


def _includes(value: str) -> bool:
    """Whether a value, which draccus reads as YAML, is more than plain."""
    if not any(mark in value for mark in ("!", "*", _INCLUDE, "\\")):  # the parser is slow
        return False
    import yaml

    try:
        events = list(yaml.parse(value, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError:
        return False  # draccus refuses it
    if any(isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) for event in events):
        return True
    whole = next((event for event in events if isinstance(event, yaml.NodeEvent)), None)
    return isinstance(whole, yaml.ScalarEvent) and whole.value.startswith(_INCLUDE)

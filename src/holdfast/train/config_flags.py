"""A config as the flags of `holdfast train` that produce it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from holdfast.policies.config import PolicyChoice
from holdfast.train.config import TrainConfig
from holdfast.train.presets import preset


def flags(config: TrainConfig, based_on: str = "") -> tuple[str, ...]:
    """The flags that produce a config. Those that the preset `based_on` fills in, and defaults, are left out."""
    usual = TrainConfig(stream=config.stream, **preset(based_on) if based_on else {})
    named = [f"--preset={based_on}"] if based_on else []
    if based_on and (config.policy.type, config.policy.path) != (usual.policy.type, usual.policy.path):
        # A policy of one's own: what belongs to the preset's policy is not filled in.
        named.append(f"--policy.type={config.policy.type}")
        usual = replace(usual, policy=PolicyChoice(config.policy.type), norm=replace(usual.norm, stats=""))
    return (f"--stream={config.stream}", *named, *_flags(config, usual, ""))


def preset_flags(name: str) -> tuple[str, ...]:
    """The flags that a preset fills in."""
    return flags(TrainConfig(stream="any", **preset(name)))[1:]


def _flags(config: Any, default: Any, prefix: str) -> Iterator[str]:
    for item in fields(config):
        value, usual = getattr(config, item.name), getattr(default, item.name)
        if is_dataclass(value):
            yield from _flags(value, usual, f"{prefix}{item.name}.")
        elif item.name in ("options", "method_options"):  # separate flags
            owner = prefix if item.name == "options" else "method."
            changed = {name: option for name, option in value.items() if (name, option) not in usual.items()}
            yield from (f"--{owner}{name}={flag_text(option)}" for name, option in changed.items())
        elif value != usual:
            yield f"--{prefix}{item.name}={flag_text(value)}"


def flag_text(value: Any) -> str:
    """A flag's value as the command line takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {part}" for name, part in value.items()) + "}"
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)

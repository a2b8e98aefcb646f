"""run.yaml: the settings that decide a run's weights, and its tasks. Written once; every later start must agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from holdfast.catalog.reader import build
from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.names import near_path
from holdfast.core.outside import read_yaml
from holdfast.core.records import Task

# Settings that may differ between two starts of one run, because they do not change the final weights (how ranks share
# the work changes the order of sums, so the last bits). The stream's file and datasets may move too: tasks are compared
# by content, datasets by fingerprint, and the format of cached frames is kept in its own file.
_REPORTING = ("dry_run", "json", "log")
_PLACES = ("output", "share", "checkpoint", "cache", "stream", "data_root", "wait")
FREE = (*_REPORTING, *_PLACES, "parallel")
# Settings that were added later, with the behaviour before, so that older runs can continue.
LATER: dict[str, Any] = {
    "config.method_options": {},
    "config.replay.mix": "step",
    "config.replay.alarm": None,
    "config.replay.watch_every": 100,
    "config.norm.widen": "all",
    "config.optim.ema_warmup": True,
}


@dataclass(frozen=True)
class RunSettings:
    """The content of run.yaml, as plain values."""

    config: dict[str, Any]
    tasks: list[dict[str, Any]]

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.config["method"])

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config.get("seed") or 0)


def read_settings(file: Path) -> RunSettings:
    """Read a run's settings."""
    if not file.exists():
        near = "" if file.parent.exists() else near_path(file.parent)
        raise HoldfastError(
            f"{file.parent} is not a run: it has no {file.name}.{near} Give the folder that `holdfast train` wrote."
        )
    content = read_yaml(file)
    parts = (content.get("config"), content.get("tasks")) if isinstance(content, dict) else ()
    match parts:
        case (dict() as config, list() as tasks):
            return RunSettings(config, tasks)
    raise HoldfastError(f"{file} is not as `holdfast train` writes it: it must have a table config and a list tasks.")


def settle_settings(file: Path, config: dict[str, Any], tasks: list[dict[str, Any]]) -> None:
    """Write a new run's settings, or check that the run was started with the same settings and tasks."""
    asked = {"config": {key: value for key, value in config.items() if key not in FREE}, "tasks": tasks}
    if not file.exists():
        write_text(file, yaml.safe_dump(asked, sort_keys=False))
        return
    stored = read_settings(file)
    changed = list(differences({"config": stored.config, "tasks": stored.tasks}, json.loads(json.dumps(asked))))
    if changed:
        said = "; ".join(f"{name} was {begun!r}, now {now!r}" for name, begun, now in changed[:4])
        raise HoldfastError(
            f"{file.parent} was started with other settings: {said}. "
            "Use the same command to continue, or another --output for a new run."
        )


def read_task(table: Any) -> Task:
    """A task as run.yaml lists it: like a stream's TOML, but with every field and plural names."""
    if not isinstance(table, dict) or not {"name", "milestones", "penalties"} <= set(table):
        raise HoldfastError(f"A task must have name, milestones and penalties, got {str(table)[:80]!r}.")
    names = {"milestones": "milestone", "penalties": "penalty"}
    content = {names.get(key, key): value for key, value in table.items() if value is not None}
    return build(Task, content, f"task {table['name']!r}")


def differences(begun: Any, asked: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The differences between two nested structures of plain values: the full key, and both values."""
    if isinstance(begun, dict) and isinstance(asked, dict):
        for key in [*asked, *(k for k in begun if k not in asked)]:
            full = f"{name}.{key}" if name else str(key)
            yield from differences(begun.get(key, LATER.get(full)), asked.get(key), full)
    elif isinstance(begun, list) and isinstance(asked, list) and len(begun) == len(asked):
        for number, (one, other) in enumerate(zip(begun, asked, strict=True), 1):
            yield from differences(one, other, f"{name}[{number}]")
    elif begun != asked:
        yield name.removeprefix("config."), begun, asked

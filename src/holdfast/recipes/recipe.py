"""A named experiment as data, and as the commands that carry it out.

A recipe says what to record, how to train and how to evaluate. It runs as ordinary `holdfast` commands, so users see
the commands they can run themselves; each command skips what is already done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from holdfast.train.config import TrainConfig

type Command = tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """Demonstrations of the twin's experts to record, for every task of the recipe."""

    episodes: int
    size: int
    seed: int


@dataclass(frozen=True)
class Evaluate:
    """Trials in the twin, for every cell of every run."""

    trials: int
    horizon: int
    videos: int = 1


@dataclass(frozen=True)
class Recipe:
    """Record, train one run per config, evaluate each, report on all."""

    name: str
    tasks: tuple[str, ...]
    data: Path
    train: tuple[TrainConfig, ...]
    record: Record | None = None
    evaluate: Evaluate | None = None

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of the runs."""
        return tuple(Path(config.folder) for config in self.train)

    def parts(self, cores: int) -> list[list[Command]]:
        """The commands in order; those of one part run in parallel and share the cores."""
        parts: list[list[Command]] = []
        if self.record:
            parts.append([self._recording(cores)])
        parts.append([("train", *flags(config)) for config in self.train])
        if self.evaluate:
            parts.append([self._evaluation(run, max(1, cores // len(self.runs))) for run in self.runs])
            parts.append([("report", *map(str, self.runs))])
        return parts

    def _recording(self, processes: int) -> Command:
        assert self.record
        record = self.record
        return (
            *("record", "--tasks", *self.tasks, "--episodes", str(record.episodes), "--size", str(record.size)),
            *("--seed", str(record.seed), "--output", str(self.data), "--processes", str(processes)),
        )

    def _evaluation(self, run: Path, processes: int) -> Command:
        assert self.evaluate
        trials = self.evaluate
        return (
            *("evaluate", str(run), "--trials", str(trials.trials), "--horizon", str(trials.horizon)),
            *("--videos", str(trials.videos), "--processes", str(processes)),
        )


def flags(config: TrainConfig) -> tuple[str, ...]:
    """The flags of `holdfast train` that produce a config; defaults are left out."""
    return (f"--stream={config.stream}", *_flags(config, TrainConfig(stream=config.stream), ""))


def _flags(config: Any, default: Any, prefix: str) -> Iterator[str]:
    for item in fields(config):
        value, usual = getattr(config, item.name), getattr(default, item.name)
        if is_dataclass(value):
            yield from _flags(value, usual, f"{prefix}{item.name}.")
        elif item.name == "options":  # of a policy: separate flags
            yield from (f"--{prefix}{name}={option}" for name, option in value.items())
        elif item.name == "method_options":
            yield from (f"--method.{name}={_text(option)}" for name, option in value.items())
        elif value != usual:
            yield f"--{prefix}{item.name}={_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {part}" for name, part in value.items()) + "}"
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)

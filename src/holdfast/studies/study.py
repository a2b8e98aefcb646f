"""A study: many runs that answer one question, as a short TOML file.

```toml
name = "replay-frequency"
question = "How often must old tasks be replayed?"
arena = "twin"                # where demonstrations are recorded and policies are tried
seeds = [1, 2, 3]

[record]                      # demonstrations of the arena's experts; leave it out to train on datasets you have
episodes = 100
size = 96

[train]                       # flags of `holdfast train`, for all runs
stream = "bimanual"
steps = 800
"policy.path" = "nano-base"

[[grid]]                      # a run for every combination of these flags, and every seed
method = ["er"]
"replay.frequency" = [0.05, 0.2, 0.5]

[[grid]]                      # any number of grids
method = ["sequential", "joint"]

[evaluate]
trials = 20
horizon = 8
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.catalog import reader
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import check_name
from holdfast.evaluate.cells import CELLS
from holdfast.recipes.recipe import flag_text

# A flag of `holdfast train` whose value needs no name in a label.
_PLAIN = ("stream", "method")
_OWN = ("output", "data_root", "share", "seed", "dry_run", "json")  # set by the study itself

type Flags = dict[str, Any]


def _require(ok: bool, key: str, value: object, wanted: str) -> None:
    if not ok:
        raise HoldfastError(f"{key!r} must be {wanted}, got {value}.")


@dataclass(frozen=True)
class StudyRecord:
    """Demonstrations to record. Without a `seed`, every seed of the study has demonstrations of its own."""

    episodes: int
    size: int = 96
    seed: int | None = None

    def __post_init__(self) -> None:
        _require(self.episodes >= 1, "episodes", self.episodes, "at least 1")
        _require(self.size >= 16, "size", self.size, "at least 16")

    def seed_for(self, seed: int) -> int:
        """The first layout's seed for the runs of a seed; far from the seeds of trials."""
        return 1_000_000 + 10_000 * seed if self.seed is None else self.seed


@dataclass(frozen=True)
class StudyTrials:
    """Trials of every cell of every run, and how many of each cell are filmed."""

    trials: int = 20
    horizon: int | None = None
    first_seed: int = 0
    cells: str = "needed"
    videos: int = 0

    def __post_init__(self) -> None:
        _require(self.trials >= 1, "trials", self.trials, "at least 1")
        _require(self.first_seed >= 0, "first_seed", self.first_seed, "at least 0")
        _require(self.videos >= 0, "videos", self.videos, "at least 0")
        if self.cells not in CELLS:
            raise unknown("'cells'", self.cells, CELLS)


@dataclass(frozen=True)
class StudyRun:
    """One run of a study. Its label says how it differs from those with other flags of `holdfast train`."""

    label: str
    flags: Flags
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.label}-{self.seed}"


@dataclass(frozen=True)
class Study:
    """What to record, train and try."""

    name: str
    train: Flags
    question: str = ""
    arena: str = "twin"
    seeds: tuple[int, ...] = (1,)
    grids: tuple[Flags, ...] = ()
    record: StudyRecord | None = None
    evaluate: StudyTrials | None = None

    def __post_init__(self) -> None:
        _require(bool(self.seeds), "seeds", "none", "at least one")
        _require(len(set(self.seeds)) == len(self.seeds), "seeds", list(self.seeds), "different")
        _require(min(self.seeds) >= 0, "seeds", list(self.seeds), "at least 0")
        for flags in (self.train, *self.grids):
            for flag in flags:
                if flag in _OWN:
                    raise HoldfastError(f"Flag {flag!r} is set by the study itself; take it out of {self.name}.")

    def runs(self) -> tuple[StudyRun, ...]:
        """All runs, each once, those of the first seed first."""
        combinations: list[Flags] = []
        for grid in self.grids or ({},):
            for values in product(*(value if isinstance(value, list) else [value] for value in grid.values())):
                flags = {**self.train, **dict(zip(grid, values, strict=True))}
                if flags not in combinations:
                    combinations.append(flags)
        keys = dict.fromkeys(key for flags in combinations for key in flags)
        varied = [k for k in keys if any(flags.get(k) != combinations[0].get(k) for flags in combinations)]
        labels = [_label(flags, varied) for flags in combinations]
        return tuple(
            StudyRun(label, flags, seed)
            for seed in self.seeds
            for label, flags in zip(labels, combinations, strict=True)
        )


def _label(flags: Flags, varied: list[str]) -> str:
    """What differs between the runs, as a folder's name."""
    parts = [
        str(flags[key]) if key in _PLAIN else f"{key}={flag_text(flags[key])}"
        for key in sorted(varied, key=lambda key: key not in _PLAIN)
        if key in flags
    ]
    text = "-".join(parts) or str(flags.get("method", "er"))
    return "".join(c if c.isalnum() or c in "-_=." else "_" for c in text)


def shipped() -> tuple[str, ...]:
    """Names of the studies that come with the package."""
    return tuple(sorted(Path(str(file)).stem for file in _folder() if str(file).endswith(".toml")))


def load_study(name: str) -> Study:
    """A shipped study by its name, or a TOML file."""
    if name.endswith(".toml"):
        return _read(Path(name))
    if name not in shipped():
        raise unknown("study", name, (*shipped(), "a .toml file"))
    return next(_read(Path(str(file))) for file in _folder() if Path(str(file)).stem == name)


def _folder() -> Iterator[Any]:
    yield from (resources.files("holdfast") / "studies" / "shipped").iterdir()


def _read(file: Path) -> Study:
    table = reader.read(file)
    valid = ("name", "question", "arena", "seeds", "record", "train", "grid", "evaluate")
    reader.check_keys(table, valid, str(file))
    for key in ("name", "train"):
        if key not in table:
            raise HoldfastError(f"{file} lacks {key!r}. Needed or allowed: {', '.join(valid)}.")
    check_name(table["name"], str(file))
    grids = table.get("grid", [])
    if not isinstance(table["train"], dict) or not isinstance(grids, list):
        raise HoldfastError(f"{file}: 'train' must be a table [train], and 'grid' tables in double brackets [[grid]].")
    record = reader.build(StudyRecord, table["record"], f"{file}: [record]") if "record" in table else None
    trials = reader.build(StudyTrials, table["evaluate"], f"{file}: [evaluate]") if "evaluate" in table else None
    try:
        return Study(
            name=table["name"],
            question=reader.convert(str, table.get("question", ""), f"{file}: 'question'"),
            arena=reader.convert(str, table.get("arena", "twin"), f"{file}: 'arena'"),
            seeds=reader.convert(tuple[int, ...], table.get("seeds", [1]), f"{file}: 'seeds'"),
            train=_flat(table["train"]),
            grids=tuple(_flat(grid) for grid in grids),
            record=record,
            evaluate=trials,
        )
    except HoldfastError as error:
        raise HoldfastError(f"{file}: {error}") from None


def _flat(table: dict[str, Any], prefix: str = "") -> Flags:
    """Flags with dots in their names: TOML reads policy.path = ... without quotes as a table. task_steps is a value."""
    flags: Flags = {}
    for key, value in table.items():
        if isinstance(value, dict) and key not in ("task_steps", "weights"):
            flags |= _flat(value, f"{prefix}{key}.")
        else:
            flags[prefix + key] = value
    return flags

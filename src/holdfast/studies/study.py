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

[[grid]]                      # a run for every combination of these flags, and every seed; any number of grids
method = ["er"]
"replay.frequency" = [0.05, 0.2, 0.5]

[evaluate]
trials = 20

[[claim]]                     # what the runs should show; better and worse each pick one group of runs
text = "Replay forgets less than sequential fine-tuning."
metric = "bwt"
better = { method = "er", replay.frequency = 0.2 }
worse = { method = "sequential" }
```
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.catalog import reader
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json
from holdfast.core.names import LONGEST_FILE, check_length, check_name, without_folders
from holdfast.evaluate.cells import CELLS
from holdfast.studies.telling import FIRST, telling_flags
from holdfast.train.config_flags import flag_text

_OWN = ("output", "data_root", "share", "wait", "seed", "dry_run", "json")  # set by the study itself
_MOST_RUNS, _MOST_CLAIMS = 1000, 100
LAYOUTS = 10_000  # more than any recording looks at

METRICS = ("average_score", "bwt", "fwt")

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
        _require(32 <= self.size <= 2048 and self.size % 2 == 0, "size", self.size, "an even number from 32 to 2048")
        _require(self.seed is None or self.seed >= 0, "seed", self.seed, "at least 0")

    def seed_for(self, seed: int) -> int:
        """The first layout's seed for the runs of a seed; far from the seeds of trials."""
        return 1_000_000 + LAYOUTS * seed if self.seed is None else self.seed


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
        _require(self.horizon is None or self.horizon >= 1, "horizon", self.horizon, "at least 1")
        _require(self.first_seed >= 0, "first_seed", self.first_seed, "at least 0")
        _require(self.videos >= 0, "videos", self.videos, "at least 0")
        if self.cells not in CELLS:
            raise unknown("'cells'", self.cells, CELLS)


@dataclass(frozen=True)
class StudyClaim:
    """What the study should show: `metric` of the runs `better` exceeds that of `worse` by more than `than`.

    `better` and `worse` are flags that pick one group of runs each. Without `worse` the metric itself is meant. `paper`
    is what the paper reports, in words.
    """

    text: str
    metric: str
    better: dict[str, Any]
    worse: dict[str, Any] | None = None
    than: float = 0.0
    paper: str = ""

    def __post_init__(self) -> None:
        _require(bool(self.text.strip()) and self.text.isprintable(), "text", repr(self.text), "one line of text")
        _require(self.paper.isprintable(), "paper", repr(self.paper), "one line of text")
        _require(math.isfinite(self.than), "than", self.than, "a finite number")
        if self.metric not in METRICS:
            raise unknown("'metric'", self.metric, METRICS)


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
    claims: tuple[StudyClaim, ...] = ()

    def __post_init__(self) -> None:
        _require(self.question.isprintable(), "question", repr(self.question), "one line of text")
        _require(bool(self.seeds), "seeds", "none", "at least one")
        _require(len(set(self.seeds)) == len(self.seeds), "seeds", list(self.seeds), "different")
        _require(min(self.seeds) >= 0, "seeds", list(self.seeds), "at least 0")
        for number, grid in enumerate(self.grids, 1):
            for flag, value in grid.items():
                _require(value != [], flag, "[]", f"one value or more in grid {number}")
        count = len(self.seeds) * sum(map(_combinations, self.grids or ({},)))
        _require(count <= _MOST_RUNS, "grid", f"{count:,} runs", f"at most {_MOST_RUNS:,} runs with all seeds")
        names = [run.name for run in self.runs()]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise HoldfastError(f"Two runs of {self.name} would be called {twice[0]!r}. Give their files other names.")
        for flags in (self.train, *self.grids):
            for flag in flags:
                if flag in _OWN:
                    raise HoldfastError(f"Flag {flag!r} is set by the study itself; take it out of {self.name}.")
        _require(len(self.claims) <= _MOST_CLAIMS, "claim", f"{len(self.claims):,}", f"at most {_MOST_CLAIMS}")

    def check_picks(self) -> None:
        """Refuse claims that do not pick their groups. Called after the flags of `train` were checked."""
        for number, claim in enumerate(self.claims, 1):
            where = f"Study {self.name}, claim {number}:"
            better = self.pick(claim.better, f"{where} 'better'")
            if claim.worse is not None and self.pick(claim.worse, f"{where} 'worse'") == better:
                raise HoldfastError(f"{where} 'better' and 'worse' pick the same group of runs: {better}.")

    @cached_property
    def groups(self) -> tuple[tuple[str, Flags], ...]:
        """Label and flags of every group of runs that differ only in their seed."""
        combinations: list[Flags] = []
        for grid in self.grids or ({},):
            for values in product(*(value if isinstance(value, list) else [value] for value in grid.values())):
                flags = {**self.train, **dict(zip(grid, values, strict=True))}
                if flags not in combinations:
                    combinations.append(flags)
        told = telling_flags(combinations)
        return tuple((_label(flags, keys), flags) for flags, keys in zip(combinations, told, strict=True))

    def runs(self) -> tuple[StudyRun, ...]:
        """All runs, each once, those of the first seed first."""
        return tuple(StudyRun(label, flags, seed) for seed in self.seeds for label, flags in self.groups)

    def pick(self, flags: Flags, where: str = "") -> str:
        """The label of the one group that has these flags; `where` starts the error if there is none, or several."""
        found = [label for label, own in self.groups if flags.items() <= own.items()]
        if len(found) != 1:
            given = ", ".join(f"{name} = {value!r}" for name, value in flags.items()) or "no flags"
            many = f"several groups of runs: {', '.join(found)}. Name more flags"
            none = f"no group of runs. There are: {', '.join(label for label, _ in self.groups)}"
            raise HoldfastError(f"{where} ({given}) picks {many if found else none}.")
        return found[0]


def _combinations(grid: Flags) -> int:
    return math.prod(len(value) for value in grid.values() if isinstance(value, list))


def _label(flags: Flags, told: Sequence[str]) -> str:
    """What tells the runs apart, as a folder's name: the same on every machine."""
    flags = without_folders(flags)
    parts = [str(flags[key]) if key in FIRST else f"{key}={flag_text(flags[key])}" for key in told]
    text = "-".join(parts) or str(flags.get("method", "er"))
    check_length(text, "The name of a run", LONGEST_FILE)
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


def study_from_json(content: Any, what: str) -> Study:
    """A study that was stored with `to_json`; `what` names the origin of `content` in errors."""
    study = from_json(Study, content, what)
    check_name(study.name, what)
    study.check_picks()
    return study


def _folder() -> Iterator[Any]:
    yield from (resources.files("holdfast") / "studies" / "shipped").iterdir()


def _read(file: Path) -> Study:
    table = reader.read(file)
    valid = ("name", "question", "arena", "seeds", "record", "train", "grid", "evaluate", "claim")
    reader.check_keys(table, valid, str(file))
    for key in ("name", "train"):
        if key not in table:
            raise HoldfastError(f"{file} lacks {key!r}. Needed or allowed: {', '.join(valid)}.")
    check_name(table["name"], str(file))
    grids = table.get("grid", [])
    tables = [table["train"], *(grids if isinstance(grids, list) else [grids])]
    if not isinstance(grids, list) or not all(isinstance(flags, dict) for flags in tables):
        raise HoldfastError(f"{file}: 'train' must be a table [train], and 'grid' tables in double brackets [[grid]].")
    record = reader.build(StudyRecord, table["record"], f"{file}: [record]") if "record" in table else None
    trials = reader.build(StudyTrials, table["evaluate"], f"{file}: [evaluate]") if "evaluate" in table else None
    try:
        return Study(
            name=table["name"],
            question=reader.convert(str, table.get("question", ""), "'question'"),
            arena=reader.convert(str, table.get("arena", "twin"), "'arena'"),
            seeds=reader.convert(tuple[int, ...], table.get("seeds", [1]), "'seeds'"),
            train=_flat(table["train"]),
            grids=tuple(_flat(grid) for grid in grids),
            record=record,
            evaluate=trials,
            claims=_claims(table.get("claim", [])),
        )
    except HoldfastError as error:
        raise HoldfastError(f"{file}: {error}") from None


def _claims(tables: object) -> tuple[StudyClaim, ...]:
    if not isinstance(tables, list):
        raise HoldfastError("'claim' must be tables in double brackets [[claim]].")
    claims = []
    for number, table in enumerate(tables, 1):
        for side in ("better", "worse"):
            if isinstance(table, dict) and isinstance(table.get(side), dict):
                table = {**table, side: _flat(table[side])}
        claims.append(reader.build(StudyClaim, table, f"claim {number}"))
    return tuple(claims)


def _flat(table: dict[str, Any], prefix: str = "") -> Flags:
    """Flags with dots in their names: TOML reads policy.path = ... without quotes as a table. task_steps is a value."""
    flags: Flags = {}
    for key, value in table.items():
        nested = isinstance(value, dict) and key not in ("task_steps", "weights")
        found = _flat(value, f"{prefix}{key}.") if nested else {prefix + key: value}
        for flag in found:
            _require(flag not in flags, flag, "two values", "given once")
        flags |= found
    return flags

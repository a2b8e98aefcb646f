"""An arena's file: which Python runs which simulator. `--arena` takes its path, or the name of an arena that is set up.

python = "/envs/metaworld/bin/python"   # it needs numpy, msgpack and the simulator
worker = "metaworld"                    # one that Holdfast brings, or a file of your own
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json
from holdfast.core.names import check_name
from holdfast.core.outside import read_toml

WORKERS = Path(__file__).parent / "worker"
SUFFIX = "_worker.py"
SHIPPED = tuple(
    sorted(file.name.removesuffix(SUFFIX) for file in WORKERS.glob(f"*{SUFFIX}") if file.name != "holdfast_worker.py")
)


@dataclass(frozen=True)
class ArenaFile:
    """An arena that runs in a process of its own.

    `name` is the source of its trials, by default the file's name. `timeout` is how many seconds it has for each
    answer, its start included. `rate` is what its datasets call a control step, where they say another rate than the
    simulator, which runs as it does. `options` are the arguments of the simulator's class.
    """

    python: str
    worker: str
    name: str = ""
    timeout: float = 120.0
    rate: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_rate(self.rate)
        if not 0 < self.timeout <= 86_400:
            raise HoldfastError(f"timeout must be seconds above 0 and at most a day, got {self.timeout:g}.")


def read_arena_file(file: Path) -> ArenaFile:
    """Read an arena's file. Nothing runs yet; its paths are relative to its folder, and must lead to files."""
    content = from_json(ArenaFile, {"timeout": 120.0, **read_toml(file)}, str(file))
    name = content.name or file.stem
    check_name(name, f"{file}")
    python, worker = _python(content.python, file), _worker(content.worker, file)
    return replace(content, python=python, worker=worker, name=name)


def check_rate(rate: int) -> None:
    """Refuse a number of control steps a second that no simulator has."""
    if not 1 <= rate <= 10_000:
        raise HoldfastError(f"rate must be from 1 to 10,000 steps a second, got {rate}.")


def data_folder() -> Path:
    """The folder of arenas that are set up: $HOLDFAST_DATA, or ~/.local/share/holdfast."""
    return Path(os.environ.get("HOLDFAST_DATA") or "~/.local/share/holdfast").expanduser()


def set_up_arenas() -> dict[str, Path]:
    """The files of arenas that are set up, by name."""
    return {file.parent.name: file for file in sorted((data_folder() / "arenas").glob("*/arena.toml"))}


def _python(python: str, file: Path) -> str:
    """The interpreter: a path, or a command that is looked up."""
    found = shutil.which(python) if "/" not in python else str(file.parent.absolute() / Path(python).expanduser())
    if found is None or not os.access(found, os.X_OK) or os.path.isdir(found):
        raise HoldfastError(
            f"{file}: there is no Python {python!r}. Give the path of an interpreter, like env/bin/python."
        )
    return found


def _worker(worker: str, file: Path) -> str:
    """The simulator's file: one of ours by name, or the user's own."""
    if worker.endswith(".py"):
        found = file.parent.absolute() / Path(worker).expanduser()
        if not found.is_file():
            raise HoldfastError(f"{file}: there is no file {worker!r} in {file.parent.absolute()}.")
        return str(found)
    if worker not in SHIPPED:
        raise HoldfastError(
            f"{file}: {unknown('worker', worker, SHIPPED)} For one of your own give a file, like my.py."
        )
    return str(WORKERS / f"{worker}{SUFFIX}")

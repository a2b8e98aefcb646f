"""Robots that a policy drives. `robot.py` is the protocol, `loop.py` runs an attempt, `session.py` many of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import arenas
from holdfast.arenas.arena import Arena
from holdfast.arenas.arena_file import set_up_arenas
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import Task
from holdfast.embodiments.embodiment import Embodiment
from holdfast.robots.robot import Robot
from holdfast.robots.simulated import Simulated, body_of

ROBOTS = {"piper": "holdfast.robots.lerobot_robot:PiperRobot"}


@dataclass(frozen=True)
class NamedRobot:
    """A robot that is not connected yet: its class, or the arena that simulates it."""

    name: str
    embodiment: Embodiment
    rate: int  # control steps a second
    kind: type[Robot] | None = None
    arena: Arena | None = None

    @property
    def needs_operator(self) -> bool:
        """Whether attempts begin when a person says so."""
        return self.kind is not None and not self.kind.resets_itself

    def check_settings(self, config: Path | None, fast: bool) -> None:
        """Refuse a missing file of its own, and settings that are for other robots."""
        needs = self.kind is not None and self.kind.needs_config
        if needs != (config is not None):
            wanted = "needs --config FILE" if needs else "takes no --config"
            raise HoldfastError(f"--robot {self.name} {wanted}; see docs/robots.md.")
        if fast and self.kind:
            raise HoldfastError(f"--fast is for simulated robots: --robot {self.name} runs in real time.")

    def connect(self, config: Path | None, task: Task, cameras: dict[str, tuple[int, int]], level: str | None) -> Robot:
        """Connect it, for attempts at a task by a policy that looks through these cameras."""
        if self.arena:
            return Simulated(self.arena, task, cameras, level)
        assert self.kind is not None
        try:
            return self.kind(config)
        except HoldfastError:
            raise
        except (Exception, SystemExit) as error:  # it may be a stranger's code
            raise HoldfastError(f"--robot {self.name} does not connect ({type(error).__name__}: {error}).") from error


def find(name: str) -> NamedRobot:
    """The robot called `name`: one of the table, a class of your own as `package.module:Class`, or any arena.

    Arenas are named as everywhere and need an embodiment. Finding a robot of your own imports its module.
    """
    path = ROBOTS.get(name, name)
    if ":" in path and not path.endswith(".toml"):
        kind: Any = arenas.import_class(path, "robot")
        if not issubclass(kind, Arena):
            _check(path, kind)
            return NamedRobot(name, kind.embodiment, kind.rate, kind=kind)
    elif not path.endswith(".toml") and path not in (known := [*arenas.ARENAS, *set_up_arenas()]):
        raise HoldfastError(
            f"{unknown('robot', name, [*known, *ROBOTS])} For one of your own give package.module:Class, or the file "
            "of an arena, my_arena.toml."
        )
    arena = arenas.load(path)
    return NamedRobot(name, body_of(arena), arena.rate, arena=arena)


def _check(path: str, kind: Any) -> None:
    """Refuse a class that is no robot."""
    asked = dict.fromkeys((*Robot.__annotations__, *(name for name in vars(Robot) if not name.startswith("_"))))
    abstract = getattr(kind, "__abstractmethods__", ())
    lacking = [name for name in asked if not hasattr(kind, name) or name in abstract]
    if lacking:
        raise HoldfastError(f"{path} is not a robot: it lacks {', '.join(lacking)}. See docs/tutorials/add_a_robot.md.")
    for name in ("resets_itself", "needs_config"):
        if type(getattr(kind, name)) is not bool:
            raise HoldfastError(
                f"{path} is not a robot: {name} of its class must be True or False, which is asked before it is "
                f"connected; got {getattr(kind, name)!r:.80}."
            )
    if not isinstance(kind.embodiment, Embodiment) or type(kind.rate) is not int or kind.rate < 1:
        raise HoldfastError(
            f"{path} is not a robot: its class needs an embodiment and a rate, a whole number above 0; got "
            f"{type(kind.embodiment).__name__} and {kind.rate!r:.80}."
        )

"""The twin as an arena, and functions that only the twin has. Only this and LeRobot's plugin import `twin/`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from holdfast import catalog
from holdfast.arenas.arena import ActingPolicy, Arena, Environment, Viewer
from holdfast.core.records import Task
from holdfast.embodiments.piper_x import PIPER_X_PAIR
from holdfast.twin import require_mujoco
from holdfast.twin.tasks import TASKS, task_class

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from holdfast.twin.env import CellEnv


class Twin(Arena):
    """The benchmark's two-arm cell in MuJoCo."""

    name = "twin"
    rate = 30
    cameras = tuple(camera.name for camera in catalog.cameras())
    state = action = PIPER_X_PAIR.names
    embodiment = PIPER_X_PAIR
    levels = ("nominal", "easy", "standard", "wide")
    default_level = "standard"
    policies = ("expert", "noop", "blind", "open-gripper")

    @property
    def tasks(self) -> dict[str, Task]:
        """The catalog's tasks that the cell has."""
        return {name: catalog.task(name) for name in TASKS}

    def task(self, name: str) -> Task:
        """One of its tasks, to try it; here a missing MuJoCo is found, before any other work."""
        found = super().task(name)
        require_mujoco()
        return found

    def max_steps(self, task: str) -> int:
        """About twice what the expert needs."""
        return task_class(task).max_steps

    def open(self, task: str) -> Environment:
        """Compile the cell with the objects of a task."""
        require_mujoco()
        from holdfast.twin.env import CellEnv

        return CellEnv(task)

    def policy(self, name: str, environment: Environment, seed: int | None) -> ActingPolicy:
        """One of `twin/scripted.py`."""
        from holdfast.twin.scripted import POLICIES

        return POLICIES[name](cast("CellEnv", environment), seed)

    def draw_frame(self, environment: Environment, size: tuple[int, int]) -> list[dict[str, np.ndarray]]:
        """Frames wait on the GPU until there are many."""
        return cast("CellEnv", environment).world.render_later(*size)

    def last_frames(self, environment: Environment, size: tuple[int, int]) -> list[dict[str, np.ndarray]]:
        """The frames that wait."""
        return cast("CellEnv", environment).world.rendered(*size)

    def show(self, environment: Environment, size: tuple[int, int]) -> dict[str, np.ndarray]:
        """The cameras in the look for people (`twin/look.py`)."""
        return cast("CellEnv", environment).show(size, self.cameras)

    def film(self, environment: Environment) -> np.ndarray:
        """The cell from above and as a visitor sees it, in the look for people."""
        return cast("CellEnv", environment).portrait()

    def view(self, environment: Environment) -> AbstractContextManager[Viewer]:
        """MuJoCo's interactive viewer, on the cell in its look for people."""
        from holdfast.twin.viewer import open_window

        return open_window(cast("CellEnv", environment))


def contact_sheet(task: str, policy: str, seed: int, level: str, vary: bool, moments: int) -> np.ndarray:
    """A few moments of an episode of a scripted policy, seen by a visitor and all cameras."""
    require_mujoco()
    from holdfast.twin.env import CellEnv
    from holdfast.twin.scripted import POLICIES
    from holdfast.twin.sheet import contact_sheet as draw

    env = CellEnv(task)
    env.reset(seed, level)
    picture = draw(env, POLICIES[policy](env, seed if vary else None), moments)
    env.close()
    return picture


def write_task_page(folder: Path, task: str | None) -> Iterator[Path]:
    """Write tasks.md and its pictures, or only one task's picture; yields each file when it is written."""
    require_mujoco()
    from holdfast.twin.docs import draw, overview, page

    pictures = folder / "pictures"
    names = [name for name in catalog.tasks() if name in TASKS]
    for name in [task] if task else names:
        draw(name, pictures / f"{name}.jpg")
        yield pictures / f"{name}.jpg"
    drawn = [pictures / f"{name}.jpg" for name in names]
    if all(picture.exists() for picture in drawn):
        overview(drawn, pictures / "tasks.jpg")
    (folder / "tasks.md").write_text(page(names))
    yield folder / "tasks.md"


def make_base(output: Path, console: Console, dry_run: bool = False) -> Path:
    """Pretrain nano's base on the twin's playground; a dry run only prints what would be done."""
    require_mujoco()
    from holdfast.twin.skills.base import BaseConfig
    from holdfast.twin.skills.base import make_base as make

    config = BaseConfig()
    if dry_run:
        console.print(f"{config.episodes} episodes of the playground, {config.train.steps} steps, into {output}")
        return output
    return make(config, output, console)

"""MuJoCo's interactive viewer, on a cell in its look for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mujoco.viewer

from holdfast.twin.env import CellEnv


class Window:
    """A viewer of the dressed copy of a cell."""

    def __init__(self, env: CellEnv, window: Any) -> None:
        self._env, self._window = env, window

    def is_running(self) -> bool:
        """Whether the window is still open."""
        running: bool = self._window.is_running()
        return running

    def sync(self) -> None:
        """Show the cell as it is now."""
        self._env.dressed()
        self._window.sync()


@contextmanager
def open_window(env: CellEnv) -> Iterator[Window]:
    """Open a window, which is closed in the end."""
    copy = env.dressed()
    with mujoco.viewer.launch_passive(copy.model, copy.data) as window:
        yield Window(env, window)

"""Renders several cameras into one buffer that is read back once.

Reading back waits for the GPU. With sixteen processes on one GPU, waiting for each of four cameras took four times as
long.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from weakref import WeakSet

import mujoco
import numpy as np

_open: WeakSet[Views] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Free what is still open before Python falls apart: later, OSMesa complains about every one."""
    for views in list(_open):
        views.close()


class Views(mujoco.Renderer):
    """Renders several images of the same size, stacked vertically."""

    def __init__(self, model: mujoco.MjModel, count: int, height: int, width: int) -> None:
        """Make the buffer.

        Args:
            model: The model to draw.
            count: Cameras drawn at a time.
            height: Of one image.
            width: Of one image.
        """
        buffer = model.vis.global_
        buffer.offheight, buffer.offwidth = max(buffer.offheight, count * height), max(buffer.offwidth, width)
        super().__init__(model, count * height, width)
        _open.add(self)

    def draw(self, data: mujoco.MjData, cameras: Sequence[str]) -> list[np.ndarray]:
        """Images of the cameras, each height x width x 3 bytes."""
        height = self.height // len(cameras)
        self._gl_context.make_current()
        for row, camera in enumerate(reversed(cameras)):  # the buffer's rows are counted from below
            self.update_scene(data, camera)
            mujoco.mjr_render(mujoco.MjrRect(0, row * height, self.width, height), self._scene, self._mjr_context)
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._mjr_context)
        return np.split(np.ascontiguousarray(pixels[::-1]), len(cameras))

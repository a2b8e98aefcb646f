"""Renders several cameras into one buffer that is read back once.

Reading back waits for the GPU. With sixteen processes on one GPU, waiting for each of four cameras took four times as
long.

Every camera has a place of its own in the buffer, whichever cameras are drawn. OpenGL computes window coordinates in
single precision, so the same view at another height of the buffer is rounded differently: colours by 1 of 255, pixels
on edges by up to 176.
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
    """Renders images of the same size, stacked; a camera's pixels do not depend on which others are drawn."""

    def __init__(self, model: mujoco.MjModel, cameras: Sequence[str], height: int, width: int) -> None:
        """Make the buffer.

        Args:
            model: The model to draw.
            cameras: All that may be drawn, from the buffer's top to its bottom.
            height: Of one image.
            width: Of one image.
        """
        buffer = model.vis.global_
        rows = len(cameras) * height
        buffer.offheight, buffer.offwidth = max(buffer.offheight, rows), max(buffer.offwidth, width)
        super().__init__(model, rows, width)
        self._cameras, self._image_height = tuple(cameras), height
        _open.add(self)

    def draw(self, data: mujoco.MjData, cameras: Sequence[str]) -> list[np.ndarray]:
        """Images of some of the cameras, each height x width x 3 bytes."""
        count, height = len(self._cameras), self._image_height
        rows = [count - 1 - self._cameras.index(camera) for camera in cameras]  # the buffer counts from below
        self._gl_context.make_current()
        for camera, row in zip(cameras, rows, strict=True):
            self.update_scene(data, camera)
            mujoco.mjr_render(mujoco.MjrRect(0, row * height, self.width, height), self._scene, self._mjr_context)
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._mjr_context)
        images = np.split(pixels, count)
        return [np.ascontiguousarray(images[row][::-1]) for row in rows]

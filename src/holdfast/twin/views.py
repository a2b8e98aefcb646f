"""Renders several cameras into one buffer that is read back once.

Reading back waits for the GPU. With sixteen processes on one GPU, waiting for each of four cameras took four times as
long. Who does not need a frame at once lets it wait on the GPU (`draw_later`), to be read back with others.

Every camera has a place of its own in the buffer, whichever cameras are drawn. OpenGL computes window coordinates in
single precision, so the same view at another height of the buffer is rounded differently: colours by 1 of 255, pixels
on edges by up to 176.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

import mujoco
import numpy as np

if TYPE_CHECKING:
    from holdfast.twin.frame_queue import FrameQueue

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
        self._queue: FrameQueue | None = None
        super().__init__(model, rows, width)
        self._cameras, self._image_height = tuple(cameras), height
        _open.add(self)

    def draw(self, data: mujoco.MjData, cameras: Sequence[str]) -> list[np.ndarray]:
        """Images of some of the cameras, each height x width x 3 bytes."""
        self._render(data, cameras)
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._mjr_context)
        images = np.split(pixels, len(self._cameras))
        return [np.ascontiguousarray(images[self._row(camera)][::-1]) for camera in cameras]

    def draw_later(self, data: mujoco.MjData) -> list[np.ndarray]:
        """Draw all cameras, to be read back with other frames.

        Returns all frames that wait when there is no room for more, else nothing. A frame is cameras x height x width x
        3 bytes.
        """
        self._render(data, self._cameras)
        if self._queue is None:
            from holdfast.twin.frame_queue import FrameQueue  # PyOpenGL takes 0.1 s, and most processes only draw now

            self._queue = FrameQueue(self.height, self.width, self._mjr_context)
        self._queue.add()
        return self.read_waiting() if self._queue.full else []

    def read_waiting(self) -> list[np.ndarray]:
        """The frames that wait, the oldest first."""
        if self._queue is None:
            return []
        self._gl_context.make_current()
        return list(self._queue.read().reshape(-1, len(self._cameras), self._image_height, self.width, 3))

    def forget_waiting(self) -> None:
        """Drop the frames that wait."""
        if self._queue is not None:
            self._queue.clear()

    def _render(self, data: mujoco.MjData, cameras: Sequence[str]) -> None:
        self._gl_context.make_current()
        for camera in cameras:
            self.update_scene(data, camera)
            place = mujoco.MjrRect(0, self._row(camera) * self._image_height, self.width, self._image_height)
            mujoco.mjr_render(place, self._scene, self._mjr_context)

    def _row(self, camera: str) -> int:
        """A camera's place in the buffer, which counts from below."""
        return len(self._cameras) - 1 - self._cameras.index(camera)

"""Frames that wait on the GPU until they are read back together.

Each is copied into a tall buffer, above the one before it, and one call reads all of them. A pixel buffer object is not
used: a driver may convert pixels of three bytes on the CPU while it fills one, and would wait for every frame again.
"""

from __future__ import annotations

import mujoco
import numpy as np
from OpenGL import GL

_MOST = 32  # frames
_BYTES = 2**26  # of the buffer; fewer frames if they are large


class FrameQueue:
    """Copies of a renderer's buffer.

    The renderer's OpenGL context must be current in all calls; when it is destroyed, so is the queue's buffer.
    """

    def __init__(self, height: int, width: int, context: mujoco.MjrContext) -> None:
        """Make the tall buffer for frames of this size."""
        self._height, self._width, self._context = height, width, context
        self._count = 0
        tallest = int(GL.glGetIntegerv(GL.GL_MAX_RENDERBUFFER_SIZE))
        self._room = max(1, min(_MOST, tallest // height, _BYTES // (4 * height * width)))
        self._pixels, self._buffer = GL.glGenRenderbuffers(1), GL.glGenFramebuffers(1)
        GL.glBindRenderbuffer(GL.GL_RENDERBUFFER, self._pixels)
        GL.glRenderbufferStorage(GL.GL_RENDERBUFFER, GL.GL_RGBA8, width, self._room * height)
        GL.glBindFramebuffer(GL.GL_FRAMEBUFFER, self._buffer)
        GL.glFramebufferRenderbuffer(GL.GL_FRAMEBUFFER, GL.GL_COLOR_ATTACHMENT0, GL.GL_RENDERBUFFER, self._pixels)
        mujoco.mjr_restoreBuffer(context)

    @property
    def full(self) -> bool:
        """Whether the frames must be read before another is added."""
        return self._count == self._room

    def add(self) -> None:
        """Copy what was just drawn. Does not wait."""
        bottom, height, width = self._count * self._height, self._height, self._width
        GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, self._context.offFBO)
        GL.glBindFramebuffer(GL.GL_DRAW_FRAMEBUFFER, self._buffer)
        GL.glBlitFramebuffer(
            *(0, 0, width, height), *(0, bottom, width, bottom + height), GL.GL_COLOR_BUFFER_BIT, GL.GL_NEAREST
        )
        mujoco.mjr_restoreBuffer(self._context)
        self._count += 1

    def read(self) -> np.ndarray:
        """Take all frames out, the oldest first: frames x height x width x 3 bytes. Waits for the GPU."""
        pixels = np.empty((self._count, self._height, self._width, 3), np.uint8)
        rows = self._count * self._height
        GL.glBindFramebuffer(GL.GL_READ_FRAMEBUFFER, self._buffer)
        GL.glReadPixels(0, 0, self._width, rows, GL.GL_RGB, GL.GL_UNSIGNED_BYTE, pixels)
        mujoco.mjr_restoreBuffer(self._context)
        self.clear()
        return np.ascontiguousarray(pixels[:, ::-1])  # OpenGL counts rows from below

    def clear(self) -> None:
        """Forget all frames."""
        self._count = 0

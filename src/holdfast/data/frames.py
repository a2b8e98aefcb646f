"""Pixels of frames. Small datasets are decoded once into memory, episode by episode; large ones frame by frame.

This is the seam of the frame cache: whoever has `read` can take this class's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from holdfast.data.source import Camera, Source

MEMORY = 4 * 2**30  # bytes of decoded images a run may keep


class Frames:
    """Images of several sources, looked up by source and frame number."""

    def __init__(self, sources: Sequence[Source], memory: int = MEMORY) -> None:
        self._sources = sources
        size = sum(len(s.state) * c.height * c.width * 3 for s in sources for c in s.cameras)
        self.in_memory = size <= memory
        self._decoded: dict[tuple[int, str, int], torch.Tensor] = {}

    def read(self, rows: np.ndarray, frames: np.ndarray, pool: ThreadPoolExecutor) -> dict[str, torch.Tensor]:
        """Images of frame `frames[i]` of source `rows[i]`, by camera key: uint8 (n, 3, height, width).

        Cameras are decoded side by side and never one video by two threads, which the decoders do not survive.
        """
        cameras = self._sources[int(rows[0])].cameras
        jobs = {camera.key: pool.submit(self._read_camera, camera, rows, frames) for camera in cameras}
        return {key: job.result() for key, job in jobs.items()}

    def _read_camera(self, camera: Camera, rows: np.ndarray, frames: np.ndarray) -> torch.Tensor:
        out = torch.empty(len(frames), 3, camera.height, camera.width, dtype=torch.uint8)
        episodes = np.array([self._sources[r].episode_of(frames[i : i + 1])[0] for i, r in enumerate(rows)])
        for row, episode in {(int(r), int(e)) for r, e in zip(rows, episodes, strict=True)}:
            places = np.flatnonzero((rows == row) & (episodes == episode))
            out[places] = self._episode_frames(camera, row, episode, frames[places])
        return out

    def _episode_frames(self, camera: Camera, row: int, episode: int, frames: np.ndarray) -> torch.Tensor:
        source = self._sources[row]
        if not self.in_memory:
            return source.images(camera, frames)
        key = (row, camera.key, episode)
        if key not in self._decoded:
            whole = np.arange(source.starts[episode], source.ends[episode])
            self._decoded[key] = source.images(camera, whole)
        return self._decoded[key][frames - source.starts[episode]]

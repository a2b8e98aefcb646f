"""Draws the cell for people, from a dressed copy of its model that is never stepped.

A picture is the mean of several renderings, each lit from another point of a wide lamp and seen a part of a pixel
beside the others. That makes soft shadows and smooth edges at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from holdfast.twin.cell import CAMERAS
from holdfast.twin.fabric import ClothLayers
from holdfast.twin.look import KEY_LIGHT, SHADOWED, VISITOR, dress
from holdfast.twin.views import Views

_LAMP = 0.05  # radius of the lamp, as a share of its distance
_BLUR = 0.6  # how far renderings are apart, as a share of a pixel
_TURN = math.pi * (3 - math.sqrt(5))  # from one rendering to the next: points on such a spiral fill a disc evenly


@dataclass(frozen=True)
class Quality:
    """How well pictures are drawn: renderings per picture, and pixels along a side of the map of shadows."""

    passes: int
    shadow_pixels: int


TRIAL = Quality(1, 512)  # films of trials, of which there are many
FILM = Quality(3, 512)
STILL = Quality(16, 1024)


class DressedCopy:
    """A copy of a cell in its look for people, which follows the pose of the cell that is simulated."""

    def __init__(self, spec: mujoco.MjSpec) -> None:
        """Compile it from a specification of its own, which is changed."""
        dress(spec)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self._layers = ClothLayers(self.model)

    def follow(self, data: mujoco.MjData) -> None:
        """Take over the pose of the simulated cell."""
        own = self.data
        own.qpos[:], own.mocap_pos[:], own.mocap_quat[:] = data.qpos, data.mocap_pos, data.mocap_quat
        mujoco.mj_kinematics(self.model, own)
        self._layers.part(own)
        mujoco.mj_kinematics(self.model, own)
        mujoco.mj_flex(self.model, own)
        mujoco.mj_camlight(self.model, own)


class Portrait(Views):
    """Renders a dressed copy of a cell: its cameras, and the one of a visitor."""

    def __init__(self, copy: DressedCopy, height: int, width: int, quality: Quality) -> None:
        """Make the buffer for images of this size."""
        copy.model.vis.quality.shadowsize = quality.shadow_pixels
        super().__init__(copy.model, (*CAMERAS, VISITOR), height, width)
        self._passes = quality.passes
        self._aside = self._along = 0.0  # of this rendering, within the unit disc

    def draw(self, data: mujoco.MjData, cameras: Sequence[str]) -> list[np.ndarray]:
        """Images of some of the cameras, each height x width x 3 bytes."""
        sums = [np.zeros((self._image_height, self.width, 3), np.uint16) for _ in cameras]
        for number in range(self._passes):
            radius = math.sqrt((number + 0.5) / self._passes)
            self._aside, self._along = radius * math.cos(number * _TURN), radius * math.sin(number * _TURN)
            for total, image in zip(sums, super().draw(data, cameras), strict=True):
                total += image
        return [((total + self._passes // 2) // self._passes).astype(np.uint8) for total in sums]

    def update_scene(self, data: mujoco.MjData, camera: Any = -1, scene_option: Any = None) -> None:
        """Describe the scene of this rendering: its point of the lamp, its part of a pixel."""
        super().update_scene(data, camera, scene_option)
        for light in self._scene.lights[: self._scene.nlight]:
            if light.castshadow:
                direction = KEY_LIGHT + _LAMP * np.array([self._aside, self._along, 0])
                light.dir[:] = direction / np.linalg.norm(direction)
                light.pos[:] = SHADOWED - 1.5 * light.dir
        for view in self._scene.camera:
            shift = _BLUR * (view.frustum_top - view.frustum_bottom) / self._image_height
            view.frustum_center += shift * self._aside
            view.frustum_top += shift * self._along
            view.frustum_bottom += shift * self._along

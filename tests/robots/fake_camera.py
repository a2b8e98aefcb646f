"""A camera that LeRobot's commands can be told to use, `type: fake`: noise that changes with every picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from lerobot.cameras.camera import Camera
from lerobot.cameras.configs import CameraConfig


@CameraConfig.register_subclass("fake")
@dataclass(kw_only=True)
class FakeCameraConfig(CameraConfig):
    seed: int = 0


class FakeCamera(Camera):
    is_connected = False

    def __init__(self, config):
        super().__init__(config)
        self._random = np.random.default_rng(config.seed)

    @staticmethod
    def find_cameras():
        return []

    def connect(self, warmup=True):
        self.is_connected = True

    def read(self):
        return self._random.integers(0, 256, (self.height, self.width, 3), np.uint8)

    def async_read(self, timeout_ms=0):
        return self.read()

    def read_latest(self, max_age_ms=0):
        return self.read()

    def disconnect(self):
        self.is_connected = False

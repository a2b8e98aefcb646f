"""The tasks of `metaworld-mini` without physics: a hand that has to move up by a length that the seed says."""

import numpy as np
from holdfast_worker import Simulator


class ToyMetaWorld(Simulator):
    """Names as in MetaWorld."""

    tasks = {name: f"Do {name}." for name in ("faucet-close-v3", "handle-press-side-v3", "window-close-v3")}  # noqa: RUF012
    state = ("x", "y", "z", "opening")
    action = ("dx", "dy", "dz", "grip")
    cameras = ("corner2",)
    rate = 80
    max_steps = 12

    def begin(self, task, seed, level):
        self.hand, self.goal = np.zeros(4), np.random.default_rng(seed).uniform(0.3, 0.5)

    def step(self, action):
        self.hand = self.hand + 0.1 * np.clip(action, -1, 1)

    def measure(self):
        return self.hand

    def draw(self, camera, height, width):
        return np.full((height, width, 3), int(200 * self.goal), np.uint8)

    def success(self):
        return self.hand[2] > self.goal

    def expert(self, seed):
        while not self.success():
            yield [0, 0, 1, 1]

"""An arena without a simulator: a point that has to reach a mark, or its mirror image, seen in a tiny picture."""

import numpy as np

from holdfast.arenas.arena import Arena
from holdfast.core.observation import Observation
from holdfast.core.records import Milestone, Reached, Task

NEAR, THERE = Milestone("near", "Half of the way is done."), Milestone("there", "The point is there.", ("near",))

# A stream of its tasks, whose datasets are beside it.
STREAM = """
name = "points"
[[task]]
name = "touch"
instruction = "Go to the mark."
arms = ["point"]
dataset = "data/touch"
[[task]]
name = "mirror"
instruction = "Go to the other side."
arms = ["point"]
dataset = "data/mirror"
[[task.milestone]]
name = "near"
text = "Half of the way is done."
[[task.milestone]]
name = "there"
text = "The point is there."
needs = ["near"]
"""


class Point:
    def __init__(self, side):
        self.side = side

    def reset(self, seed, level):
        self.steps, self.at = 0, np.zeros(2)
        self.mark = np.random.default_rng(seed).uniform(0.4, 0.8, 2)

    def observe(self, size=None, cameras=()):
        return Observation(self.at.copy(), {name: self.draw(*size) for name in cameras} if size else {})

    def step(self, action):
        self.at, self.steps = np.clip(action, self.at - 0.2, self.at + 0.2), self.steps + 1

    @property
    def over(self):
        return self.steps >= 20

    def reached(self):
        left = np.abs(self.side * self.mark - self.at).max() / self.mark.max()
        names = tuple(name for name, most in (("near", 0.5), ("there", 0.1)) if left < most)
        return Reached(names if self.side < 0 else (), final=bool(left < 0.1))

    def picture(self):
        return self.draw(128, 128)

    def draw(self, height, width):
        y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
        red, green = (np.hypot(x - place[0], y - place[1]) < 0.2 for place in (self.mark, self.at))
        return np.stack([255 * red, 255 * green, 0 * red], axis=-1).astype(np.uint8)

    def act(self):  # it is its own expert
        return None if self.reached().final else np.clip(self.side * self.mark, self.at - 0.2, self.at + 0.2)

    def close(self): ...


class FakeArena(Arena):
    name, rate, cameras, state, action = "fake", 10, ("top",), ("x", "y"), ("x", "y")
    tasks = {  # noqa: RUF012
        "touch": Task("touch", "Go to the mark.", ("point",)),  # scored by plain success
        "mirror": Task("mirror", "Go to the other side.", ("point",), milestones=(NEAR, THERE)),
    }
    policies = ("expert",)

    def max_steps(self, task):
        return 20

    def open(self, task):
        return Point(1 if task == "touch" else -1)

    def policy(self, name, environment, seed):
        return environment

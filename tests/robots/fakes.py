"""Robots, answerers and keys that need no hardware, no simulator and no policy."""

from __future__ import annotations

import time

import numpy as np

from holdfast.core.observation import Observation
from holdfast.core.records import Task
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.client import About
from holdfast.twin.world import _home

PAIR = EMBODIMENTS["piper_x_pair"]
HOME = _home()
ONE = Task("reach", "Please reach.", ("left",))
BOTH = Task("lift", "Please lift.", ("left", "right"))
CAMERAS = {"head": (32, 32)}


class FakeRobot:
    """Arms that lag behind their commands, sag a little, and note when they were told what."""

    embodiment = PAIR

    def __init__(self, rate=30, steps=10**9, sag=0.0, stays=False):
        self.rate, self._steps, self._sag, self._stays = rate, steps, sag, stays
        self.sent, self.stops, self.state = [], [], HOME.copy()
        self.begin(0)

    def begin(self, seed):
        self.told = self.looks = 0
        if not self._stays:
            self.state = HOME.copy()

    def observe(self):
        self.looks += 1
        return Observation(self.state.copy(), {"head": np.full((32, 32, 3), self.looks % 256, np.uint8)})

    def send(self, pose):
        self.told += 1
        self.sent.append((time.monotonic(), pose.copy()))
        self.state += 0.6 * (pose - self._sag - self.state)

    def stop(self):
        self.stops.append(time.monotonic())

    def picture(self):
        return np.zeros((16, 32, 3), np.uint8)

    @property
    def over(self):
        return self.told >= self._steps

    @property
    def poses(self):
        return np.array([pose for _, pose in self.sent])

    def close(self):
        pass


class FakeAnswerer:
    """Answers after a delay: the left arm's first joint shall go to the number of the step, in milliradians."""

    def __init__(self, delay=0.0, steps=16, actions=None):
        self.delay, self._steps, self._actions = delay, steps, actions
        self.questions, self.connected = [], 0

    def connect(self):
        self.connected += 1
        return About(PAIR.names, CAMERAS, self._steps)

    def answer(self, question, seconds):
        self.questions.append(question)
        time.sleep(self.delay() if callable(self.delay) else self.delay)
        if self._actions is not None:
            return self._actions(question)
        first = question.images["head"][0, 0, 0]  # looks are counted from 1, the first one is step 0
        actions = np.repeat(question.state[None], self._steps, axis=0)
        actions[:, 0] = HOME[0] + 0.001 * (np.arange(self._steps) + first)
        return actions

    def close(self):
        pass


class FakeKeys:
    """Keys pressed at given looks at the keyboard."""

    def __init__(self, presses):
        self._presses, self._asked = presses, 0

    def pressed(self):
        self._asked += 1
        return self._presses.get(self._asked, "")

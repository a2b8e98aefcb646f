"""Robots, answerers, keys and a clock that need no hardware, no simulator, no policy and no time."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import numpy as np

from holdfast.core.observation import Observation
from holdfast.core.records import Task
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.client import About
from holdfast.robots.robot import Robot
from holdfast.twin.world import _home

PAIR = EMBODIMENTS["piper_x_pair"]
HOME = _home()
ONE = Task("reach", "Please reach.", ("left",))
BOTH = Task("lift", "Please lift.", ("left", "right"))
CAMERAS = {"head": (32, 32)}


class FakeClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


class FakeThread(Executor):
    """A thread on a fake clock: computes at once, and its result is there after the time the computation slept."""

    def __init__(self, clock):
        self._clock, self._free = clock, 0.0

    def submit(self, function, *args):
        now, self._clock.time = self._clock.time, max(self._clock.time, self._free)
        future = _Later(self._clock)
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        future.ready = self._free = self._clock.time
        self._clock.time = now
        return future


class _Later(Future):
    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def done(self):
        return self._clock.time >= self.ready

    def result(self, timeout=None):
        self._clock.time = max(self._clock.time, self.ready)
        return super().result(timeout)


class FakeRobot(Robot):
    """Arms that lag behind their commands, sag a little, and note when they were told what."""

    embodiment = PAIR

    def __init__(self, rate=30, steps=10**9, sag=0.0, stays=False):
        self.rate, self._steps, self._sag, self._stays = rate, steps, sag, stays
        self.clock = FakeClock()
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
        self.sent.append((self.clock.now(), pose.copy()))
        self.state += 0.6 * (pose - self._sag - self.state)

    def stop(self):
        self.stops.append(self.clock.now())

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
        self.clock = FakeClock()
        self.questions, self.connected = [], 0

    def connect(self):
        self.connected += 1
        return About(PAIR.names, CAMERAS, self._steps)

    def answer(self, question, seconds):
        self.questions.append(question)
        self.clock.sleep(self.delay() if callable(self.delay) else self.delay)
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

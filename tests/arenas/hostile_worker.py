"""A simulator that does something wrong in the second step of the layouts that its options name."""

import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count

import msgpack
import numpy as np
from holdfast_worker import Simulator, _write_array

PIPES = range(3, 12)  # the channel to Holdfast is one of them


class Hostile(Simulator):
    tasks = {"touch": {"instruction": "Go to the mark.", "milestones": {"near": "Close to it.", "there": "At it."}}}  # noqa: RUF012
    state = action = ("x", "y")
    cameras = ("top",)
    rate, max_steps = 10, 20

    def __init__(self, faults=None):
        self.faults = faults or {}

    def begin(self, task, seed, level):
        self.fault = self.faults.get(str(seed), "")
        self.at, self.steps, self.names, self.lie = np.zeros(2), 0, (), None
        self.mark = np.random.default_rng(seed).uniform(0.4, 0.8, 2)
        if self.fault == "at_begin":
            raise RuntimeError("no licence")

    def step(self, action):
        self.at, self.steps = np.clip(action, self.at - 0.2, self.at + 0.2), self.steps + 1
        if self.steps == 2 and hasattr(self, self.fault):
            getattr(self, self.fault)()

    def measure(self):
        return self.at if self.lie is None else self.lie

    def success(self):
        return np.abs(self.mark - self.at).max() < 0.1

    def milestones(self):
        return self.names or (("near", "there") if self.success() else ())

    def draw(self, camera, height, width):
        kind = np.float64 if self.fault == "float_image" and self.steps > 1 else np.uint8
        return np.full((height, width, 3), 200 * self.mark[0], kind)

    def expert(self, seed):
        while not self.success():
            yield self.mark

    # What goes wrong.

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def leave(self):
        os._exit(3)

    def crash(self):
        raise RuntimeError("the licence has \x1b[31mexpired\x1b[0m")

    def hang(self):
        time.sleep(3600)

    def chatter(self):
        """Not a fault: what is printed, from Python and below it, disturbs nothing."""
        print("x" * 10_000_000)
        os.write(1, b"y" * 1_000_000)
        sys.stdin.read()

    def wrong_shape(self):
        self.lie = np.zeros(3)

    def nan(self):
        self.lie = np.array([np.nan, 0.0])

    def objects(self):
        self.lie = [object(), 1]

    def strange_milestone(self):
        self.names = ("flown",)

    def endless_message(self):
        self.say(struct.pack("<I", 2**32 - 1))
        while True:
            self.say(bytes(2**16))

    def nonsense(self):
        self.say(struct.pack("<I", 8) + b"\xc1nonsens")

    def pickle(self):
        import pickle

        class Code:
            def __reduce__(self):
                return open, ("executed", "w")

        packed = pickle.dumps(Code())
        self.say(struct.pack("<I", len(packed)) + packed)

    def early_answer(self):
        answer = b"\x82\xa6number\x01\xa6answer\x80"
        self.say(struct.pack("<I", len(answer)) + answer)

    def list_milestone(self):
        self.answer(self.number(), milestones=[["near"]])

    def array_number(self):
        self.answer(np.array([self.number()]))

    def deaf(self):
        """It answers questions that it never reads."""
        for number in count(self.number()):
            self.answer(number)

    def number(self):
        """That of the question which is being answered."""
        frame = sys._getframe()
        while "question" not in frame.f_locals:
            frame = frame.f_back
        return frame.f_locals["question"]["number"]

    def answer(self, number, **changes):
        moment = {"state": np.zeros(2), "success": False, "milestones": [], "over": False, **changes}
        packed = msgpack.packb({"number": number, "answer": moment}, default=_write_array)
        self.say(struct.pack("<I", len(packed)) + packed)

    def orphan(self):
        subprocess.Popen(["sleep", "600"], close_fds=False)
        if os.fork() == 0:
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGKILL)

    def say(self, content):
        for pipe in PIPES:
            with suppress(OSError):
                os.write(pipe, content)

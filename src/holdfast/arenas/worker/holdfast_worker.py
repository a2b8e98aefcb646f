"""Runs a simulator for Holdfast, in the simulator's own Python (3.8 or later) with numpy and msgpack.

Holdfast starts it as `python holdfast_worker.py FILE`. The file has one class derived from `Simulator`. Questions come
on standard input and answers go to standard output, each a msgpack map after its length in four bytes. Every question
gets one answer:

    hello {options}               what the simulator is: tasks, names, kinds, rate, cameras
    begin {task, seed, level}     start an episode; answered with the moment
    step {action}                 one control step; answered with the moment
    look {cameras, height, width} images
    picture {}                    a picture for people
    expert {seed}                 start the expert in the episode that has just begun
    act {}                        the expert's next action, or nothing when it has finished

A moment is the state, what was reached, and whether the episode has to end. What the simulator prints goes to standard
error, also what it prints from C. An exception ends the process; its traceback is shown to the user.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgpack
import numpy as np

PROTOCOL = 1


class Simulator(ABC):
    """A simulator with tasks. Derive one class, set the names, and write the first five methods.

    An episode must depend only on its task, seed, level and actions, to the last bit: not on earlier episodes and not
    on how often it was looked at. The options of the arena's file are the arguments of the class.
    """

    # By name: an instruction, or a table with `instruction` and, as needed, `max_steps` and `milestones` (name: text).
    tasks: Mapping[str, str | dict[str, Any]]
    state: Sequence[str]  # names of what is measured
    action: Sequence[str]  # names of what is commanded; the same name as in the state means a target of that state
    cameras: Sequence[str]
    kinds: Mapping[str, str] = {}  # what actions mean, by name: joint, gripper, target, delta, velocity or binary
    rate: int = 30  # control steps a second
    max_steps: int = 300  # control steps after which an episode is over
    levels: Sequence[str] = ("",)  # how far layouts may vary; the first is the default

    @abstractmethod
    def begin(self, task: str, seed: int, level: str) -> None:
        """Start an episode: the seed and the level determine the layout."""

    @abstractmethod
    def step(self, action: np.ndarray) -> None:
        """One control step."""

    @abstractmethod
    def measure(self) -> Any:
        """The state: as many numbers as it has names."""

    @abstractmethod
    def draw(self, camera: str, height: int, width: int) -> np.ndarray:
        """A camera's image: uint8 (height, width, 3)."""

    @abstractmethod
    def success(self) -> bool:
        """Whether the task is done now."""

    def milestones(self) -> Sequence[str]:
        """Milestones of the task that were reached; only for tasks that list some."""
        return ()

    def over(self) -> bool:
        """Whether the episode has to end before its time."""
        return False

    def picture(self) -> np.ndarray:
        """A picture for people, height and width even: the first camera's, if this is not overridden."""
        return self.draw(self.cameras[0], 240, 320)

    def expert(self, seed: int | None) -> Iterator[np.ndarray]:
        """The expert's actions, as a generator; with a seed its motions vary. A simulator without experts leaves it."""
        raise RuntimeError(f"{type(self).__name__} has no expert.")


class SimulatorSession:
    """Answers questions about one simulator, each by the method of its name."""

    def __init__(self, kind: type[Simulator]) -> None:
        self._kind = kind
        self._steps = self._limit = 0

    def hello(self, options: dict[str, Any]) -> dict[str, Any]:
        """Make the simulator and describe it."""
        self._simulator = made = self._kind(**options)
        self._tasks = {name: _described(task, made.max_steps) for name, task in made.tasks.items()}
        return {
            "protocol": PROTOCOL,
            "tasks": self._tasks,
            **{word: list(getattr(made, word)) for word in ("state", "action", "cameras", "levels")},
            "kinds": dict(made.kinds),
            "rate": made.rate,
            "expert": self._kind.expert is not Simulator.expert,
        }

    def begin(self, task: str, seed: int, level: str) -> dict[str, Any]:
        """Start an episode. Simulators that draw from the global random generators get a seed too."""
        random.seed(seed)
        np.random.seed(seed % 2**32)
        self._steps, self._limit = 0, self._tasks[task]["max_steps"]
        self._simulator.begin(task, seed, level)
        return self._moment()

    def step(self, action: np.ndarray) -> dict[str, Any]:
        """One control step; the action is the simulator's own to change."""
        self._simulator.step(action.copy())
        self._steps += 1
        return self._moment()

    def look(self, cameras: Sequence[str], height: int, width: int) -> dict[str, Any]:
        """Images of some cameras."""
        return {"images": {camera: np.asarray(self._simulator.draw(camera, height, width)) for camera in cameras}}

    def picture(self) -> dict[str, Any]:
        """A picture for people."""
        return {"picture": np.asarray(self._simulator.picture())}

    def expert(self, seed: int | None) -> dict[str, Any]:
        """Start the expert."""
        self._expert = self._simulator.expert(seed)
        return {}

    def act(self) -> dict[str, Any]:
        """The expert's next action."""
        action = next(self._expert, None)
        return {"action": None if action is None else np.asarray(action, np.float64)}

    def _moment(self) -> dict[str, Any]:
        simulator = self._simulator
        return {
            "state": np.asarray(simulator.measure(), np.float64),
            "success": bool(simulator.success()),
            "milestones": [str(name) for name in simulator.milestones()],
            "over": bool(self._steps >= self._limit or simulator.over()),
        }


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image in another size; every pixel is the mean of the area that it covers, so thin things do not vanish."""
    if image.shape[:2] == (height, width):
        return image
    rows, columns = _areas(image.shape[0], height), _areas(image.shape[1], width)
    mean = np.einsum("ab,bcd,ec->aed", rows, image.astype(np.float64), columns, optimize=True)
    return np.rint(mean).astype(np.uint8)


def _areas(old: int, new: int) -> np.ndarray:
    """How much of every old pixel is in every new one: (new, old), rows that add up to 1."""
    edges = np.linspace(0, old, new + 1)
    left, right = edges[:-1, None], edges[1:, None]
    shares = np.minimum(right, np.arange(1, old + 1)) - np.maximum(left, np.arange(old))
    shares = np.maximum(shares, 0)
    return shares / shares.sum(axis=1, keepdims=True)


def main(file: str) -> None:
    """Answer questions until there are no more."""
    questions, answers = _channels()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    session = SimulatorSession(_simulator_in(file))
    while True:
        head = questions.read(4)
        if len(head) < 4:
            return
        question = msgpack.unpackb(questions.read(struct.unpack("<I", head)[0]), object_hook=_read_array)
        answer = getattr(session, question["ask"])(**question["with"])
        packed = msgpack.packb({"number": question["number"], "answer": answer}, default=_write_array)
        answers.write(struct.pack("<I", len(packed)) + packed)
        answers.flush()


def _channels() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output for messages; to the simulator they are empty, and standard error."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return questions, answers


def _end_with(parent: int) -> None:
    """End with the process that started this one, even if the simulator hangs."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _simulator_in(file: str) -> type[Simulator]:
    """The class derived from `Simulator` that a file defines."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        sys.exit(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    gc.disable()  # a simulator is thousands of modules, and to search them for garbage takes a sixth of their import
    spec.loader.exec_module(module)
    gc.freeze()  # they stay: later searches leave them out
    gc.enable()
    own = [thing for thing in vars(module).values() if isinstance(thing, type) and thing.__module__ == name]
    found = [thing for thing in own if issubclass(thing, Simulator)]
    if len(found) != 1:
        sys.exit(f"{file} must define one class derived from holdfast_worker.Simulator, it has {len(found)}")
    return found[0]


def _described(task: str | dict[str, Any], max_steps: int) -> dict[str, Any]:
    table = {"instruction": task} if isinstance(task, str) else dict(task)
    return {"max_steps": max_steps, "milestones": {}, **table}


def _write_array(value: Any) -> dict[bytes, Any]:
    value = np.asarray(value)
    if value.dtype.kind not in "biuf":
        raise TypeError(f"{type(value).__name__} of {value.dtype} cannot be sent")
    return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}


def _read_array(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" not in value:
        return value
    return np.ndarray(value[b"shape"], value[b"dtype"], value[b"data"])


if __name__ == "__main__":
    import holdfast_worker  # type: ignore[import-not-found] # the module that simulators import, not __main__

    holdfast_worker.main(sys.argv[1])

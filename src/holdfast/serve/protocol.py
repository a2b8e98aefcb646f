"""The content of messages: greeting, questions, answers. docs/serving.md lists every key, `wire.py` has the encoding.

Questions are not trusted: whatever is not exactly what the policy needs is refused with an error that says why.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.observation import Question
from holdfast.core.records import Task
from holdfast.core.wire import pack, unpack
from holdfast.data.lerobot.folder import IMAGES, STATE, camera_name, is_image
from holdfast.serve.bundle import Bundle

PROTOCOL = 1
_SLACK = 2**16  # bytes of a question without its images
_KEYS = (STATE, "state", f"{IMAGES}NAME", "images", "prompt", "task", "seed", "number")


class MessageCodec:
    """Reads questions and writes answers of one bundle's policy."""

    def __init__(self, bundle: Bundle, answer_steps: int) -> None:
        self._bundle, self._answer_steps = bundle, answer_steps
        prompts = Counter(_plain(task.instruction) for task in bundle.tasks.values())
        self._tasks = {_plain(t.instruction): t for t in bundle.tasks.values() if prompts[_plain(t.instruction)] == 1}
        self._tasks |= {_plain(task.name): task for task in bundle.tasks.values()}

    @property
    def limit(self) -> int:
        """The most bytes of a question: four times its images, so that float images get an error that explains."""
        return 4 * sum(3 * height * width for height, width in self._bundle.cameras.values()) + _SLACK

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks of the bundle, by name."""
        return self._bundle.tasks

    def greeting(self) -> bytes:
        """The first message to a new client."""
        bundle = self._bundle
        own = {"state_names": list(bundle.state_names)} if bundle.state_names != bundle.names else {}
        return pack({
            "protocol": PROTOCOL,
            "bundle": bundle.hash,
            "policy": bundle.weights,
            "normalization": bundle.normalization.hash,
            "tasks": {t.name: {"instruction": t.instruction, "arms": list(t.arms)} for t in bundle.tasks.values()},
            "embodiment": bundle.embodiment.name if bundle.embodiment else None,
            "names": list(bundle.names),
            **own,
            "cameras": {name: list(size) for name, size in bundle.cameras.items()},
            "horizon": self._answer_steps,
            "fps": bundle.fps,
            "limit": self.limit,
        })  # fmt: skip

    def blank(self, task: Task) -> Question:
        """A question of zeros, to warm the policy up."""
        images = {name: np.zeros((*size, 3), np.uint8) for name, size in self._bundle.cameras.items()}
        return Question(task, np.zeros(len(self._bundle.state_names), np.float32), images)

    def read(self, message: str | bytes, number: int) -> Question:
        """Read a question, the connection's `number`-th; whatever is wrong with it is a HoldfastError."""
        if isinstance(message, str):
            raise HoldfastError("A question is a binary message in msgpack, got text.")
        content = unpack(message, self.limit)
        if not isinstance(content, dict):
            raise HoldfastError(f"A question is a map, got {_kind(content)}.")
        for key in content:
            if key not in _KEYS and not is_image(key):
                raise unknown("key of a question", key[:80], _KEYS)
        return Question(
            self._task(_either(content, "prompt", "task")),
            self._state(_either(content, STATE, "state")),
            self._images(content),
            _count(content, "seed", 0),
            _count(content, "number", number),
        )

    def answer(self, question: Question, actions: np.ndarray, wait: float, infer: float) -> bytes:
        """The message that answers a question. Arms that the task does not use hold their pose, if it is measured."""
        robot, arms = self._bundle.embodiment, question.task.arms
        actions = np.asarray(actions, np.float32)
        if not np.isfinite(actions).all():
            raise HoldfastError("The policy's actions are not finite numbers. Do not move the robot with it.")
        if robot is not None:
            actions = robot.hold_idle(actions, question.state, self._bundle.names, self._bundle.state_names, arms)
        return pack({
            "actions": actions,
            "active": robot.active(arms) if robot else np.ones(actions.shape[1], bool),
            "task": question.task.name,
            "seed": question.seed,
            "number": question.number,
            "bundle": self._bundle.hash,
            "server_timing": {"wait_ms": 1000 * wait, "infer_ms": 1000 * infer},
        })  # fmt: skip

    def _task(self, prompt: Any) -> Task:
        if not isinstance(prompt, str):
            raise HoldfastError(f"A prompt is text, got {_kind(prompt)}.")
        if _plain(prompt) not in self._tasks:
            raise unknown("prompt", prompt[:200], [f"{t.name} ({t.instruction})" for t in self.tasks.values()])
        return self._tasks[_plain(prompt)]

    def _state(self, state: Any) -> np.ndarray:
        names = self._bundle.state_names
        if not isinstance(state, np.ndarray) or state.dtype.kind not in "fiu" or state.shape != (len(names),):
            raise HoldfastError(f"The state must be {len(names)} numbers, got {_kind(state)}.")
        with np.errstate(over="ignore"):
            pose = state.astype(np.float32)
        wrong = [name for name, value in zip(names, pose, strict=True) if not np.isfinite(value)]
        if wrong:
            raise HoldfastError(f"The state is not a finite number in {', '.join(wrong)}.")
        return pose

    def _images(self, content: dict[str, Any]) -> dict[str, np.ndarray]:
        found = content.get("images", {})
        if not isinstance(found, dict):
            raise HoldfastError(f"'images' is a map from cameras to arrays, got {_kind(found)}.")
        for key in content:
            if is_image(key):
                name = camera_name(key)
                if name in found:
                    raise HoldfastError(f"Camera {name[:80]!r} is there twice, as {key[:80]!r} and in 'images'.")
                found = {**found, name: content[key]}
        cameras = self._bundle.cameras
        for name in found.keys() - cameras.keys():
            raise unknown("camera", name[:80], cameras)
        for name in cameras.keys() - found.keys():
            raise HoldfastError(f"Camera {name!r} is missing. The policy reads {', '.join(cameras)}.")
        return {name: _image(name, found[name], size) for name, size in cameras.items()}


def _image(name: str, image: Any, size: tuple[int, int]) -> np.ndarray:
    """An image as height x width x 3; channels may come first or last."""
    height, width = size
    if isinstance(image, np.ndarray) and image.dtype == np.uint8:
        if image.shape == (height, width, 3):
            return image
        if image.shape == (3, height, width):
            return image.transpose(1, 2, 0)
    raise HoldfastError(f"Camera {name!r} must be uint8 of shape {height} x {width} x 3, got {_kind(image)}.")


def _either(content: dict[str, Any], name: str, other: str) -> Any:
    if (name in content) == (other in content):
        raise HoldfastError(f"Give {name!r} or {other!r}, {'not both' if name in content else 'neither is there'}.")
    return content[name] if name in content else content[other]


def _count(content: dict[str, Any], name: str, otherwise: int) -> int:
    value = content.get(name, otherwise)
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 0 <= value < 2**63:
        raise HoldfastError(f"{name!r} must be a whole number from 0 up, got {_kind(value)}.")
    return int(value)


def _plain(text: str) -> str:
    """Text without case, surrounding spaces and the full stop."""
    return text.strip().rstrip(".").casefold()


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {' x '.join(map(str, value.shape)) or '()'}"
    return f"{str(value)[:40]!r}" if isinstance(value, int | float | str) else f"a {type(value).__name__}"

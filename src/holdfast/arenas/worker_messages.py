"""What a worker's answers must be. They come from a stranger's process: every value is checked before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.arenas.arena_file import check_rate
from holdfast.core import outside
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json
from holdfast.core.names import check_name
from holdfast.core.records import Reached
from holdfast.embodiments.embodiment import Kind

PROTOCOL = 1
_LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class WorkerTask:
    """A task as its worker describes it; `milestones` are texts by name."""

    instruction: str
    max_steps: int
    milestones: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.max_steps <= 1_000_000:
            raise HoldfastError(f"max_steps must be from 1 to 1,000,000, got {self.max_steps}.")


@dataclass(frozen=True)
class SimulatorDescription:
    """What a worker says of its simulator; `kinds` are those of its actions that it names."""

    protocol: int
    tasks: dict[str, WorkerTask]
    state: tuple[str, ...]
    action: tuple[str, ...]
    cameras: tuple[str, ...]
    levels: tuple[str, ...]
    rate: int
    expert: bool
    kinds: dict[str, Kind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.protocol != PROTOCOL:
            raise HoldfastError(f"it speaks protocol {self.protocol}, expected {PROTOCOL}.")
        check_rate(self.rate)
        for word in ("tasks", "state", "action", "cameras", "levels"):
            names = tuple(getattr(self, word))
            if not names or len(set(names)) < len(names) or not all(map(_is_short, names)):
                got = f"{len(names)}, the first ones {names[:3]}"
                raise HoldfastError(
                    f"{word} must be different names of at most {_LONGEST} plain characters, got {got:.{_LONGEST}}."
                )
        for name in (*self.tasks, *self.cameras):
            check_name(name, "Tasks and cameras")
        for name in (name for task in self.tasks.values() for name in task.milestones):
            check_name(name[: _LONGEST + 1], "Milestones")
        for name in self.kinds:
            if name not in self.action:
                raise unknown("action that has a kind", name[:_LONGEST], self.action)


@dataclass(frozen=True)
class WorkerMoment:
    """An episode after a step: what is measured, what was reached, and whether it has to end."""

    state: np.ndarray
    reached: Reached
    over: bool


def read_description(answer: Any) -> SimulatorDescription:
    """The answer to `hello`."""
    return from_json(SimulatorDescription, outside.check(answer, "Its description"), "Its description")


def read_moment(answer: Any, description: SimulatorDescription, task: str) -> WorkerMoment:
    """The answer to `begin` and `step`."""
    match answer:
        case {"state": state, "success": bool(success), "milestones": [*milestones], "over": bool(over)}:
            known = description.tasks[task].milestones
            strange = [name for name in milestones if not isinstance(name, str) or name not in known]
            if strange or len(set(milestones)) < len(milestones):
                raise HoldfastError(f"it reports milestones {milestones}, its task has {list(known)}")
            names = description.state
            return WorkerMoment(read_numbers(state, names, "state"), Reached(tuple(milestones), final=success), over)
    raise HoldfastError("its answer is not a moment: state, success, milestones and over")


def read_numbers(values: Any, names: Sequence[str], what: str) -> np.ndarray:
    """One finite number for every name, as a float64 array of its own."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != (len(names),):
        raise HoldfastError(f"its {what} must be {len(names)} numbers of type float64, got {_kind(values)}")
    if not np.isfinite(values).all():
        raise HoldfastError(f"its {what} must be finite, got {values.tolist()}")
    return values.copy()


def read_images(answer: Any, cameras: Sequence[str], size: tuple[int, int]) -> dict[str, np.ndarray]:
    """The answer to `look`."""
    images = answer.get("images") if isinstance(answer, dict) else None
    if not isinstance(images, dict) or set(images) != set(cameras):
        raise HoldfastError(f"its images must be those of {', '.join(cameras)}")
    for camera, image in images.items():
        _check_image(image, (*size, 3), f"image of {camera!r}")
    return {camera: images[camera] for camera in cameras}


def read_picture(answer: Any) -> np.ndarray:
    """The answer to `picture`."""
    picture = answer.get("picture") if isinstance(answer, dict) else None
    shape = picture.shape if isinstance(picture, np.ndarray) and picture.ndim == 3 else (2, 2, 3)
    if min(shape) < 1 or shape[0] % 2 or shape[1] % 2:
        raise HoldfastError(f"its picture must have an even height and width, got {shape}")
    return _check_image(picture, (*shape[:2], 3), "picture")


def read_action(answer: Any, names: Sequence[str]) -> np.ndarray | None:
    """The answer to `act`."""
    if not isinstance(answer, dict) or "action" not in answer:
        raise HoldfastError("its answer has no action")
    return None if answer["action"] is None else read_numbers(answer["action"], names, "expert's action")


def _is_short(name: str) -> bool:
    return len(name) <= _LONGEST and name.isprintable()


def _check_image(image: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape != shape:
        raise HoldfastError(f"its {what} must be uint8 {shape}, got {_kind(image)}")
    return image


def _kind(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"

"""The twin's tasks, one file each, imported on demand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.core.errors import unknown
from holdfast.twin import require_mujoco

if TYPE_CHECKING:
    from holdfast.twin.task import TwinTask

TASKS = {
    "stack_bowls": "holdfast.twin.tasks.stack_bowls:StackBowls",
    "press_button": "holdfast.twin.tasks.press_button:PressButton",
    "hang_cup": "holdfast.twin.tasks.hang_cup:HangCup",
    "push_box": "holdfast.twin.tasks.push_box:PushBox",
    "pack_bag": "holdfast.twin.tasks.pack_bag:PackBag",
    "cook_bread": "holdfast.twin.tasks.cook_bread:CookBread",
    "fold_towel": "holdfast.twin.tasks.fold_towel:FoldTowel",
    "fold_tshirt": "holdfast.twin.tasks.fold_tshirt:FoldTshirt",
    "place_cola": "holdfast.twin.tasks.place_cola:PlaceCola",
    "place_fruits": "holdfast.twin.tasks.place_fruits:PlaceFruits",
}


def task_class(name: str) -> type[TwinTask]:
    """The class of the task called `name`."""
    if name not in TASKS:
        raise unknown("task of the twin", name, TASKS)
    require_mujoco()
    module, _, kind = TASKS[name].partition(":")
    return getattr(import_module(module), kind)

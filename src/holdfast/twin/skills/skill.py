"""What every skill provides, and the motions that skills share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from holdfast.embodiments import piper_x_ik as ik
from holdfast.twin.arm import OPEN
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.skills.playground import ZONES, Crowded, Playground
from holdfast.twin.skills.toys import WALL, Prop

OUTER = {"left": 1, "right": -1}  # the side of a thing on which an arm grasps its rim or wall
HOLLOW = ("tube", "dish", "tray", "bin")
GRASPABLE = ("block", "cylinder", "tube", "dish")
_LOWEST = 0.0165  # of the tool centre point: the fingertips stay just above the table
_TILTS = (0.0, 0.15, 0.3, 0.45)


class Skill(ABC):
    """One episode on the playground: created with its props, shown by `scripts`, checked by `succeeded`."""

    name: ClassVar[str]
    templates: ClassVar[tuple[str, ...]]

    def __init__(self, playground: Playground, arms: tuple[str, ...], rng: np.random.Generator) -> None:
        self.playground, self.world, self.arms, self.rng = playground, playground.world, arms, rng
        self.side = arms[0]
        self.lay()
        self._distract()
        self.instruction = self._say()

    @abstractmethod
    def lay(self) -> None:
        """Draw the props of the skill."""

    @abstractmethod
    def words(self) -> dict[str, str]:
        """What fills the gaps of the templates."""

    @abstractmethod
    def scripts(self, drivers: Drivers) -> Scripts:
        """One generator for each arm that moves."""

    @abstractmethod
    def succeeded(self) -> bool:
        """Whether the world is as the instruction asks, when the scripts have ended."""

    def free_of(self, prop: Prop) -> bool:
        """Whether a prop stands upright and no hand touches it."""
        return self.world.up(prop.name) > 0.95 and not any(self.world.pads(side, prop.name) for side in OUTER)

    def _distract(self) -> None:
        """Add distractors, so that instruction and images are needed."""
        fewest = 1 if len(self.playground.props) == 1 else 0
        for _ in range(self.rng.integers(fewest, 4)):
            kinds = ["block", "cylinder", "crate", "tube", "dish", "tray", "bin", "pad", "knob"]
            try:
                self.playground.add(self.rng, kinds, ZONES["table"], gap=0.05)
            except Crowded:
                return

    def _say(self) -> str:
        """The instruction; one that names no arm means the left one."""
        text = str(self.rng.choice(self.templates)).format(**self.words())
        if len(self.arms) == 1 and (self.side == "right" or self.rng.random() < 0.4):
            text += f" with the {self.side} {self.rng.choice(['arm', 'hand'])}"
        return f"{text}."


# Grasping and letting go


def grasp(hand: Driver, prop: Prop, near: float = 0.0) -> tuple[np.ndarray, float, float]:
    """Where a hand grasps a prop, the yaw of its fingers, and how wide they open before.

    Boxes are grasped across a side that fits between the fingers, round things along the arm, hollow things by the
    rim or wall on the arm's own side. `near` is the distance of the grasp from a bar's middle.
    """
    world, side = hand.world, hand.side
    middle, yaw = world.position(prop.name), world.yaw(prop.name)
    heading = ik.heading(side, middle)
    depth = prop.low + prop.height - min(0.018, 0.6 * prop.height)
    point = np.array([0.0, 0.0, depth])
    opening = OPEN
    if prop.kind in ("cylinder", "tube", "dish"):
        yaw = heading
        if prop.kind != "cylinder":
            out = OUTER[side] * (prop.half[0] - WALL)
            turned = yaw - world.yaw(prop.name)
            point[:2], opening = (-math.sin(turned) * out, math.cos(turned) * out), 0.045
    elif prop.kind in ("tray", "bin"):
        point[1], opening = OUTER[side] * (prop.half[1] - WALL), 0.045
    elif prop.kind == "bar":
        point[1], yaw = OUTER[side] * near, yaw + math.pi / 2
    elif prop.half[0] < 0.027 and abs(_fold(yaw - heading)) > math.pi / 4:
        yaw += math.pi / 2
    target = world.to_world(prop.name, point)
    target[2] = max(target[2], _LOWEST)
    return target, yaw, opening


def take(hand: Driver, prop: Prop, lift: float, near: float = 0.0) -> Script:
    """Grasp a prop and raise it."""
    point, yaw, opening = grasp(hand, prop, near)
    yield from hand.pick(point, yaw, lift, opening)


def carry(hand: Driver, prop: Prop, xy: np.ndarray) -> Script:
    """Bring a held prop over a point without turning it, then correct the remaining error."""
    for speed in (0.25, 0.12):
        goal = hand.position + np.array([*(xy - hand.world.position(prop.name)[:2]), 0])
        height = hand.world.position(prop.name)[2]
        yield from hand.bring(prop.name, [*xy, height], rotation=unturned(hand, goal, drop=0.08), speed=speed)


def lower(hand: Driver, prop: Prop, floor: float) -> Script:
    """Lower a held prop until its underside is just above a height."""
    drop = hand.world.to_world(prop.name, [0, 0, prop.low])[2] - floor - 0.002
    yield from hand.move(hand.position - max(drop, 0) * UP, speed=0.12, straight=True)


def release(hand: Driver, prop: Prop, rise: float = 0.09) -> Script:
    """Open the fingers as far as the prop allows, and rise."""
    wide = 0.03 if prop.kind in HOLLOW else min(OPEN, hand.world.opening(hand.side) + 0.025)
    yield from hand.grip(wide, seconds=0.3)
    yield from hand.wait(seconds=0.15)
    yield from hand.move(hand.position + rise * UP, speed=0.2)
    yield from hand.wait(seconds=0.25)


def unturned(hand: Driver, goal: np.ndarray, yaw: float | None = None, drop: float = 0.0) -> np.ndarray:
    """The rotation at a goal that turns the fingers least and tilts the hand only as far as needed.

    Args:
        hand: The hand.
        goal: Of the tool centre point.
        yaw: Of the fingers at the goal, modulo half a turn; None keeps the current one.
        drop: How far the hand is then lowered.
    """
    opening = hand.rotation[:, 1]
    now = math.atan2(-opening[0], opening[1])
    yaw = now if yaw is None else now + _fold(yaw - now)
    heading = ik.heading(hand.side, goal)
    for tilt in _TILTS:
        rotation = ik.down(yaw, tilt, heading)
        points = (goal, goal - drop * UP)
        if all(ik.solve(hand.side, point, rotation) is not None for point in points):
            return rotation
    return hand.down(goal, yaw)


def _fold(angle: float) -> float:
    return (angle + math.pi / 2) % math.pi - math.pi / 2

"""Place fruits (both arms, in order): left the dragon fruit, then right the banana and the persimmon, into a basket."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np

from holdfast.core.records import Task
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import (
    BOX,
    CAPSULE,
    CYLINDER,
    DRAWN,
    ELLIPSOID,
    HIDDEN,
    ROUND,
    SOLID,
    add_material,
    add_revolved,
    add_staves,
    free_body,
)
from holdfast.twin.task import Scorer, Spread, TwinTask
from holdfast.twin.world import World


@dataclass(frozen=True)
class Fruit:
    """Where a fruit lies, which arm takes it, its grasp in its own frame, and its place in the basket."""

    xy: tuple[float, float]
    arm: str
    rest: float  # height of its origin on the table
    slot: tuple[float, float]
    grip: tuple[float, float, float] = (0, 0, 0)


FRUITS = {
    "dragon_fruit": Fruit((0.34, 0.26), "left", 0.028, (0, 0.042)),
    "banana": Fruit((0.24, -0.25), "right", 0.015, (0, -0.012), grip=(0, 0.012, 0.003)),
    "persimmon": Fruit((0.43, -0.25), "right", 0.023, (0, -0.050)),
}
BASKET = (0.33, 0.0)
SPREAD, BASKET_SPREAD, TURN, GAP = 0.05, 0.025, 0.4, 0.12
FOOT, RIM, HEIGHT, HALF = 0.088, 0.102, 0.048, 0.0025  # of the basket: radii of the wall's middle, height, thickness
BASE = 0.003  # half the thickness of its bottom


class PlaceFruits(TwinTask):
    """Three fruits into a basket."""

    name = "place_fruits"
    max_steps = 1100
    readings = (
        "The right arm starts on its fruit when a pad touches it. It takes the persimmon when it lifts it.",
        "A dragon fruit that leaves the basket again does not make the right arm early.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """A free basket and the fruits."""
        add_material(spec, "leaf", (0.30, 0.52, 0.16), gloss=0.1)
        add_basket(spec)
        add_dragon_fruit(spec)
        add_banana(spec)
        add_persimmon(spec)

    def place(self, spread: Spread) -> None:
        """Fruits are shifted and turned, the basket is shifted half as far."""
        self.world.place("basket", spread.xy(BASKET, BASKET_SPREAD))
        points = spread.apart([fruit.xy for fruit in FRUITS.values()], SPREAD, GAP)
        for name, xy in zip(FRUITS, points, strict=True):
            self.world.place(name, xy, spread.number(TURN))

    def scorer(self) -> PlaceFruitsScorer:
        """A fresh scorer."""
        return PlaceFruitsScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """The right arm starts when the dragon fruit lies in the basket."""
        done: set[str] = set()

        def right(hand: Driver) -> Script:
            yield from hand.wait(lambda: "dragon_fruit" in done)
            yield from self.fill(hand, ["banana", "persimmon"], done)

        return {"left": self.fill(drivers["left"], ["dragon_fruit"], done), "right": right(drivers["right"])}

    def fill(self, hand: Driver, fruits: Sequence[str], done: set[str]) -> Script:
        """Put some fruits into the basket one after another, and go home."""
        for fruit in fruits:
            yield from self.lift(hand, fruit)
            yield from self.drop(hand, fruit)
            done.add(fruit)
            yield from hand.move(hand.position + 0.07 * UP, speed=0.3)
        yield from hand.home()
        yield from hand.wait(seconds=0.3)

    def lift(self, hand: Driver, fruit: str) -> Script:
        """Take a fruit across its narrow side."""
        point = self.world.to_world(fruit, FRUITS[fruit].grip)
        point[2] = max(point[2], 0.018)  # the fingertips must not touch the table
        yield from hand.pick(point, self.world.yaw(fruit), lift=0.10)

    def drop(self, hand: Driver, fruit: str) -> Script:
        """Carry the held fruit over its place in the basket and let go; the fingertips stay above the rim."""
        slot = self.world.to_world("basket", [*FRUITS[fruit].slot, 0])
        over = hand.position + slot - self.world.to_world(fruit, FRUITS[fruit].grip)
        over[2] = hand.position[2]
        yield from hand.move(over, hand.down(over, yaw=0.0), speed=0.3)
        yield from hand.move([*over[:2], HEIGHT + 0.03], speed=0.15)
        yield from hand.grip(0.07, seconds=0.25)
        yield from hand.wait(seconds=0.4)


class PlaceFruitsScorer(Scorer):
    """Scores place_fruits."""

    def __init__(self, world: World, task: Task) -> None:
        super().__init__(world, task)
        self._right_may_start = False

    def check(self) -> bool:
        """Check hands, fruits and basket."""
        for name, fruit in FRUITS.items():
            pads = self.world.pads(fruit.arm, name)
            held = pads == 2 and self.world.position(name)[2] > fruit.rest + 0.01
            if fruit.arm == "right":
                self.penalize("right_arm_early", pads > 0 and not self._right_may_start)
            if name == "persimmon":
                self.penalize("persimmon_first", held and not self.has("banana_grasped"))
            inside = pads == 0 and self._inside(name)
            self.reach(f"{name}_grasped", held)
            self.reach(f"{name}_placed", self.steady(name, inside and self.world.speed(name) < 0.05, steps=10))
            self.keep(f"{name}_placed", inside)
        # A dragon fruit that falls out again does not make the right arm early.
        self._right_may_start |= self.has("dragon_fruit_placed")
        return all(self.has(f"{name}_placed") for name in FRUITS)

    def _inside(self, fruit: str) -> bool:
        x, y, z = self.world.to_body("basket", self.world.position(fruit))
        return math.hypot(x, y) < RIM and 0 < z < HEIGHT + 0.02


def add_basket(spec: mujoco.MjSpec) -> None:
    """A free round basket, its origin at the middle of the underside; the outline is waved like wicker."""
    add_material(spec, "wicker", (0.66, 0.46, 0.24), gloss=0.1)
    add_material(spec, "braid", (0.45, 0.29, 0.13), gloss=0.1)
    basket = free_body(spec, "basket", [*BASKET, 0.001])
    basket.add_geom(type=CYLINDER, size=[FOOT, BASE, 0], pos=[0, 0, BASE], mass=0.3, **SOLID, **HIDDEN)
    add_staves(basket, (FOOT, BASE), (RIM, HEIGHT), HALF, mass=0.2)
    steps = np.linspace(0, 1, 13)
    wall = [(FOOT + s * (RIM - FOOT), BASE + s * (HEIGHT - BASE)) for s in steps]
    waves = [0.002 * (-1) ** k for k in range(len(wall))]
    outer = [(r + HALF + w, z) for (r, z), w in zip(wall, waves, strict=True)]
    inner = [(r - HALF + w, z) for (r, z), w in zip(wall, waves, strict=True)][:0:-1]
    bottom = [(FOOT - HALF, 2 * BASE), (0, 2 * BASE)]
    add_revolved(spec, basket, "wicker", [(0, 0), (FOOT, 0), *outer, *inner, *bottom], "wicker")
    band = [(RIM + 0.006, HEIGHT - 0.006), (RIM + 0.006, HEIGHT + 0.001), (RIM - 0.004, HEIGHT + 0.001)]
    add_revolved(spec, basket, "braid", [*band, (RIM - 0.004, HEIGHT - 0.006)], "braid")


def add_dragon_fruit(spec: mujoco.MjSpec) -> None:
    """A pink egg with green-tipped scales, its origin in the middle."""
    add_material(spec, "dragon_fruit", (0.86, 0.10, 0.40), gloss=0.3)
    body = _fruit(spec, "dragon_fruit")
    long, wide = 0.042, 0.028
    body.add_geom(type=ELLIPSOID, size=[long, wide, wide], material="dragon_fruit", mass=0.15, **ROUND)
    for row, share in enumerate((-0.6, -0.1, 0.4)):
        for k in range(5):
            angle = 2 * math.pi * (k + row / 2) / 5
            radius = wide * math.sqrt(1 - share**2)
            around = np.array([0, math.cos(angle), math.sin(angle)])
            start = radius * around + [share * long, 0, 0]
            end = 1.08 * radius * around + [share * long + 0.014, 0, 0]
            body.add_geom(type=BOX, size=[0.0022, 0.0022, 0], fromto=[*start, *end], material="leaf", **DRAWN)
    body.add_geom(type=CAPSULE, size=[0.005, 0, 0], fromto=[long, 0, 0, long + 0.01, 0, 0], material="leaf", **DRAWN)


def add_banana(spec: mujoco.MjSpec) -> None:
    """A bent row of capsules along x with dark ends, its origin on the inside of the bend."""
    add_material(spec, "banana", (0.96, 0.82, 0.14), gloss=0.2)
    add_material(spec, "banana_end", (0.30, 0.22, 0.08), gloss=0.1)
    body = _fruit(spec, "banana")
    bend, thick = 0.075, 0.015
    angles = np.radians([-45, -22, 0, 22, 45])
    points = [(bend * math.sin(a), bend * (math.cos(a) - 1) + 0.012, 0) for a in angles]
    for start, end in pairwise(points):
        body.add_geom(type=CAPSULE, size=[thick, 0, 0], fromto=[*start, *end], material="banana", mass=0.03, **ROUND)
    for side, length in ((-1, 0.022), (1, 0.017)):  # the stem is the longer one
        tip = np.array(points[0 if side < 0 else -1])
        outwards = np.array([side, -1, 0]) / math.sqrt(2)
        ends = [*(tip + 0.012 * outwards), *(tip + length * outwards)]
        body.add_geom(type=CAPSULE, size=[0.005, 0, 0], fromto=ends, material="banana_end", **DRAWN)


def add_persimmon(spec: mujoco.MjSpec) -> None:
    """A flat orange ball with four leaves, its origin in the middle."""
    add_material(spec, "persimmon", (0.95, 0.40, 0.05), gloss=0.5)
    body = _fruit(spec, "persimmon")
    wide, high = 0.026, 0.023
    body.add_geom(type=ELLIPSOID, size=[wide, wide, high], material="persimmon", mass=0.10, **ROUND)
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        size = [0.003 + 0.006 * abs(x), 0.003 + 0.006 * abs(y), 0.002]
        body.add_geom(type=ELLIPSOID, size=size, pos=[0.007 * x, 0.007 * y, high - 0.001], material="leaf", **DRAWN)


def _fruit(spec: mujoco.MjSpec, name: str) -> Any:
    return free_body(spec, name, [*FRUITS[name].xy, FRUITS[name].rest + 0.001])

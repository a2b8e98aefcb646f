"""Stack bowls (left arm): take the yellow bowl by its rim and leave it in the green one."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import CYLINDER, HIDDEN, SOLID, add_material, add_revolved, add_staves, free_body
from holdfast.twin.task import Scorer, Spread, TwinTask

YELLOW, GREEN = (0.31, 0.26), (0.31, 0.05)
SPREAD, GAP = 0.065, 0.13
FOOT, RIM, HEIGHT, HALF = 0.034, 0.058, 0.05, 0.0025  # radii of the wall's middle, height, half its thickness
BASE = 0.003  # half the thickness of the bottom
GRASP = np.array([0, RIM - HALF, 0.040])  # on the rim, on the side away from the green bowl


class StackBowls(TwinTask):
    """Yellow bowl into green bowl."""

    name = "stack_bowls"
    max_steps = 450
    readings = (
        "The distance to the yellow bowl is measured to its rim, where it can be grasped.",
        "Over the green bowl: the centres are less than 3 cm apart. On it: nested, upright, the centres within 12 mm.",
        "A green bowl that leans more than 45 degrees has tipped over, unless a hand carries it.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """Two bowls of the same shape."""
        add_bowl(spec, "yellow", YELLOW, (0.95, 0.74, 0.08))
        add_bowl(spec, "green", GREEN, (0.12, 0.50, 0.22))

    def place(self, spread: Spread) -> None:
        """Both bowls are shifted independently."""
        for name, xy in zip(("yellow", "green"), spread.apart((YELLOW, GREEN), SPREAD, GAP), strict=True):
            self.world.place(name, xy)

    def scorer(self) -> StackBowlsScorer:
        """A fresh scorer."""
        return StackBowlsScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """Only the left arm moves."""
        return {"left": self.stack(drivers["left"])}

    def stack(self, hand: Driver) -> Script:
        """Grasp, carry over, lower, let go, rise."""
        yield from self.lift(hand)
        yield from self.carry(hand)
        yield from hand.bring("yellow", self.world.position("green") + 0.022 * UP, speed=0.12)
        yield from hand.grip(0.03, seconds=0.3)
        yield from hand.wait(seconds=0.2)
        yield from hand.move(hand.position + 0.10 * UP, speed=0.2)
        yield from hand.wait(seconds=0.7)

    def lift(self, hand: Driver) -> Script:
        """Take the yellow bowl by its rim and raise it."""
        yield from hand.pick(self.world.position("yellow") + GRASP, yaw=0.0, lift=0.11)

    def carry(self, hand: Driver) -> Script:
        """Bring the held bowl over the green one."""
        over = [*self.world.position("green")[:2], self.world.position("yellow")[2]]
        goal = hand.position + over - self.world.position("yellow")
        yield from hand.bring("yellow", over, rotation=hand.down(goal, yaw=0.0))


class StackBowlsScorer(Scorer):
    """Scores stack_bowls."""

    def check(self) -> bool:
        """Check hand and bowls."""
        world = self.world
        yellow, green = world.position("yellow"), world.position("green")
        pads = world.pads("left", "yellow")
        held, free = pads == 2, pads == 0
        apart, above = math.dist(yellow[:2], green[:2]), yellow[2] - green[2]
        self.reach("reached", self._distance_to_rim() < 0.03)
        self.reach("lifted", held and yellow[2] > 0.03)
        self.reach("above", held and apart < 0.03 and above > 0.03)
        upright = min(world.up("yellow"), world.up("green")) > 0.97
        nested = free and upright and apart < 0.012 and 0.004 < above < 0.025
        self.reach("stacked", self.steady("nested", nested and world.speed("yellow") < 0.01))
        self.keep("stacked", nested)
        carried = world.held("green") and green[2] > 0.03
        self.penalize("green_bowl_knocked", world.up("green") < 0.7 and not carried)
        return self.has("stacked")

    def _distance_to_rim(self) -> float:
        point = self.world.to_body("yellow", self.world.tcp("left")[0])
        return math.hypot(math.hypot(point[0], point[1]) - GRASP[1], point[2] - 0.045)


def add_bowl(spec: mujoco.MjSpec, name: str, xy: tuple[float, float], colour: tuple[float, float, float]) -> None:
    """A free conical bowl, its origin at the middle of the underside."""
    add_material(spec, name, colour, gloss=0.5)
    bowl = free_body(spec, name, [*xy, 0.001])
    bowl.add_geom(type=CYLINDER, size=[FOOT, BASE, 0], pos=[0, 0, BASE], mass=0.06, **SOLID, **HIDDEN)
    add_staves(bowl, (FOOT, BASE), (RIM, HEIGHT), HALF, mass=0.09)
    outer = [(0, 0), (FOOT, 0), (FOOT + HALF, BASE), (RIM + HALF, HEIGHT)]
    inner = [(RIM - HALF, HEIGHT), (FOOT - HALF, 2 * BASE), (0, 2 * BASE)]
    add_revolved(spec, bowl, name, outer + inner, name)

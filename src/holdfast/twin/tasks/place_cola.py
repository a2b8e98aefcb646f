"""Place cola (both arms, one after the other): each puts its can upright into a paper box whose walls give way."""

from __future__ import annotations

import mujoco
import numpy as np

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import BOX, CYLINDER, DRAWN, HIDDEN, SOLID, add_material, free_body
from holdfast.twin.task import Scorer, Spread, TwinTask

PAPER_BOX, CANS = (0.36, 0.0), {"right": (0.33, -0.25), "left": (0.33, 0.25)}
SPREAD, BOX_SPREAD, TURN = 0.03, 0.02, 0.2
SIGN = {"left": 1, "right": -1}
RADIUS, HEIGHT = 0.026, 0.090  # of a can
GRIP = 0.070  # height of the hand on a can, so that the fingertips stay above the box
INNER, WALL, HALF = (0.048, 0.078), 0.055, 0.002  # half sizes inside the box, wall height, half the paper's thickness
SLOT = 0.038  # of a can, from the middle of the box
BENT, CRUSHED = 0.35, 0.008  # limits of a wall: its lean (rad) and how far it is pressed in (m)
WALLS = ("far", "near", "left", "right")


class PlaceCola(TwinTask):
    """Two cans into a paper box."""

    name = "place_cola"
    max_steps = 900
    readings = (
        "A can is knocked over when it lies on its side and no hand holds it; tilted in the hand it is not.",
        "Putting in a can begins when one is grasped: only then can the box be crushed or bent, by a can or by a hand.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """A free paper box and a can on each side of it."""
        add_paper_box(spec)
        add_material(spec, "cola", (0.76, 0.03, 0.06), gloss=0.6)
        add_material(spec, "label", (0.94, 0.94, 0.94), gloss=0.4)
        for side in CANS:
            add_can(spec, side)

    def place(self, spread: Spread) -> None:
        """Cans and box are shifted; the box is turned."""
        self.world.place("box", spread.xy(PAPER_BOX, BOX_SPREAD), spread.number(TURN))
        for side, xy in CANS.items():
            self.world.place(f"{side}_can", spread.xy(xy, SPREAD))

    def scorer(self) -> PlaceColaScorer:
        """A fresh scorer."""
        return PlaceColaScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """First the right arm, then the left."""
        done: set[str] = set()

        def left(hand: Driver) -> Script:
            yield from hand.wait(lambda: "right" in done)
            yield from self.put(hand, done)

        return {"right": self.put(drivers["right"], done), "left": left(drivers["left"])}

    def put(self, hand: Driver, done: set[str]) -> Script:
        """Bring the hand's can into its half of the box, let go, and go home."""
        yield from self.lift(hand)
        yield from self.carry(hand)
        yield from self.lower(hand)
        yield from hand.grip(0.064, seconds=0.3)
        yield from hand.wait(seconds=0.15)
        done.add(hand.side)
        yield from hand.home()
        yield from hand.wait(seconds=0.4)

    def lift(self, hand: Driver) -> Script:
        """Take the can from above."""
        point = self.world.position(f"{hand.side}_can") + GRIP * UP
        yield from hand.pick(point, yaw=0.8 * SIGN[hand.side], lift=0.085)

    def carry(self, hand: Driver, slot: float = SLOT) -> Script:
        """Bring the held can over its place in the box, then correct the remaining error."""
        for speed in (0.25, 0.10):
            over = self.world.to_world("box", [0, SIGN[hand.side] * slot, 0]) + 0.085 * UP
            yield from hand.bring(f"{hand.side}_can", over, speed=speed)

    def lower(self, hand: Driver) -> Script:
        """Lower the held can to the bottom of the box."""
        drop = self.world.position(f"{hand.side}_can")[2] - self.world.position("box")[2] - 2 * HALF - 0.004
        yield from hand.move(hand.position - drop * UP, speed=0.12, straight=True)


class PlaceColaScorer(Scorer):
    """Scores place_cola."""

    def check(self) -> bool:
        """Check hands, cans and the walls of the box."""
        world = self.world
        for side in CANS:
            can = f"{side}_can"
            pads = world.pads(side, can)
            self.reach(f"{side}_can_grasped", pads == 2 and world.position(can)[2] > 0.01)
            inside = pads == 0 and self._inside(can)
            self.reach(f"{side}_can_placed", self.steady(can, inside and world.speed(can) < 0.02))
            self.keep(f"{side}_can_placed", inside)
            lies = world.up(can) < 0.7 and not world.held(can)
            self.penalize("can_knocked", self.steady(f"{can} lies", lies), can)
        bent = max(abs(world.joint(f"{wall}_lean")) for wall in WALLS)
        crushed = max(-world.joint(f"{wall}_press") for wall in WALLS)
        placing = any(self.has(f"{side}_can_grasped") for side in CANS)
        self.penalize("box_deformed", placing and (bent > BENT or crushed > CRUSHED))
        return all(self.has(f"{side}_can_placed") for side in CANS)

    def _inside(self, can: str) -> bool:
        middle = self.world.to_world(can, [0, 0, HEIGHT / 2])
        x, y, z = self.world.to_body("box", middle)
        return bool(np.all(np.abs([x, y]) < INNER) and z < HEIGHT / 2 + 0.015)


def add_can(spec: mujoco.MjSpec, side: str) -> None:
    """A free red can with a white band and a metal lid, its origin at the middle of the underside."""
    can = free_body(spec, f"{side}_can", [*CANS[side], 0.001])
    middle = HEIGHT / 2
    can.add_geom(type=CYLINDER, size=[RADIUS, middle, 0], pos=[0, 0, middle], mass=0.15, **SOLID, **HIDDEN)
    for radius, half, z, material in (
        (RADIUS, middle - 0.003, middle, "cola"),
        (RADIUS + 0.0003, 0.007, 0.6 * HEIGHT, "label"),
        (0.88 * RADIUS, middle, middle, "metal"),
    ):
        can.add_geom(type=CYLINDER, size=[radius, half, 0], pos=[0, 0, z], material=material, **DRAWN)
    can.add_geom(type=BOX, size=[0.008, 0.004, 0.001], pos=[0, 0.006, HEIGHT], material="dark", **DRAWN)


def add_paper_box(spec: mujoco.MjSpec) -> None:
    """A free open box, its origin at the middle of the underside; every wall can lean about its foot and be pressed in.

    A wall pressed in sinks through bottom and table, which looks as if it became shorter.
    """
    add_material(spec, "paper", (0.78, 0.62, 0.43), gloss=0.0)
    x, y = INNER
    box = free_body(spec, "box", [*PAPER_BOX, 0.001])
    bottom = [x + 2 * HALF, y + 2 * HALF, HALF]
    box.add_geom(type=BOX, size=bottom, pos=[0, 0, HALF], material="paper", mass=0.10, **SOLID)
    for wall, foot, axis, size in (
        ("far", [x + HALF, 0], [0, 1, 0], [HALF, y + 2 * HALF]),
        ("near", [-x - HALF, 0], [0, 1, 0], [HALF, y + 2 * HALF]),
        ("left", [0, y + HALF], [1, 0, 0], [x, HALF]),
        ("right", [0, -y - HALF], [1, 0, 0], [x, HALF]),
    ):
        body = box.add_body(name=wall, pos=[*foot, 2 * HALF])
        body.add_joint(name=f"{wall}_lean", axis=axis, stiffness=[0.6, 0, 0], damping=[0.006, 0, 0], armature=2e-5)
        body.add_joint(
            name=f"{wall}_press",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[0, 0, 1],
            stiffness=[1500, 0, 0],
            damping=[20, 0, 0],
            armature=0.1,
        )
        middle = WALL / 2
        body.add_geom(type=BOX, size=[*size, middle], pos=[0, 0, middle], material="paper", mass=0.02, **SOLID)
        spec.add_exclude(bodyname1="world", bodyname2=wall)
    for i, wall in enumerate(WALLS):
        for other in WALLS[:i]:
            spec.add_exclude(bodyname1=wall, bodyname2=other)

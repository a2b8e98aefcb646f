"""Hang cup (left arm): take the purple cup by its body, thread its handle onto a peg of the rack, let go."""

from __future__ import annotations

import math
from itertools import pairwise

import mujoco
import numpy as np

from holdfast.twin.arm import OPEN
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import (
    CAPSULE,
    CYLINDER,
    HIDDEN,
    SOLID,
    add_material,
    add_revolved,
    add_staves,
    fixed_body,
    free_body,
)
from holdfast.twin.task import Scorer, Spread, TwinTask

CUP, CUP_SPREAD, CUP_TURN = (0.27, 0.26), 0.06, 0.5
RACK, RACK_SPREAD, RACK_TURN = (0.40, 0.03), 0.03, 0.25
RADIUS, HEIGHT, HALF, BASE = 0.030, 0.080, 0.0025, 0.003  # outer radius, height, half the wall, half the bottom
OUT, LOOP, ROD = 0.036, 0.052, 0.004  # the handle: how far it sticks out, its height, radius of its rod
HOLE = np.array([RADIUS - 2 * HALF + OUT / 2, 0, HEIGHT / 2])  # middle of the handle's hole
GRASP, WIDE = np.array([0, 0, 0.058]), 0.085  # where to take the cup, and an opening that leaves room for it
PEG_HEIGHT, PEG_LENGTH, PEG_TILT, PEG_RADIUS = 0.125, 0.065, math.radians(18), 0.0045
PEG = PEG_LENGTH * np.array([0, math.cos(PEG_TILT), math.sin(PEG_TILT)])  # from its root at the post to its tip


class HangCup(TwinTask):
    """A cup with a handle, and a rack with pegs."""

    name = "hang_cup"
    max_steps = 500
    readings = (
        "The distance to the peg is measured from the middle of the handle's hole.",
        "An attempt that could hang the cup: the peg goes through the handle of the held cup.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """A free cup and a rack that stands still."""
        add_cup(spec)
        add_rack(spec)

    def place(self, spread: Spread) -> None:
        """Cup and rack are shifted and turned independently."""
        self.world.place("cup", spread.xy(CUP, CUP_SPREAD), spread.number(CUP_TURN))
        self.world.place("rack", spread.xy(RACK, RACK_SPREAD), spread.number(RACK_TURN))

    def scorer(self) -> HangCupScorer:
        """A fresh scorer."""
        return HangCupScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """Only the left arm moves."""
        return {"left": self.hang(drivers["left"])}

    def hang(self, hand: Driver) -> Script:
        """Take the cup, thread its handle onto the peg, let go, rise."""
        yield from self.lift(hand)
        yield from self.carry(hand)
        yield from self.insert(hand)
        yield from hand.move(hand.position - 0.017 * UP, speed=0.06)  # the handle comes to rest on the peg
        yield from hand.wait(seconds=0.2)
        yield from hand.grip(OPEN, seconds=0.5)
        yield from hand.wait(seconds=0.3)
        yield from hand.move(hand.position + 0.06 * UP, speed=0.15, straight=True)
        yield from hand.wait(seconds=0.8)

    def lift(self, hand: Driver) -> Script:
        """Take the cup across its body and raise it."""
        yield from hand.pick(self.world.position("cup") + GRASP, self.world.yaw("cup"), opening=WIDE)

    def carry(self, hand: Driver) -> Script:
        """Bring the handle in front of the peg's tip and square to it, with corrections from measurement."""
        tip = self.world.site("peg_tip")
        along = (tip - self.world.site("peg_root")) / PEG_LENGTH
        rotation = hand.down(tip + GRASP - HOLE, self.world.yaw("rack"))
        for gap, speed in ((0.045, 0.25), (0.020, 0.12), (0.020, 0.08)):
            # The hole turns with the hand; otherwise a cup that has to turn far would hit the peg.
            offset = rotation @ hand.rotation.T @ (self.world.to_world("cup", HOLE) - hand.position)
            yield from hand.move(tip + gap * along - offset, rotation, speed=speed)
            yield from hand.wait(seconds=0.2)

    def insert(self, hand: Driver) -> Script:
        """Move the held cup inwards along the peg."""
        inwards = (self.world.site("peg_root") - self.world.site("peg_tip")) / PEG_LENGTH
        yield from hand.move(hand.position + 0.055 * inwards, speed=0.10, straight=True)


class HangCupScorer(Scorer):
    """Scores hang_cup."""

    def check(self) -> bool:
        """Check hand, cup and peg."""
        world = self.world
        pads = world.pads("left", "cup")
        raised = world.position("cup")[2] > 0.01
        held = pads == 2 and raised
        threaded = self._threaded()
        self.reach("grasped", held)
        self.reach("near_peg", held and self._distance_to_peg() < 0.03)
        self.reach("inserted", held and threaded)
        hanging = threaded and pads == 0 and raised
        self.reach("hung", self.steady("hanging", hanging and world.speed("cup") < 0.05))
        self.keep("hung", hanging)
        return self.has("hung")

    def _threaded(self) -> bool:
        """Whether the peg passes through the hole of the handle, which lies in the cup's xz plane."""
        root, tip = (self.world.to_body("cup", self.world.site(name)) for name in ("peg_root", "peg_tip"))
        if root[1] * tip[1] >= 0:
            return False
        x, _, z = root + (tip - root) * root[1] / (root[1] - tip[1])
        return RADIUS - 2 * HALF < x < RADIUS + OUT and abs(z - HOLE[2]) < LOOP / 2

    def _distance_to_peg(self) -> float:
        """From the hole of the handle to the nearest point of the peg."""
        root, tip, hole = self.world.site("peg_root"), self.world.site("peg_tip"), self.world.to_world("cup", HOLE)
        share = np.clip((hole - root) @ (tip - root) / PEG_LENGTH**2, 0, 1)
        return float(np.linalg.norm(root + share * (tip - root) - hole))


def add_cup(spec: mujoco.MjSpec) -> None:
    """A free cup, its origin at the middle of the underside, its handle towards x."""
    add_material(spec, "cup", (0.50, 0.20, 0.70), gloss=0.6)
    cup = free_body(spec, "cup", [*CUP, 0.001])
    cup.add_geom(type=CYLINDER, size=[RADIUS - HALF, BASE, 0], pos=[0, 0, BASE], mass=0.036, **SOLID, **HIDDEN)
    wall = RADIUS - HALF
    add_staves(cup, (wall, 0), (wall, HEIGHT), HALF, mass=0.072, count=12)  # so that pads meet a flat stave
    outer = [(0, 0), (RADIUS - 0.003, 0), (RADIUS, 0.003), (RADIUS, HEIGHT)]
    inner = [(RADIUS - 2 * HALF, HEIGHT), (RADIUS - 2 * HALF, 2 * BASE), (0, 2 * BASE)]
    add_revolved(spec, cup, "cup", outer + inner, "cup")
    low, high = HOLE[2] - LOOP / 2, HOLE[2] + LOOP / 2
    near, far, slant = RADIUS - HALF, RADIUS + OUT, 0.006
    corners = [(near, low), (far, low + slant), (far, high - slant), (near, high)]
    for (x0, z0), (x1, z1) in pairwise(corners):
        ends = [x0, 0, z0, x1, 0, z1]
        cup.add_geom(type=CAPSULE, size=[ROD, 0, 0], fromto=ends, material="cup", mass=0.004, **SOLID)


def add_rack(spec: mujoco.MjSpec) -> None:
    """A wooden mug rack; the scored peg points along y of its frame, the other is decoration."""
    add_material(spec, "wood", (0.55, 0.36, 0.19), gloss=0.2)
    rack = fixed_body(spec, "rack", [*RACK, 0])
    wood = {**SOLID, "friction": [0.6, 0.01, 0.0005], "material": "wood"}
    rack.add_geom(type=CYLINDER, size=[0.05, 0.006, 0], pos=[0, 0, 0.006], **wood)
    rack.add_geom(type=CYLINDER, size=[0.009, 0.095, 0], pos=[0, 0, 0.095], **wood)
    root = np.array([0, 0, PEG_HEIGHT])
    for peg in (PEG, PEG * [0, -1, 1]):
        rack.add_geom(type=CAPSULE, size=[PEG_RADIUS, 0, 0], fromto=[*root, *(root + peg)], **wood)
    for name, point in (("peg_root", root), ("peg_tip", root + PEG)):
        rack.add_site(name=name, pos=point, size=[0.002] * 3, rgba=[0, 0, 0, 0], group=4)

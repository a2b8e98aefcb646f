"""Pack bag (both arms): the right arm puts the paper bag into the cardboard box, then each arm shuts its lid."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import BOX, DRAWN, HIDDEN, SOLID, add_material, fixed_body, free_body
from holdfast.twin.task import Scorer, Spread, TwinTask

BAG, BAG_SPREAD, BAG_TURN = (0.34, -0.26), 0.05, 0.4
CARTON, CARTON_SPREAD, CARTON_TURN = (0.34, 0.05), 0.06, 0.4
BAG_SIZE = np.array([0.034, 0.027, 0.026])  # half sizes
DEPTH, WIDTH, HEIGHT, CARD = 0.085, 0.080, 0.066, 0.003  # the carton: half of x and y, height, half the card
HINGE_Y, HINGE_Z = WIDTH + CARD, HEIGHT + CARD
LID_OPEN, LID_SHUT = 2.3, 0.15  # angles (rad): 0 lies flat over the box
OUTWARDS = {"left": 1, "right": -1}
# Waypoints of a closed hand, as (outwards from, above) a lid's hinge.
UNDER = ((0.12, 0.09), (0.12, 0.0), (0.035, 0.0))
RAISE = ((0.055, 0.045), (0.01, 0.085))
PRESS = ((-0.035, 0.075), (-0.045, 0.030), (-0.045, 0.017))
AWAY = ((-0.03, 0.10),)


class PackBag(TwinTask):
    """A paper bag, and a cardboard box with two lids."""

    name = "pack_bag"
    max_steps = 1000
    readings = (
        "In the box: the middle of the bag is below the rim.",
        "Under a lid: less than 3.5 cm below it and 3 cm from the middle of its length.",
        "Shut: less than 9 degrees open.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """A free bag; a box that stands still, with lids that stay where they are left."""
        add_carton(spec)
        add_bag(spec)

    def place(self, spread: Spread) -> None:
        """Bag and box are shifted and turned independently; both lids are open."""
        self.world.place("bag", spread.xy(BAG, BAG_SPREAD), spread.number(BAG_TURN))
        self.world.place("carton", spread.xy(CARTON, CARTON_SPREAD), spread.number(CARTON_TURN))
        for side in SIDES:
            self.world.set_joint(f"{side}_lid", LID_OPEN)

    def scorer(self) -> PackBagScorer:
        """A fresh scorer."""
        return PackBagScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """The right arm packs; then the right lid is shut and, when that hand is out of the way, the left one."""
        done: set[str] = set()

        def right(hand: Driver) -> Script:
            yield from self.pack(hand)
            done.add("bag")
            yield from self.shut(hand, done, after="left under")

        def left(hand: Driver) -> Script:
            yield from hand.wait(lambda: "bag" in done)
            yield from self.shut(hand, done, after="right shut")

        return {"right": right(drivers["right"]), "left": left(drivers["left"])}

    def pack(self, hand: Driver) -> Script:
        """Put the bag into the box and rise."""
        yield from self.lift(hand)
        yield from self.carry(hand)
        yield from hand.bring("bag", self.world.position("carton") + 0.014 * UP, speed=0.15)
        yield from hand.grip(0.064, seconds=0.25)
        yield from self._go(hand, hand.position + 0.13 * UP, speed=0.25)

    def lift(self, hand: Driver) -> Script:
        """Take the bag and raise it above the open lids."""
        yield from hand.pick(self.world.position("bag") + 0.034 * UP, self.world.yaw("bag"), lift=0.14)

    def carry(self, hand: Driver) -> Script:
        """Bring the held bag over the middle of the box, then correct the measured error."""
        for speed in (0.25, 0.1):
            over = self.world.position("carton") - self.world.position("bag")
            yield from self._go(hand, hand.position + np.array([over[0], over[1], 0]), speed)

    def shut(self, hand: Driver, done: set[str], after: str) -> Script:
        """Go under the hand's own lid; when `after` is done, swing it over, press it flat, and go home."""
        yield from self.reach_under(hand)
        done.add(f"{hand.side} under")
        yield from hand.wait(lambda: after in done)
        yield from self.raise_lid(hand)
        yield from self._sweep(hand, PRESS, speed=0.15)
        yield from hand.wait(seconds=0.2)
        yield from self._sweep(hand, AWAY, speed=0.25)
        done.add(f"{hand.side} shut")
        yield from hand.home()
        yield from hand.wait(seconds=0.3)

    def reach_under(self, hand: Driver) -> Script:
        """Close the hand and bring it beside the box, then under the lid."""
        yield from hand.grip(0.0, seconds=0.2)
        yield from self._sweep(hand, UNDER, speed=0.25)

    def raise_lid(self, hand: Driver) -> Script:
        """Swing the lid up from below."""
        yield from self._sweep(hand, RAISE, speed=0.15)

    def _sweep(self, hand: Driver, points: Sequence[tuple[float, float]], speed: float) -> Script:
        for outwards, above in points:
            local = [0, OUTWARDS[hand.side] * (HINGE_Y + outwards), HINGE_Z + above]
            yield from self._go(hand, self.world.to_world("carton", local), speed)

    def _go(self, hand: Driver, position: np.ndarray, speed: float) -> Script:
        """Move with the fingers opening across the box."""
        yield from hand.move(position, hand.down(position, self.world.yaw("carton")), speed=speed, shortest=0.12)


class PackBagScorer(Scorer):
    """Scores pack_bag."""

    def check(self) -> bool:
        """Check the bag, the lids and the hands."""
        world = self.world
        x, y, z = np.abs(world.to_body("carton", world.to_world("bag", [0, 0, BAG_SIZE[2]])))
        inside = bool(x < DEPTH and y < WIDTH and z < HEIGHT)
        self.reach("bag_lifted", world.pads("right", "bag") == 2 and world.position("bag")[2] > 0.015)
        let_go = all(world.pads(side, "bag") == 0 for side in SIDES)
        self.reach("bag_placed", self.steady("bag", inside and let_go))
        self.keep("bag_placed", inside)
        for side in SIDES:
            angle = world.joint(f"{side}_lid")
            self.reach(f"{side}_lid_reached", angle > 1.2 and self._under_lid(side))
            self.reach(f"{side}_lid_closed", self.steady(side, angle < LID_SHUT))
            self.keep(f"{side}_lid_closed", angle < 2 * LID_SHUT)
        return all(self.has(end) for end in ("bag_placed", "right_lid_closed", "left_lid_closed"))

    def _under_lid(self, side: str) -> bool:
        """Whether a hand is close below its lid, near the middle of its length, between hinge and free edge."""
        x, y, z = self.world.to_body(f"{side}_lid", self.world.tcp(side)[0])
        return abs(x) < 0.03 and 0 < -OUTWARDS[side] * y < WIDTH and 0 < z < 0.035


def add_carton(spec: mujoco.MjSpec) -> None:
    """A cardboard box with a lid hinged at each of its left and right upper edges."""
    add_material(spec, "card", (0.62, 0.43, 0.24), gloss=0.05)
    add_material(spec, "card_inside", (0.48, 0.33, 0.18), gloss=0.0)
    carton = fixed_body(spec, "carton", [*CARTON, 0])
    for size, position in (
        ([DEPTH, WIDTH, CARD], [0, 0, CARD]),
        ([CARD, WIDTH, HEIGHT / 2], [DEPTH, 0, HEIGHT / 2]),
        ([CARD, WIDTH, HEIGHT / 2], [-DEPTH, 0, HEIGHT / 2]),
        ([DEPTH, CARD, HEIGHT / 2], [0, WIDTH, HEIGHT / 2]),
        ([DEPTH, CARD, HEIGHT / 2], [0, -WIDTH, HEIGHT / 2]),
    ):
        carton.add_geom(type=BOX, size=size, pos=position, material="card", **SOLID)
    carton.add_geom(
        type=BOX, size=[DEPTH - CARD, WIDTH - CARD, 0.0005], pos=[0, 0, 2 * CARD], material="card_inside", **DRAWN
    )
    for side, sign in OUTWARDS.items():
        lid = carton.add_body(name=f"{side}_lid", pos=[0, sign * HINGE_Y, HINGE_Z])
        lid.add_joint(  # its friction holds the lid open against its weight
            name=f"{side}_lid",
            axis=[-sign, 0, 0],
            range=[0, 2.4],
            limited=1,
            damping=[0.004, 0, 0],
            frictionloss=0.012,
            armature=1e-4,
        )
        middle = [0, -sign * (WIDTH / 2 - 0.001), 0]
        lid.add_geom(type=BOX, size=[DEPTH, WIDTH / 2, 0.002], pos=middle, material="card", mass=0.03, **SOLID)
        spec.add_exclude(bodyname1="carton", bodyname2=lid.name)


def add_bag(spec: mujoco.MjSpec) -> None:
    """A free, filled paper bag, its origin at the middle of the underside; it collides as a block."""
    add_material(spec, "paper", (0.88, 0.72, 0.50), gloss=0.05)
    add_material(spec, "fold", (0.72, 0.54, 0.34), gloss=0.05)
    add_material(spec, "sticker", (0.80, 0.22, 0.16), gloss=0.2)
    bag = free_body(spec, "bag", [*BAG, 0.001])
    depth, width, half = BAG_SIZE
    bag.add_geom(type=BOX, size=BAG_SIZE, pos=[0, 0, half], mass=0.08, **SOLID, **HIDDEN)
    shoulder, ridge = 0.042, 0.056
    outline = ((width, 0), (width, shoulder), (0.003, ridge))
    corners = [[x, sign * y, z] for x in (-depth, depth) for y, z in outline for sign in (-1, 1)]
    spec.add_mesh(name="bag", uservert=np.ravel(corners))
    bag.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="bag", material="paper", **DRAWN)
    bag.add_geom(type=BOX, size=[depth, 0.003, 0.003], pos=[0, 0, ridge + 0.002], material="fold", **DRAWN)
    for sign in (-1, 1):
        bag.add_geom(type=BOX, size=[0.001, 0.009, 0.009], pos=[sign * depth, 0, 0.026], material="sticker", **DRAWN)

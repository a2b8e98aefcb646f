"""Cook bread (both arms): the left drops the bread into the pot that the right holds, the pot goes onto the towel."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import (
    BOX,
    CYLINDER,
    DRAWN,
    HIDDEN,
    SOLID,
    add_material,
    add_revolved,
    add_staves,
    fixed_body,
    free_body,
)
from holdfast.twin.task import Scorer, Spread, TwinTask

BREAD, POT, TOWEL = (0.30, 0.25), (0.38, -0.22), (0.34, 0.0)
SPREAD, TOWEL_SPREAD, TURN = 0.048, 0.02, 0.4
HANDLE_TURN = -1.05  # yaw of a pot whose handle points to the right arm's base
BREAD_HALF = (0.040, 0.022, 0.020)
RADIUS, HEIGHT, HALF = 0.065, 0.05, 0.0025  # of the pot: its wall's middle, its height, half the wall's thickness
HANDLE = 0.10  # its length; it leaves the pot along -y
GRIP = np.array([0, -RADIUS - HANDLE / 2, 0.036])  # where the right hand takes it
CLOTH = 0.085  # half the towel's side
CENTRED = 0.03  # how far from the towel's centre the pot's may be without a penalty
CARRY, LOWER = 0.20, 0.065  # height of the hand that brings the bread, and how far it then goes down


class CookBread(TwinTask):
    """Bread into pot, pot onto towel."""

    name = "cook_bread"
    max_steps = 700
    readings = (
        "Over the middle of the towel: less than 4 cm from its centre.",
        "On the towel: the pot's centre is over it, up to its edge.",
        "The penalty applies wherever the lifted pot is set down, on the towel or beside it, with or without bread.",
        "A pot set down again is judged again.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """A towel that lies still, a loaf and a pot."""
        add_towel(spec)
        add_bread(spec)
        add_pot(spec)

    def place(self, spread: Spread) -> None:
        """All three are shifted; loaf and pot are turned."""
        self.world.place("towel", spread.xy(TOWEL, TOWEL_SPREAD))
        self.world.place("bread", spread.xy(BREAD, SPREAD), spread.number(TURN))
        self.world.place("pot", spread.xy(POT, SPREAD), HANDLE_TURN + spread.number(TURN))

    def scorer(self) -> CookBreadScorer:
        """A fresh scorer."""
        return CookBreadScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """Both arms lift at once and meet over the towel; the bread goes into the pot, and the arms part."""
        done: set[str] = set()
        return {"left": self.left(drivers["left"], done), "right": self.right(drivers["right"], done)}

    def left(self, hand: Driver, done: set[str]) -> Script:
        """Bring the bread, wait for the pot, let go inside it."""
        yield from self.lift_bread(hand)
        yield from self.hold_bread_over(hand)
        done.add("bread above")
        yield from hand.wait(lambda: "pot beneath" in done)
        yield from self.leave_bread(hand)
        done.add("bread in pot")
        yield from hand.move(hand.position + 0.09 * UP, speed=0.25)
        yield from hand.home()

    def right(self, hand: Driver, done: set[str]) -> Script:
        """Bring the pot under the bread, wait for it, set the pot down."""
        yield from self.lift_pot(hand)
        yield from hand.wait(lambda: "bread above" in done)
        yield from self.hold_pot_over(hand, self.world.position("towel"))
        done.add("pot beneath")
        yield from hand.wait(lambda: "bread in pot" in done)
        yield from hand.wait(seconds=0.5)
        yield from self.set_pot_down(hand)
        yield from hand.wait(seconds=0.6)

    def lift_bread(self, hand: Driver) -> Script:
        """Take the loaf across its narrow side."""
        point = self.world.position("bread") + BREAD_HALF[2] * UP
        yield from hand.pick(point, self.world.yaw("bread"), lift=0.14)

    def hold_bread_over(self, hand: Driver) -> Script:
        """Hold the loaf over the middle of the towel, the hand turned so that it leaves room for the pot's handle."""
        goal = self.world.position("towel") + CARRY * UP
        yield from hand.move(goal, hand.down(goal, yaw=0.9, also=[goal - LOWER * UP]))

    def leave_bread(self, hand: Driver) -> Script:
        """Lower the loaf into the pot and let it go."""
        yield from hand.move(hand.position - LOWER * UP, speed=0.12, straight=True)
        yield from hand.grip(0.065, seconds=0.3)
        yield from hand.wait(seconds=0.2)

    def lift_pot(self, hand: Driver) -> Script:
        """Take the pot by its handle."""
        yield from hand.pick(self.world.to_world("pot", GRIP), self.world.yaw("pot") - math.pi / 2, lift=0.07)

    def hold_pot_over(self, hand: Driver, target: np.ndarray) -> Script:
        """Bring the held pot over a point of the table, then correct the remaining error."""
        for speed in (0.17, 0.10):
            height = self.world.position("pot")[2]
            yield from hand.bring("pot", [*target[:2], height], speed=speed)

    def set_pot_down(self, hand: Driver) -> Script:
        """Lower the pot where it is, let go and rise."""
        where = self.world.position("pot")[:2]
        yield from hand.bring("pot", [*where, 0.010], speed=0.12)
        yield from hand.bring("pot", [*where, 0.001], speed=0.06)
        yield from hand.grip(0.06, seconds=0.3)
        yield from hand.wait(seconds=0.1)
        yield from hand.move(hand.position + 0.10 * UP, speed=0.2)


class CookBreadScorer(Scorer):
    """Scores cook_bread."""

    def check(self) -> bool:
        """Check hands, bread and pot."""
        world = self.world
        bread = world.to_world("bread", [0, 0, BREAD_HALF[2]])
        pot, towel = world.position("pot"), world.position("towel")
        bread_pads, pot_pads = world.pads("left", "bread"), world.pads("right", "pot")
        bread_held, pot_held = bread_pads == 2, pot_pads == 2 and pot[2] > 0.02
        from_centre = math.dist(pot[:2], towel[:2])
        self.reach("bread_lifted", bread_held and bread[2] > 0.05)
        self.reach("pot_lifted", pot_held)
        self.reach("bread_above", bread_held and math.dist(bread[:2], towel[:2]) < 0.04 and bread[2] > 0.07)
        beneath = math.dist(pot[:2], bread[:2]) < 0.05 and pot[2] < bread[2] - 0.03
        self.reach("pot_beneath", bread_held and pot_held and beneath and from_centre < 0.04)
        inside = self._inside(bread)
        self.reach("bread_in_pot", self.steady("bread", inside and bread_pads == 0, steps=8))
        self.keep("bread_in_pot", inside)
        stands = pot_pads == 0 and pot[2] < 0.006 and world.up("pot") > 0.98
        set_down = self.steady("pot", stands and world.speed("pot") < 0.01)
        on_towel = stands and inside and bool(np.all(np.abs(world.to_body("towel", pot)[:2]) < CLOTH))
        self.reach("pot_on_towel", set_down and on_towel)
        self.keep("pot_on_towel", on_towel)
        if set_down and self.has("pot_lifted"):  # a pot set down again is judged again
            self.pardon("off_centre")
            self.penalize("off_centre", from_centre > CENTRED)
        return self.has("pot_on_towel")

    def _inside(self, bread: np.ndarray) -> bool:
        x, y, z = self.world.to_body("pot", bread)
        return math.hypot(x, y) < RADIUS - 0.015 and 0 < z < HEIGHT + 0.01


def add_towel(spec: mujoco.MjSpec) -> None:
    """A blue cloth with white stripes, without contact."""
    add_material(spec, "cloth", (0.20, 0.38, 0.70), gloss=0.0)
    add_material(spec, "stripe", (0.88, 0.90, 0.93), gloss=0.0)
    towel = fixed_body(spec, "towel", [*TOWEL, 0])
    towel.add_geom(type=BOX, size=[CLOTH, CLOTH, 0.001], pos=[0, 0, 0.001], material="cloth", **DRAWN)
    for y in (-0.8 * CLOTH, 0.8 * CLOTH):
        towel.add_geom(type=BOX, size=[CLOTH, 0.004, 0.0012], pos=[0, y, 0.001], material="stripe", **DRAWN)


def add_bread(spec: mujoco.MjSpec) -> None:
    """A free loaf with a round top and three cuts in its crust, its origin at the middle of the underside."""
    add_material(spec, "crust", (0.80, 0.52, 0.22), gloss=0.1)
    add_material(spec, "cut", (0.95, 0.82, 0.58), gloss=0.0)
    length, width, half = BREAD_HALF
    bread = free_body(spec, "bread", [*BREAD, 0.001])
    bread.add_geom(type=BOX, size=BREAD_HALF, pos=[0, 0, half], mass=0.06, **SOLID, **HIDDEN)
    along = [math.sqrt(0.5), 0, math.sqrt(0.5), 0]
    middle = 2 * half - width  # of the round top
    bread.add_geom(type=BOX, size=[length, width, middle / 2], pos=[0, 0, middle / 2], material="crust", **DRAWN)
    bread.add_geom(type=CYLINDER, size=[width, length, 0], pos=[0, 0, middle], quat=along, material="crust", **DRAWN)
    for x in (-0.5 * length, 0, 0.5 * length):
        bread.add_geom(
            type=CYLINDER, size=[width + 0.0006, 0.003, 0], pos=[x, 0, middle], quat=along, material="cut", **DRAWN
        )


def add_pot(spec: mujoco.MjSpec) -> None:
    """A free steel pot with one straight black handle, its origin at the middle of the underside."""
    add_material(spec, "steel", (0.50, 0.52, 0.55), gloss=0.8)
    base = 0.003
    pot = free_body(spec, "pot", [*POT, 0.001])
    pot.add_geom(type=CYLINDER, size=[RADIUS, base, 0], pos=[0, 0, base], mass=0.14, **SOLID, **HIDDEN)
    add_staves(pot, (RADIUS, base), (RADIUS, HEIGHT), HALF, mass=0.10)
    outer = [(0, 0), (RADIUS, 0), (RADIUS + HALF, base), (RADIUS + HALF, HEIGHT)]
    add_revolved(spec, pot, "pot", [*outer, (RADIUS - HALF, HEIGHT), (RADIUS - HALF, 2 * base), (0, 2 * base)], "steel")
    pot.add_geom(
        type=BOX,
        size=[0.010, HANDLE / 2, 0.008],
        pos=[0, -RADIUS - HANDLE / 2, HEIGHT - 0.012],
        material="dark",
        mass=0.04,
        **SOLID,
    )

"""Push box (left arm): push the blue box with closed fingers into the area marked on the table."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from holdfast.core.records import Task
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import BOX, DRAWN, SOLID, add_material, fixed_body, free_body
from holdfast.twin.task import Scorer, Spread, TwinTask
from holdfast.twin.world import World

START, AREA, SPREAD, GAP, TURN = (0.27, 0.25), (0.41, 0.08), 0.05, 0.13, 0.3
HALF, HEIGHT = 0.038, 0.048  # half the box's side; lower than the pads are long, as the fingers above are thicker
AREA_HALF = 0.078
HAND = 0.036  # height of the tool centre point while pushing: only the pads touch the box
PAD_FACE, PAD_WIDTH = 0.008, 0.011  # from the middle of closed pads to their outer face, and half its width
SEGMENT, NEAR_ENOUGH = 0.05, 0.012  # a push is re-aimed this often, until the box is this close to the middle
CLOSED = 0.008
CHATTER = 6  # control steps: contact comes and goes while a box slides


class PushBox(TwinTask):
    """A box on the table and an area to push it to."""

    name = "push_box"
    max_steps = 750
    readings = (
        "The side to push from: behind the box as seen from the area, within 2 cm of the line through both middles.",
        "Travels towards the area: proper pushes have covered half the distance.",
        "In the area: the whole box is within the marked lines.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """A free box, and paint on the table."""
        add_material(spec, "box", (0.16, 0.38, 0.75))
        add_material(spec, "label", (0.93, 0.93, 0.90))
        add_material(spec, "area", (0.96, 0.78, 0.74), gloss=0.0)
        add_material(spec, "line", (0.85, 0.15, 0.12), gloss=0.0)
        box = free_body(spec, "box", [*START, 0.001])
        # Low friction, with priority in its contacts: if the product of the frictions of pad and table were above 1, a
        # pad that tilts down a little would jam the box against the table.
        smooth = {**SOLID, "friction": [0.4, 0.005, 0.0005], "priority": 1}
        middle = [0, 0, HEIGHT / 2]
        box.add_geom(type=BOX, size=[HALF, HALF, HEIGHT / 2], pos=middle, material="box", mass=0.2, **smooth)
        box.add_geom(type=BOX, size=[0.020, 0.014, 0.0005], pos=[0, 0, HEIGHT], material="label", **DRAWN)
        area = fixed_body(spec, "area", [*AREA, 0])
        area.add_geom(type=BOX, size=[AREA_HALF, AREA_HALF, 0.0004], material="area", **DRAWN)
        edge, line = AREA_HALF + 0.003, 0.003
        for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            size = [line if x else edge, line if y else edge, 0.0006]
            area.add_geom(type=BOX, size=size, pos=[x * edge, y * edge, 0], material="line", **DRAWN)

    def place(self, spread: Spread) -> None:
        """Box and area are shifted independently; one face of the box is roughly opposite the area."""
        start, area = spread.apart((START, AREA), SPREAD, GAP)
        self.world.place("box", start, _angle(area - start) + spread.number(TURN))
        self.world.place("area", area)

    def scorer(self) -> PushBoxScorer:
        """A fresh scorer."""
        return PushBoxScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """Only the left arm moves."""
        return {"left": self.push(drivers["left"])}

    def push(self, hand: Driver, pushes: int = 12) -> Script:
        """Push straight towards the middle of the area, re-aiming after every segment."""
        yield from hand.grip(0.0, seconds=0.3)
        yield from self.approach(hand)
        for _ in range(pushes):
            middle, ahead, distance, reach = self.aim()
            if distance < NEAR_ENOUGH:
                break
            behind = middle - (reach + 0.02) * ahead
            yield from hand.move(behind, self.facing(hand, behind, ahead), speed=0.15)
            yield from hand.move(middle + (min(distance, SEGMENT) - reach) * ahead, speed=0.12, straight=True)
            yield from hand.move(hand.position - 0.02 * ahead, speed=0.15)
        yield from hand.home(opening=0.0)
        yield from hand.wait(seconds=0.6)

    def approach(self, hand: Driver) -> Script:
        """Come down behind the box, on the side away from the area."""
        middle, ahead, _, reach = self.aim()
        behind = middle - (reach + 0.02) * ahead
        yield from hand.move(behind + 0.08 * UP, self.facing(hand, behind, ahead))
        yield from hand.move(behind, speed=0.15)

    def aim(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """The box's middle at pushing height, direction and distance to the area, and how far behind the pads touch."""
        middle = self.world.position("box")
        way = self.world.position("area")[:2] - middle[:2]
        distance = float(np.linalg.norm(way))
        middle[2] = HAND
        off = (_angle(way) - self.world.yaw("box") + math.pi / 4) % (
            math.pi / 2
        ) - math.pi / 4  # from the face's normal
        reach = HALF / math.cos(off) + PAD_FACE + PAD_WIDTH * abs(math.sin(off))
        return middle, np.array([*way / max(distance, 1e-6), 0]), distance, reach

    def facing(self, hand: Driver, position: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """The rotation of a hand whose outer pad lies flat against the box: a line of contact, not a point."""
        return hand.down(position, _angle(ahead) - math.pi / 2)


class PushBoxScorer(Scorer):
    """Scores push_box."""

    def __init__(self, world: World, task: Task) -> None:
        super().__init__(world, task)
        self._start = self._last = self._distance()
        self._travel = 0.0  # towards the area, by valid pushes
        self._since_touch = CHATTER
        self._opened = False

    def check(self) -> bool:
        """Check hand, box and area."""
        world = self.world
        touching = world.pads("left", "box") > 0
        closed = world.opening("left") < CLOSED
        upright = world.up("box") > 0.97
        behind = self._behind() and upright
        self.reach("approached", behind and not touching)
        self.reach("touched", behind and touching and closed)
        self._since_touch = 0 if touching else self._since_touch + 1
        distance = self._distance()
        if behind and closed and self._since_touch < CHATTER:
            self._travel += self._last - distance
        self._last = distance
        self.reach("pushed", self._travel > 0.5 * self._start)
        inside = upright and self._inside()
        self.reach("in_area", self.steady("rest", inside and not touching and world.speed("box") < 0.01))
        self.keep("in_area", inside)
        self._opened |= touching and not closed
        return self.has("in_area") and not self._opened

    def _distance(self) -> float:
        return math.dist(self.world.position("box")[:2], self.world.position("area")[:2])

    def _behind(self) -> bool:
        """Whether the hand is low behind the face turned away from the area, near the line through both middles."""
        box, tcp = self.world.position("box"), self.world.tcp("left")[0]
        way = self.world.position("area")[:2] - box[:2]
        ahead = way / max(float(np.linalg.norm(way)), 1e-6)
        back, side = -(tcp - box)[:2] @ ahead, ahead[0] * (tcp - box)[1] - ahead[1] * (tcp - box)[0]
        return bool(tcp[2] < 0.06 and abs(side) < 0.02 and 0.9 * HALF < back < HALF + 0.05)

    def _inside(self) -> bool:
        """Whether all four corners of the box are within the marked lines."""
        corners = [self.world.to_world("box", [x, y, 0]) for x in (-HALF, HALF) for y in (-HALF, HALF)]
        return bool(np.abs(np.array(corners) - self.world.position("area"))[:, :2].max() < AREA_HALF)


def _angle(way: np.ndarray) -> float:
    return math.atan2(way[1], way[0])

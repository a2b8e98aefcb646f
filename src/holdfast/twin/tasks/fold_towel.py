"""Fold towel (left arm): lay the two right corners of the grey towel on the two left ones."""

from __future__ import annotations

import itertools
import math

import mujoco
import numpy as np

from holdfast.twin.cloth import Cloth, add_cloth, add_pinches
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.task import Scorer, Spread, TwinTask
from holdfast.twin.world import World

CENTRE = (0.32, 0.13)
SPREAD, TURN = 0.035, 0.2
ROWS, COLUMNS = 10, 7  # row 0 is the edge near the robot, column 0 the right one
SPACING = (0.030, 0.0283)  # together 0.27 x 0.17 m
REACH = (0.022, 0.022, 0.022)
TOP, BOTTOM, RIGHT, LEFT = ROWS - 1, 0, 0, COLUMNS - 1
GREY_BLUE = (0.45, 0.53, 0.62)
PINCH = 0.012  # height of the hand's tool centre point above the cloth it pinches
TIDY, ALIGNED = 0.018, 0.030  # how far the right edge may lie from the left one: for the expert, for the scorer


class FoldTowel(TwinTask):
    """A towel folded once, right over left."""

    name = "fold_towel"
    max_steps = 1200
    readings = (
        "A corner is found by a hand within 3 cm, held when pinched and 2 cm up, brought over within 4 cm of its goal.",
        "In line: the right edge lies within 3 cm of the left one, the right half within 2 cm of the left on average.",
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.towel = Cloth(world, "towel", ("left",), REACH)

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """The towel, its long side pointing away from the robot."""
        vertices = list(itertools.product(range(ROWS), range(COLUMNS)))
        add_cloth(spec, "towel", vertices, SPACING, CENTRE, 0.08, GREY_BLUE)
        add_pinches(spec, "towel", ("left",), most=1)

    def place(self, spread: Spread) -> None:
        """It lies flat, slightly shifted and turned."""
        self.towel.place(spread.xy(CENTRE, SPREAD), spread.number(TURN))

    def after_step(self) -> None:
        """The hand pinches or releases the towel."""
        self.towel.after_step()

    def scorer(self) -> FoldTowelScorer:
        """A fresh scorer."""
        return FoldTowelScorer(self)

    def grid(self) -> np.ndarray:
        """Positions (row, column, 3) of the towel's vertices."""
        return self.towel.vertices.reshape(ROWS, COLUMNS, 3)

    def gaps(self) -> np.ndarray:
        """Distances on the table between each vertex of the right half and its mirror image: 0 when folded."""
        towel = self.grid()[..., :2]
        return np.linalg.norm(towel - towel[:, ::-1], axis=2)[:, : COLUMNS // 2]

    def scripts(self, drivers: Drivers) -> Scripts:
        """Only the left arm moves."""
        return {"left": self.fold(drivers["left"])}

    def fold(self, hand: Driver) -> Script:
        """Lay the top corner over, then the bottom one, then straighten the edge."""
        yield from self.fold_over(hand, TOP, 0.11)
        yield from self.fold_over(hand, BOTTOM, 0.08)
        yield from self.tidy(hand)
        yield from hand.wait(seconds=0.7)

    def fold_over(self, hand: Driver, row: int, height: float) -> Script:
        """Pinch the right corner of a row and lay it on the left corner of that row."""
        yield from self.pinch(hand, row)
        yield from self.lay_over(hand, row, height)
        yield from self.release(hand)

    def pinch(self, hand: Driver, row: int) -> Script:
        """Take the right corner of a row."""
        point = self.grid()[row, RIGHT] + PINCH * UP
        yield from hand.move(point + 0.05 * UP, hand.down(point, 0.0), opening=0.05)
        yield from hand.move(point, speed=0.12)
        yield from hand.grip(0.0, seconds=0.3)
        yield from hand.wait(seconds=0.1)

    def lay_over(self, hand: Driver, row: int, height: float) -> Script:
        """Bring the held right corner of a row in an arc to the left corner."""
        source, target = self.grid()[row, RIGHT], self.grid()[row, LEFT]
        grip = hand.world.tcp("left")[0] - source
        way = target - source
        middle, end = source + way / 2 + grip, target + grip + 0.004 * way / max(np.linalg.norm(way), 0.02)
        middle[2], end[2] = max(source[2] + 0.03, height), 0.018
        yield from hand.move(middle, hand.down(middle, 0.0), speed=0.25)
        yield from hand.move(end, hand.down(end, 0.0), speed=0.20)

    def release(self, hand: Driver) -> Script:
        """Let go and rise."""
        yield from hand.grip(0.045, seconds=0.3)
        yield from hand.wait(seconds=0.1)
        yield from hand.move(hand.position + 0.07 * UP, speed=0.2)

    def tidy(self, hand: Driver) -> Script:
        """Pull the part of the right edge that is most out of line to the left edge, as often as needed."""
        for _ in range(4):
            edge = self.gaps()[:, RIGHT]
            if edge.max() < TIDY:
                break
            yield from self.fold_over(hand, int(edge.argmax()), 0.03)


class FoldTowelScorer(Scorer):
    """Scores fold_towel."""

    def __init__(self, task: FoldTowel) -> None:
        super().__init__(task.world, task.record)
        self.task = task

    def check(self) -> bool:
        """Check hand and corners."""
        cloth, towel = self.task.towel, self.task.grid()
        top = towel[TOP, RIGHT]
        held = cloth.held("left")
        holds_top, holds_bottom = (row * COLUMNS + RIGHT in held for row in (TOP, BOTTOM))
        gaps = self.task.gaps()
        self.reach("top_corner_reached", math.dist(cloth.pinch_point("left"), top) < 0.03)
        self.reach("top_corner_grasped", holds_top and top[2] > 0.02)
        self.reach("top_corner_moved", holds_top and gaps[TOP, RIGHT] < 0.04)
        self.reach("bottom_corner_moved", holds_bottom and gaps[BOTTOM, RIGHT] < 0.04)
        aligned = gaps[:, RIGHT].max() < ALIGNED and gaps.mean() < 0.02
        folded = aligned and towel[..., 2].max() < 0.045 and cloth.free
        self.reach("folded", self.steady("folded", folded))
        self.keep("folded", folded)
        return self.has("folded")

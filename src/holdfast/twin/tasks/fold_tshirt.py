"""Fold T-shirt (both arms): sleeves in, then the body in half and again to a quarter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest

import mujoco
import numpy as np

from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.cloth import Cloth, Vertex, add_cloth, add_pinches
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.task import Scorer, Spread, TwinTask
from holdfast.twin.world import World

type Path = Callable[[float], np.ndarray]

CENTRE = (0.28, 0.0)
SPREAD, TURN = 0.045, 0.25
ROWS, COLUMNS, SLEEVE, CELL = 9, 7, 2, 0.03  # row 0 is the hem, near the robot; sleeves are columns beyond the body's
MIDDLE, CUFF = (ROWS - 1) // 2, ROWS - 2
SHOULDER = range(ROWS - 3, ROWS)
LENGTH = CELL * (ROWS - 1)
EDGE = {"left": COLUMNS - 1, "right": 0}
OUTWARD = {"left": 1, "right": -1}
REACH = (0.017, 0.036, 0.025)  # wide: it covers all layers of an edge
FOLDED, WHOLLY = 0.015, 0.025  # mean distance of a sleeve inwards of the shoulder; 0.045 is perfect
FITS, MESSY = 0.020, 0.025  # mean distance to the ideal pattern: below the first folded, above the second disordered
ORANGE = (0.93, 0.45, 0.10)
PINCH = 0.012  # height of the hand's tool centre point above the cloth it pinches
DRAG = 0.03  # extra pull after the first fold, so that friction straightens the layers

VERTICES: list[Vertex] = [
    (i, j) for i in range(ROWS) for j in range(-SLEEVE, COLUMNS + SLEEVE) if 0 <= j < COLUMNS or i in SHOULDER
]
NUMBER = {vertex: n for n, vertex in enumerate(VERTICES)}
BODY = np.array([[NUMBER[i, j] for j in range(COLUMNS)] for i in range(ROWS)])
SLEEVES = {s: [NUMBER[i, EDGE[s] + OUTWARD[s] * n] for i in SHOULDER for n in range(1, SLEEVE + 1)] for s in SIDES}


class FoldTshirt(TwinTask):
    """An orange T-shirt folded to a quarter."""

    name = "fold_tshirt"
    max_steps = 1500
    readings = (
        "A sleeve is folded when it lies at least 1.5 cm inwards of the shoulder on average; 4.5 cm is perfect.",
        "Folded in part: less than 2.5 cm, or a corner 1 cm outside. It has its point and the penalty.",
        "Sleeves are judged for the penalty until both arms hold the sides.",
        "Half and quarter: less than 2 cm from the ideal pattern on average. Messy: more than 2.5 cm, or 5 cm high.",
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.shirt = Cloth(world, "shirt", SIDES, REACH)

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """The T-shirt, its collar away from the robot."""
        add_cloth(spec, "shirt", VERTICES, (CELL, CELL), CENTRE, 0.10, ORANGE)
        add_pinches(spec, "shirt", SIDES, most=12)

    def place(self, spread: Spread) -> None:
        """It lies flat, slightly shifted and turned."""
        self.shirt.place(spread.xy(CENTRE, SPREAD), spread.number(TURN))

    def after_step(self) -> None:
        """Hands pinch or release the T-shirt."""
        self.shirt.after_step()

    def scorer(self) -> FoldTshirtScorer:
        """A fresh scorer."""
        return FoldTshirtScorer(self)

    def at(self, row: int, column: int) -> np.ndarray:
        """Where a vertex is."""
        return self.shirt.vertices[NUMBER[row, column]]

    def axes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Unit vectors on the table from the right to the left side and from hem to collar, and the turn."""
        body = self.shirt.vertices[BODY]
        across = (body[:, -1] - body[:, 0]).mean(0)[:2]
        x, y = across / np.linalg.norm(across)
        return np.array([x, y, 0]), np.array([y, -x, 0]), math.atan2(-x, y)

    # The expert: motions of both hands are one script, so that the hands stay in step

    def scripts(self, drivers: Drivers) -> Scripts:
        """One script moves both arms."""
        done: set[str] = set()
        return {"left": self.fold(drivers, done), "right": drivers["right"].wait(lambda: "all" in done, at_most=60)}

    def fold(self, hands: Drivers, done: set[str]) -> Script:
        """Right sleeve, left sleeve, body, body again."""
        yield from self.fold_sleeve(hands["right"])
        yield from self.fold_sleeve(hands["left"])
        yield from self.grasp_sides(hands)
        yield from self.halve(hands)
        yield from self.quarter(hands)
        yield from hands["left"].wait(seconds=0.8)
        done.add("all")

    def fold_sleeve(self, hand: Driver, share: float = 1.0) -> Script:
        """Turn a sleeve inwards about the shoulder, fully or in part."""
        out = OUTWARD[hand.side]
        across, along, yaw = self.axes()
        outward = out * across
        cuff, shoulder = self.at(CUFF, EDGE[hand.side] + out * SLEEVE), self.at(CUFF, EDGE[hand.side])
        start = cuff - 0.004 * outward
        way = share * 2 * (shoulder - cuff) + 0.008 * outward + 0.006 * UP
        yield from self.pinch(hand, start, yaw + math.pi / 2, also=[start + way])  # jaws along the cuff
        yield from follow([hand], [half_ellipse(hand.position, hand.position + way, 0.05)], seconds=1.4)
        yield from self.release(hand)
        yield from hand.move(hand.position + 0.12 * outward - 0.06 * along)

    def grasp_sides(self, hands: Drivers) -> Script:
        """Pinch both sides at the middle row."""
        across, along, yaw = self.axes()
        scripts = []
        for side, hand in hands.items():
            point = self.at(MIDDLE, EDGE[side]) - 0.010 * OUTWARD[side] * across
            scripts.append(self.pinch(hand, point, yaw, also=[point + LENGTH / 2 * UP, point + LENGTH / 2 * along]))
        yield from both(*scripts)

    def halve(self, hands: Drivers) -> Script:
        """Lift the held middle, lay it down away from the robot, and pull the layers straight."""
        across, along, _ = self.axes()
        pair = list(hands.values())
        start = [hand.position + 0.006 * OUTWARD[hand.side] * across for hand in pair]
        top = [point + LENGTH / 2 * UP for point in start]
        end = [point + LENGTH / 2 * along + 0.004 * UP for point in start]
        yield from follow(pair, [line(hand.position, point) for hand, point in zip(pair, top, strict=True)], 1.5)
        yield from pair[0].wait(seconds=0.3)
        yield from follow(pair, [quarter_ellipse(a, b) for a, b in zip(top, end, strict=True)], 2.0)
        yield from follow(pair, [line(point, point + DRAG * along) for point in end], 0.6)
        yield from both(*(self.release(hand) for hand in pair))

    def quarter(self, hands: Drivers) -> Script:
        """Pinch the near corners, all layers, and lay them on the fold."""
        across, _, yaw = self.axes()
        scripts, ways = [], []
        for side, hand in hands.items():
            near = (self.at(0, EDGE[side]) + self.at(ROWS - 1, EDGE[side])) / 2
            ways.append(self.at(MIDDLE, EDGE[side]) - near + 0.008 * UP)
            point = near - 0.010 * OUTWARD[side] * across
            scripts.append(self.pinch(hand, point, yaw, also=[point + ways[-1]]))
        yield from both(*scripts)
        pair = list(hands.values())
        paths = [half_ellipse(h.position, h.position + way, 0.05) for h, way in zip(pair, ways, strict=True)]
        yield from follow(pair, paths, 1.6)
        yield from both(*(self.release(hand) for hand in pair))

    def pinch(self, hand: Driver, point: np.ndarray, yaw: float, also: Sequence[np.ndarray] = ()) -> Script:
        """Take the cloth at a point, in a pose from which the points in `also` can be reached."""
        point = np.array([point[0], point[1], max(point[2], 0.0) + PINCH])
        yield from hand.move(point + 0.05 * UP, hand.down(point, yaw, also=also), opening=0.05)
        yield from hand.move(point, speed=0.12)
        yield from hand.grip(0.0, seconds=0.3)
        yield from hand.wait(seconds=0.1)

    def release(self, hand: Driver) -> Script:
        """Let go and rise."""
        yield from hand.grip(0.05, seconds=0.3)
        yield from hand.wait(seconds=0.2)
        yield from hand.move(hand.position + 0.06 * UP, speed=0.2)


class FoldTshirtScorer(Scorer):
    """Scores fold_tshirt."""

    def __init__(self, task: FoldTshirt) -> None:
        super().__init__(task.world, task.record)
        self.task = task

    def check(self) -> bool:
        """Check sleeves, hands and outline."""
        shirt = self.task.shirt
        points = shirt.vertices
        for side in SIDES:
            self._check_sleeve(side, points)
        self.reach("sides_grasped", all(self._holds_side(side, points) for side in SIDES))
        half, quarter = (min(misfit(points[:, :2], p) for p in patterns) for patterns in (HALVES, QUARTERS))
        flat = shirt.free and points[:, 2].max() < 0.04
        self.reach("halved", self.steady("halved", flat and half < FITS))
        quartered = flat and quarter < FITS
        self.reach("quartered", self.steady("quartered", quartered))
        self.keep("quartered", quartered)
        messy = min(half, quarter) > MESSY or points[:, 2].max() > 0.05
        self.penalize("disordered", self.steady("disordered", self.has("halved") and shirt.free and messy))
        return self.has("quartered")

    def _holds_side(self, side: str, points: np.ndarray) -> bool:
        shirt, edge = self.task.shirt, EDGE[side]
        holds_edge = any(VERTICES[n][1] == edge for n in shirt.held(side))
        return holds_edge and math.dist(shirt.pinch_point(side), points[NUMBER[MIDDLE, edge]]) < 0.03

    def _check_sleeve(self, side: str, points: np.ndarray) -> None:
        """A sleeve counts when it lies inwards of the shoulder; neatness is judged until the body fold begins."""
        body = points[BODY][SHOULDER, :, :2]
        across = (body[:, -1] - body[:, 0]).mean(0)
        shoulder = body[:, EDGE[side]].mean(0)
        inward = -OUTWARD[side] * (points[SLEEVES[side], :2] - shoulder) @ across / np.linalg.norm(across)
        loose = not set(SLEEVES[side]) & {n for s in SIDES for n in self.task.shirt.held(s)}
        self.reach(f"{side}_sleeve_folded", self.steady(side, loose and inward.mean() > FOLDED))
        if not self.has("sides_grasped"):
            self.pardon("sleeve_partial", side)
            partial = inward.mean() < WHOLLY or inward.min() < -0.010
            self.penalize("sleeve_partial", self.has(f"{side}_sleeve_folded") and loose and partial, side)


def misfit(points: np.ndarray, pattern: np.ndarray) -> float:
    """Mean distance of points to a pattern after the best rigid fit; the pattern may be turned over."""
    points, pattern = points - points.mean(0), pattern - pattern.mean(0)
    left, _, right = np.linalg.svd(pattern.T @ points)
    return float(np.linalg.norm(pattern @ left @ right - points, axis=1).mean())


def _patterns() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Vertex positions with sleeves in and the body folded in half; and to a quarter, in either direction."""
    row, column = np.array(VERTICES, float).T
    column = np.abs(column)
    column = np.where(column > COLUMNS - 1, 2 * (COLUMNS - 1) - column, column)
    once = np.abs(row - MIDDLE)
    twice = np.abs(once - MIDDLE / 2)
    half, again, across = (
        CELL * np.column_stack(p) for p in ((once, column), (twice, column), (once, np.abs(column - (COLUMNS - 1) / 2)))
    )
    return [half], [again, across]


HALVES, QUARTERS = _patterns()


# Motions of one or two hands along drawn paths


def follow(hands: Sequence[Driver], paths: Sequence[Path], seconds: float) -> Script:
    """Move hands along paths in step, at the tempo of the first."""
    for share in hands[0].shares(seconds):
        for hand, path in zip(hands, paths, strict=True):
            hand.position = path(share)
        yield


def both(*scripts: Script) -> Script:
    """Run scripts in parallel until all have ended."""
    for _ in zip_longest(*scripts):
        yield


def line(start: np.ndarray, end: np.ndarray) -> Path:
    """A straight path."""
    return lambda share: start + share * (end - start)


def half_ellipse(start: np.ndarray, end: np.ndarray, height: float) -> Path:
    """A path that rises to `height` above the straight line at half way."""
    return lambda s: start + (1 - math.cos(math.pi * s)) / 2 * (end - start) + height * math.sin(math.pi * s) * UP


def quarter_ellipse(start: np.ndarray, end: np.ndarray) -> Path:
    """A path that starts level and ends steeply, along which hanging cloth unrolls without slack."""
    flat, drop = (end - start) * [1, 1, 0], (end - start) * [0, 0, 1]
    return lambda s: start + math.sin(math.pi / 2 * s) * flat + (1 - math.cos(math.pi / 2 * s)) * drop

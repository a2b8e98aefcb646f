"""Scripted demonstrators: smooth Cartesian motion of each hand, converted to joint targets at 30 Hz.

A script is a generator for one arm that yields once per control step. Scripts of two arms run in lockstep and wait
for each other through shared state: `yield from driver.wait(lambda: "pot" in done)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import mujoco
import numpy as np

from holdfast.embodiments import piper_x_ik as ik
from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.arm import OPEN
from holdfast.twin.cell import CONTROL_HZ
from holdfast.twin.world import HOME, World

type Script = Iterator[None]
type Scripts = Mapping[str, Script]
type Drivers = Mapping[str, Driver]
type Point = Sequence[float] | np.ndarray

UP = np.array([0.0, 0.0, 1.0])
_ARM = {side: slice(7 * k, 7 * k + 7) for k, side in enumerate(SIDES)}  # within the 14 numbers of an action
_TILTS = (0.0, 0.15, 0.3, 0.45, 0.6)
_BOW, _LARGEST_BOW = 0.08, 0.012  # sideways path variation: share of the distance, and at most this many metres


class Driver:
    """Moves one hand: keeps its commanded pose and opening, and provides the motions that scripts use.

    With a random generator the motions vary in tempo and path like a teleoperator's.
    """

    def __init__(self, world: World, side: str, rng: np.random.Generator | None = None) -> None:
        self.world, self.side = world, side
        self.position, self.rotation, self.opening = HOME[side].copy(), ik.down(), OPEN
        self.misses = 0  # control steps whose pose was out of reach
        self._rng = rng
        self._tempo = 1.0 if rng is None else rng.uniform(0.8, 1.2)
        self._joints = world.home[_ARM[side]][:6]

    def command(self) -> np.ndarray:
        """Six joint targets and the opening for the commanded pose; if it is out of reach, the last reachable ones."""
        joints = ik.solve(self.side, self.position, self.rotation, self._joints)
        if joints is None:
            self.misses += 1
        else:
            self._joints = joints
        return np.append(self._joints, self.opening)

    # Motions

    def move(
        self,
        position: Point | None = None,
        rotation: np.ndarray | None = None,
        *,
        opening: float | None = None,
        speed: float = 0.25,
        turn_speed: float = 1.5,
        shortest: float = 0.2,
        straight: bool = False,
    ) -> Script:
        """Move to a pose with minimum jerk.

        Args:
            position: Of the tool centre point; None keeps it.
            rotation: Of the hand, mostly from `down`; None keeps it.
            opening: Of the fingers at the end; None keeps it.
            speed: In m/s; the peak is a quarter higher.
            turn_speed: In rad/s.
            shortest: The least time the motion takes (s).
            straight: Do not vary the path, for motions whose path must be exact.
        """
        start, turned, width = self.position.copy(), self.rotation.copy(), self.opening
        end = start if position is None else np.array(position, float)
        target = turned if rotation is None else rotation
        final = width if opening is None else opening
        angle = math.acos(np.clip((np.trace(turned.T @ target) - 1) / 2, -1, 1))
        distance = float(np.linalg.norm(end - start))
        seconds = max(1.5 * distance / speed, 1.5 * angle / turn_speed, shortest)
        bow = np.zeros(3) if straight else self._bow(distance)
        for x in self._ramp(seconds, at_least=2):
            s = x**3 * (10 - 15 * x + 6 * x * x)
            self.position = start + s * (end - start) + 16 * (x * (1 - x)) ** 2 * bow
            self.rotation = _between(turned, target, s)
            self.opening = width + s * (final - width)
            yield

    def grip(self, opening: float = 0.0, seconds: float = 0.4) -> Script:
        """Open or close the fingers."""
        start = self.opening
        for x in self._ramp(seconds):
            self.opening = start + (opening - start) * x
            yield

    def wait(self, until: Callable[[], bool] | None = None, seconds: float = 0.0, at_most: float = 20.0) -> Script:
        """Hold still for some seconds, then until a condition holds."""
        step = 0
        while step < seconds * CONTROL_HZ or (until is not None and not until()):
            step += 1
            if step > at_most * CONTROL_HZ:
                return
            yield

    def pick(self, position: Point, yaw: float, lift: float = 0.10, opening: float = OPEN) -> Script:
        """Open the hand, reach down to a point, close, and lift."""
        point = np.array(position, float)
        yield from self.move(point + 0.08 * UP, self.down(point, yaw, also=[point + lift * UP]), opening=opening)
        yield from self.move(point, speed=0.12)
        yield from self.grip(0.0)
        yield from self.wait(seconds=0.15)
        yield from self.move(point + lift * UP, speed=0.2)

    def bring(
        self,
        body: str,
        target: Point,
        point: Point = (0, 0, 0),
        rotation: np.ndarray | None = None,
        speed: float = 0.25,
    ) -> Script:
        """Move so that a point of a held body, as measured now, comes to a target; repeat to correct the rest."""
        shift = np.asarray(target, float) - self.world.to_world(body, point)
        yield from self.move(self.position + shift, rotation, speed=speed, shortest=0.15)

    def home(self, opening: float = OPEN) -> Script:
        """Rise, then go back to where the arm started."""
        rise = max(0.0, HOME[self.side][2] - self.position[2])
        yield from self.move(self.position + rise * UP, speed=0.3)
        yield from self.move(HOME[self.side], ik.down(), speed=0.35, opening=opening)

    def shares(self, seconds: float) -> Iterator[float]:
        """Progress from above 0 to 1 with minimum jerk, for a task's own paths."""
        return (x**3 * (10 - 15 * x + 6 * x * x) for x in self._ramp(seconds, at_least=2))

    # Poses

    def down(self, position: Point, yaw: float, also: Sequence[Point] = ()) -> np.ndarray:
        """The rotation of a hand that reaches down to a point with its fingers opening along y turned by `yaw`.

        A half turn gives the same grasp, so the yaw that suits the wrist is taken. The hand tilts outwards only as far
        as needed to reach the point and all points in `also`.
        """
        heading = ik.heading(self.side, np.asarray(position))
        folded = heading + (yaw - heading + math.pi / 2) % math.pi - math.pi / 2
        for tilt in _TILTS:
            rotation = ik.down(folded, tilt, heading)
            points = [np.asarray(p, float) for p in (position, *also)]
            if all(ik.solve(self.side, p, rotation, self._joints) is not None for p in points):
                return rotation
        return ik.down(folded)

    def _ramp(self, seconds: float, at_least: int = 1) -> Iterator[float]:
        """From above 0 to 1 in equal control steps, at this demonstrator's tempo."""
        pace = self._tempo if self._rng is None else self._tempo * self._rng.uniform(0.9, 1.1)
        steps = max(at_least, int(seconds * CONTROL_HZ / pace))
        return (k / steps for k in range(1, steps + 1))

    def _bow(self, distance: float) -> np.ndarray:
        if self._rng is None:
            return np.zeros(3)
        bow = self._rng.uniform(-1, 1, 3) * min(_BOW * distance, _LARGEST_BOW)
        return np.array([bow[0], bow[1], abs(bow[2])])  # never towards the table


class Expert:
    """A policy that follows scripts and reads the simulator's state; arms without a script hold still."""

    def __init__(self, world: World, scripts: Callable[[Drivers], Scripts], seed: int | None = None) -> None:
        """Start scripts on fresh drivers.

        Args:
            world: A world just reset.
            scripts: Makes the scripts, such as a task's `scripts`.
            seed: Varies the motions like a teleoperator's; None leaves them unvaried.
        """
        rngs = [None if seed is None else np.random.default_rng([seed, arm]) for arm in range(1, len(SIDES) + 1)]
        self.drivers = {side: Driver(world, side, rng) for side, rng in zip(SIDES, rngs, strict=True)}
        self._running = dict(scripts(self.drivers))
        self._action = world.home.copy()

    def act(self) -> np.ndarray | None:
        """The 14 targets of the next control step, or None when all scripts have ended."""
        self._running = {side: script for side, script in self._running.items() if _advance(script)}
        if not self._running:
            return None
        for side in self._running:
            self._action[_ARM[side]] = self.drivers[side].command()
        return self._action.copy()


def _advance(script: Script) -> bool:
    return next(script, StopIteration) is not StopIteration


def _between(start: np.ndarray, end: np.ndarray, share: float) -> np.ndarray:
    """Interpolate between two rotations."""
    first, last, turn, matrix = np.empty(4), np.empty(4), np.empty(3), np.empty(9)
    mujoco.mju_mat2Quat(first, np.ascontiguousarray(start).ravel())
    mujoco.mju_mat2Quat(last, np.ascontiguousarray(end).ravel())
    mujoco.mju_subQuat(turn, last, first)
    mujoco.mju_quatIntegrate(first, turn, share)
    mujoco.mju_quat2Mat(matrix, first)
    return matrix.reshape(3, 3)

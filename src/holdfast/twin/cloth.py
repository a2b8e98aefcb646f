"""Cloth: a sheet of point masses connected by threads, and the pinch by which hands hold it.

Threads limit lengths: they do not stretch, but can be compressed. A sheet of stiff triangles would lock when creased
and stand up like a tent. Layers pass through each other, so that folds lie flat and the simulation stays fast; the
sheet touches only the table. Fingers therefore cannot hold it by friction. Instead, the environment attaches vertices
between closing fingers to the hand, and releases them when the fingers open, for experts and policies alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import mujoco
import numpy as np

from holdfast.twin.world import World

type Vertex = tuple[int, int]  # row and column in the grid from which a cloth is cut

CLOSED, OPENED = 0.010, 0.022  # openings (m) below which fingers take hold and above which they release
PINCH_DEPTH = 0.008  # the pinch point lies this far beyond the tool centre point, just short of the fingertips

_BIT = 8  # collision bit of cloth and of the plane it rests on
_CONTACT = {"contype": _BIT, "conaffinity": _BIT, "condim": 3, "friction": [0.8, 0.005, 0.0001]}
_RADIUS = 0.003
_SLACK, _SHEAR = 0.3, 1.05  # shortest thread, longest diagonal, as shares of their length in the flat sheet
_UNSEEN = {"rgba": [0, 0, 0, 0], "group": 5}


def add_cloth(
    spec: mujoco.MjSpec,
    name: str,
    vertices: Sequence[Vertex],
    spacing: Sequence[float],
    centre: Sequence[float],
    mass: float,
    colour: Sequence[float],
) -> None:
    """Add a flat cloth cut from a grid; its bodies are called `name_0`, `name_1`, ... in the order of its vertices.

    Args:
        spec: The cell.
        name: Of the cloth.
        vertices: The points of the grid that belong to it.
        spacing: Distance between rows (along x) and between columns (along y).
        centre: Where the middle of its bounding box lies on the table.
        mass: Of the whole cloth.
        colour: Of both faces.
    """
    points = flat(vertices, spacing)
    frame = spec.worldbody.add_body(name=name, pos=[*centre, _RADIUS + 0.001])
    share = mass / len(points)
    for number, point in enumerate(points):
        body = frame.add_body(
            name=f"{name}_{number}", pos=[*point, 0], mass=share, inertia=[share * 1e-6] * 3, explicitinertial=True
        )
        body.add_site(name=f"{name}_{number}", size=[0.001] * 3, **_UNSEEN)
        for axis in np.eye(3):
            body.add_joint(type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
    triangles, threads = _weave(vertices)
    for (first, second), longest in threads.items():
        rest = math.dist(points[first], points[second])
        thread = spec.add_tendon(limited=1, range=[_SLACK * rest, longest * rest], solref_limit=[0.010, 1], **_UNSEEN)
        thread.wrap_site(f"{name}_{first}")
        thread.wrap_site(f"{name}_{second}")
    spec.add_flex(
        name=name,
        dim=2,
        radius=_RADIUS,
        vertbody=[f"{name}_{number}" for number in range(len(points))],
        elem=triangles,
        rgba=[*colour, 1],
        selfcollide=0,
        damping=1e-6,  # negligible; without any, the compiler warns about a flex without elasticity
        **_CONTACT,
    )
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 0.1], **_UNSEEN, **_CONTACT)


def add_pinches(spec: mujoco.MjSpec, name: str, sides: Sequence[str], most: int) -> None:
    """Let the hands of some sides hold a cloth, each by at most `most` vertices."""
    for side, slot in itertools.product(sides, range(most)):
        spec.add_equality(
            name=f"{side}_pinch_{slot}",
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            name1=f"{side}_hand",
            name2=f"{name}_0",
            active=0,
            data=[0] * 12,
            solref=[0.008, 1],
        )


def flat(vertices: Sequence[Vertex], spacing: Sequence[float]) -> np.ndarray:
    """Positions (n, 2) of the vertices of a cloth lying flat, about the middle of its bounding box."""
    grid = np.array(vertices, float)
    return (grid - (grid.min(0) + grid.max(0)) / 2) * spacing


class Cloth:
    """A cloth in the world: where its vertices are, and which of them each hand holds."""

    def __init__(self, world: World, name: str, sides: Sequence[str], reach: Sequence[float]) -> None:
        """Bind a cloth and its pinches.

        Args:
            world: The compiled cell.
            name: As given to `add_cloth`.
            sides: As given to `add_pinches`.
            reach: Half axes, along the hand's axes, of the ellipsoid around the pinch point that closing fingers grab.
        """
        model = world.model
        self.world, self._reach = world, np.asarray(reach, float)
        self._frame = model.body(name).id
        first = model.body(f"{name}_0").id
        flex = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_FLEX, name)
        self._bodies = slice(first, first + int(model.flex_vertnum[flex]))
        self._hands = {side: model.body(f"{side}_hand").id for side in sides}
        names = {model.equality(i).name: i for i in range(model.neq)}
        self._slots = {side: [i for name, i in names.items() if name.startswith(f"{side}_pinch_")] for side in sides}
        self._held: dict[str, tuple[int, ...]] = dict.fromkeys(sides, ())
        self._ready = set(sides)

    def place(self, xy: Sequence[float] | np.ndarray, yaw: float) -> None:
        """Lay it flat around a point of the table, not held."""
        model, data = self.world.model, self.world.data
        rest = model.body_pos[self._bodies][:, :2]
        cos, sin = math.cos(yaw), math.sin(yaw)
        shift = rest @ np.array([[cos, sin], [-sin, cos]]) + xy - model.body_pos[self._frame][:2] - rest
        address = model.jnt_qposadr[model.body_jntadr[self._bodies.start]]
        joints = data.qpos[address : address + 3 * len(rest)].reshape(-1, 3)  # a view; zero is the flat cloth
        joints[:, :2] = shift
        self._held = dict.fromkeys(self._held, ())
        self._ready = set(self._held)

    def after_step(self) -> None:
        """Attach vertices between fingers that have just closed to the hand, release them when they open."""
        data = self.world.data
        for side, slots in self._slots.items():
            opening = self.world.opening(side)
            if opening > OPENED:
                data.eq_active[slots] = 0
                self._held[side] = ()
                self._ready.add(side)
            elif opening < CLOSED and side in self._ready:
                self._ready.discard(side)
                self._take(side)

    @property
    def vertices(self) -> np.ndarray:
        """Positions (n, 3) of all vertices."""
        return self.world.data.xpos[self._bodies].copy()

    def held(self, side: str) -> tuple[int, ...]:
        """The vertices a hand holds, nearest to its pinch point first."""
        return self._held[side]

    @property
    def free(self) -> bool:
        """Whether no hand holds it."""
        return not any(self._held.values())

    def pinch_point(self, side: str) -> np.ndarray:
        """The point at which a hand pinches."""
        position, rotation = self.world.tcp(side)
        return position + PINCH_DEPTH * rotation[:, 2]

    def _take(self, side: str) -> None:
        model, data = self.world.model, self.world.data
        hand, vertices = self._hands[side], self.vertices
        rotation = data.xmat[hand].reshape(3, 3)
        distance = np.linalg.norm((vertices - self.pinch_point(side)) @ rotation / self._reach, axis=1)
        near = [int(i) for i in np.argsort(distance, kind="stable") if distance[i] < 1]
        for slot, vertex in zip(self._slots[side], near, strict=False):
            model.eq_obj2id[slot] = self._bodies.start + vertex
            # At its current offset, so that nothing snaps.
            model.eq_data[slot, :3] = rotation.T @ (vertices[vertex] - data.xpos[hand])
            model.eq_data[slot, 3:6] = 0
            data.eq_active[slot] = 1
        self._held[side] = tuple(near[: len(self._slots[side])])


def _weave(vertices: Sequence[Vertex]) -> tuple[list[int], dict[tuple[int, int], float]]:
    """Triangles as a flat list, and threads with their largest length relative to the flat sheet."""
    number = {vertex: n for n, vertex in enumerate(vertices)}
    triangles: list[int] = []
    threads: dict[tuple[int, int], float] = {}
    for i, j in vertices:
        corners = [number.get(corner) for corner in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))]
        if None in corners:
            continue
        a, b, c, d = (n for n in corners if n is not None)
        triangles += [a, b, c, a, c, d] if (i + j) % 2 == 0 else [a, b, d, b, c, d]
        threads |= {(min(e), max(e)): 1.0 for e in ((a, b), (b, c), (c, d), (d, a))} | {(a, c): _SHEAR, (b, d): _SHEAR}
    return triangles, threads

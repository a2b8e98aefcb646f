"""Building blocks of the tasks' objects: bodies, contact settings, and shapes of revolution.

Contacts use boxes and cylinders. A round hollow object is drawn as a smooth mesh and collides as a ring of staves,
because MuJoCo replaces a collision mesh by its convex hull.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from holdfast.twin.arm import quaternion

type Colour = Sequence[float]

# Contact of everything a hand may touch; between pad and object the pad's parameters apply, since it has priority.
SOLID: dict[str, Any] = {"contype": 1, "conaffinity": 7, "condim": 4, "friction": [1.0, 0.01, 0.0005]}
# The same for round objects, with rolling friction so that they do not roll away.
ROUND: dict[str, Any] = {**SOLID, "condim": 6, "friction": [1.0, 0.01, 0.002]}
DRAWN: dict[str, Any] = {"contype": 0, "conaffinity": 0, "mass": 0, "group": 2}  # visible, no contact
HIDDEN: dict[str, Any] = {"group": 3}  # contact, not visible
BOX, CYLINDER = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
CAPSULE, ELLIPSOID = mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_ELLIPSOID

_SEGMENTS = 40


def free_body(spec: mujoco.MjSpec, name: str, position: Sequence[float]) -> Any:
    """A movable body; its free joint has the same name."""
    body = spec.worldbody.add_body(name=name, pos=position)
    body.add_freejoint(name=name)
    return body


def fixed_body(spec: mujoco.MjSpec, name: str, position: Sequence[float]) -> Any:
    """A body that only a reset can move; it may have jointed children."""
    return spec.worldbody.add_body(name=name, pos=position, mocap=True)


def add_material(spec: mujoco.MjSpec, name: str, colour: Colour, gloss: float = 0.3) -> None:
    """A material of the given colour, from matt (0) to shiny (1)."""
    spec.add_material(name=name, rgba=[*colour, 1], specular=gloss, shininess=gloss)


def add_revolved(
    spec: mujoco.MjSpec, body: Any, name: str, profile: Sequence[tuple[float, float]], material: str
) -> None:
    """Draw a closed outline of (radius, height) points revolved about z; list them up the outside, down the inside."""
    outline = np.asarray(profile, float)
    angles = 2 * math.pi * np.arange(_SEGMENTS) / _SEGMENTS
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    rings = [np.column_stack([r * circle, np.full(_SEGMENTS, z)]) for r, z in outline]
    faces = []
    for ring in range(len(rings)):
        below, above = ring * _SEGMENTS, (ring + 1) % len(rings) * _SEGMENTS
        for k in range(_SEGMENTS):
            a, b, c, d = below + k, below + (k + 1) % _SEGMENTS, above + (k + 1) % _SEGMENTS, above + k
            faces += [a, b, c, a, c, d]
    mesh = spec.add_mesh(name=name, uservert=np.concatenate(rings).ravel(), userface=faces)
    mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, material=material, **DRAWN)


def add_staves(
    body: Any, foot: tuple[float, float], rim: tuple[float, float], half: float, mass: float, count: int = 18
) -> None:
    """A hidden round wall of flat staves from (radius, height) at the foot to (radius, height) at the rim.

    Args:
        body: Where to add them.
        foot: Radius and height of the middle of the wall at its lower end.
        rim: The same at its upper end.
        half: Half the wall's thickness.
        mass: Of all staves together.
        count: How many staves.
    """
    out, rise = rim[0] - foot[0], rim[1] - foot[1]
    length = math.hypot(out, rise)
    radius, height = (foot[0] + rim[0]) / 2, (foot[1] + rim[1]) / 2
    width = max(foot[0], rim[0]) * math.tan(math.pi / count) * 1.02
    for k in range(count):
        angle = 2 * math.pi * k / count
        radial = np.array([math.cos(angle), math.sin(angle), 0])
        tangent = np.array([-math.sin(angle), math.cos(angle), 0])
        along = (out * radial + [0, 0, rise]) / length
        body.add_geom(
            type=BOX,
            size=[half, width, length / 2],
            pos=[radius * radial[0], radius * radial[1], height],
            quat=quaternion(np.cross(tangent, along), tangent, along),
            mass=mass / count,
            **SOLID,
            **HIDDEN,
        )

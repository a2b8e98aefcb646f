"""The cell: a white table, two PiPER-X arms, a black mast with the head camera, and the front camera.

World frame: x away from the arms, y to their left, z up; the table top is z = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from holdfast.catalog import cameras
from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.arm import add_arm, quaternion

CONTROL_HZ = 30
SUBSTEPS = 8
CAMERAS = tuple(camera.name for camera in cameras())

_GEOM = mujoco.mjtGeom
_VISUAL = {"contype": 0, "conaffinity": 0, "group": 2}
_MATERIALS = {  # colour, specular, shininess
    "table": ((0.90, 0.90, 0.88), 0.15, 0.2),
    "floor": ((0.42, 0.43, 0.45), 0.0, 0.1),
    "shell": ((0.56, 0.57, 0.59), 0.5, 0.5),
    "black": ((0.11, 0.11, 0.12), 0.4, 0.5),
    "dark": ((0.17, 0.17, 0.18), 0.3, 0.4),
    "rubber": ((0.30, 0.30, 0.32), 0.1, 0.1),
    "metal": ((0.72, 0.73, 0.75), 0.7, 0.7),
}


def build() -> mujoco.MjSpec:
    """The empty cell, to which a task adds its objects, as policies see it: drawn fast, without shadows."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    _set_physics(spec)
    _set_look(spec)
    _add_room(spec)
    for side in SIDES:
        add_arm(spec, side)
    add_camera(spec, "head", [0.12, 0, 0.84], [0.29, 0, 0], 54)
    add_camera(spec, "front", [0.95, 0, 0.48], [0.24, 0, 0.09], 54)
    return spec


def _set_physics(spec: mujoco.MjSpec) -> None:
    option = spec.option
    option.timestep = 1 / (CONTROL_HZ * SUBSTEPS)
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10  # keeps the slip of held objects near 1 mm
    # With fewer line-search iterations the solver fails silently and throws held objects across the room.
    option.iterations, option.ls_iterations = 100, 50
    option.tolerance = 1e-8


def _set_look(spec: mujoco.MjSpec) -> None:
    quality = spec.visual.quality
    quality.shadowsize = quality.offsamples = 0
    # Coarse round shapes: twice as fast, with no visible difference at the sizes of policy images.
    quality.numslices, quality.numstacks, quality.numquads = 18, 9, 1
    spec.visual.map.znear, spec.visual.map.zfar = 0.01, 10
    headlight = spec.visual.headlight
    headlight.ambient, headlight.diffuse, headlight.specular = [0.34] * 3, [0.14] * 3, [0.05] * 3
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.86, 0.88, 0.90],
        rgb2=[0.62, 0.64, 0.67],
        width=64,
        height=384,
    )
    for name, (colour, specular, shininess) in _MATERIALS.items():
        spec.add_material(name=name, rgba=[*colour, 1], specular=specular, shininess=shininess)
    for position, direction, strength in (
        ([0.1, 0.5, 1.6], [0.15, -0.30, -1], 0.36),
        ([0.8, -0.6, 1.4], [-0.60, 0.45, -1], 0.16),
    ):
        spec.worldbody.add_light(
            pos=position,
            dir=direction,
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            diffuse=[strength] * 3,
            specular=[strength / 2] * 3,
            castshadow=False,
        )


def _add_room(spec: mujoco.MjSpec) -> None:
    world = spec.worldbody
    world.add_geom(name="floor", type=_GEOM.mjGEOM_PLANE, size=[3, 3, 0.1], pos=[0, 0, -0.75], material="floor")
    world.add_geom(
        name="table",
        type=_GEOM.mjGEOM_BOX,
        size=[0.40, 0.60, 0.02],
        pos=[0.26, 0, -0.02],
        material="table",
        friction=[0.8, 0.01, 0.0005],
    )
    for x in (-0.10, 0.62):
        for y in (-0.55, 0.55):
            world.add_geom(
                type=_GEOM.mjGEOM_BOX, size=[0.025, 0.025, 0.355], pos=[x, y, -0.395], material="dark", **_VISUAL
            )
    for size, position in (  # the mast: a post behind the arms, a boom, and the housing of the head camera
        ([0.02, 0.02, 0.46], [-0.12, 0, 0.45]),
        ([0.06, 0.06, 0.006], [-0.08, 0, 0.006]),
        ([0.12, 0.015, 0.015], [0.01, 0, 0.895]),
        ([0.013, 0.045, 0.013], [0.115, 0, 0.867]),
    ):
        world.add_geom(type=_GEOM.mjGEOM_BOX, size=size, pos=position, material="black", **_VISUAL)


def add_camera(spec: mujoco.MjSpec, name: str, position: Sequence[float], target: Sequence[float], fovy: float) -> None:
    """A camera that stands still and looks at a point."""
    back = np.subtract(position, target)
    back = back / np.linalg.norm(back)
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    spec.worldbody.add_camera(name=name, pos=position, fovy=fovy, quat=quaternion(right, np.cross(back, right), back))

"""How people see the cell: a room, calm light, finer materials. Policies never see any of it.

Everything here changes a copy of the cell that is only drawn, never stepped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from holdfast.twin import fabric, patterns
from holdfast.twin.cell import add_camera
from holdfast.twin.objects import BOX, CYLINDER, DRAWN, ELLIPSOID, Colour

VISITOR = "visitor"  # the camera of the pictures for people
KEY_LIGHT = np.array([-0.28, -0.42, -1.0])  # direction of the light that casts shadows
SHADOWED = np.array([0.26, 0.0, 0.1])  # the middle of what it lights
_REACH = 1.0  # half the side of the square around it with shadows (m); with 0.75 a corner of the table speckles

_FLOOR, _WALL, _SIDE_WALLS, _HIGH = -0.75, -2.3, 1.9, 3.0  # of the room: heights and distances (m)


@dataclass(frozen=True)
class _Finish:
    """Of a material: a colour and a gloss, if they are to change, and a pattern, repeated along both sides."""

    colour: Colour | None = None
    gloss: float | None = None
    pattern: Callable[[], patterns.Pixels] | None = None
    repeat: tuple[float, float] = (1.0, 1.0)
    glow: float = 0.0


# Materials of the cell and of the tasks' objects by name; those that are not listed stay as they are.
_FINISHES = {
    "table": _Finish((0.92, 0.915, 0.90), 0.1),
    "edge": _Finish((0.84, 0.70, 0.52), 0.1, patterns.plywood, (6.0, 1.0)),
    "floor": _Finish((0.62, 0.51, 0.39), 0.1, patterns.planks, (3.0, 3.0)),
    "wall": _Finish((0.86, 0.855, 0.83), 0.0, patterns.plaster, (3.0, 2.0), glow=0.16),
    "white": _Finish((0.93, 0.925, 0.91), 0.2),
    "oak": _Finish((0.76, 0.62, 0.45), 0.1, patterns.grain, (2.0, 1.0)),
    "leaves": _Finish((0.30, 0.42, 0.28), 0.1),
    "clay": _Finish((0.78, 0.52, 0.40), 0.1),
    "shell": _Finish((0.80, 0.81, 0.82), 0.5),
    "black": _Finish((0.13, 0.135, 0.145), 0.45),
    "dark": _Finish((0.20, 0.20, 0.215), 0.35),
    "metal": _Finish((0.74, 0.75, 0.77), 0.8),
    "wood": _Finish((0.66, 0.44, 0.25), 0.15, patterns.grain, (1.0, 1.0)),
    "card": _Finish((0.74, 0.55, 0.35), 0.0, patterns.card),
    "card_inside": _Finish((0.64, 0.47, 0.29), 0.0, patterns.card),
    "paper": _Finish(pattern=patterns.card),
    "cloth": _Finish(pattern=patterns.weave),
    "steel": _Finish((0.66, 0.68, 0.71), 0.8),
}


def dress(spec: mujoco.MjSpec) -> None:
    """Give a cell, with the objects of its task, its look for people."""
    _set_quality(spec)
    _set_light(spec)
    _set_materials(spec)
    _add_table_top(spec)
    _add_room(spec)
    _add_sideboard(spec)
    fabric.cover(spec)
    add_camera(spec, VISITOR, [0.98, -0.78, 0.62], [0.18, 0.03, 0.12], 37)


def _set_quality(spec: mujoco.MjSpec) -> None:
    quality, depth = spec.visual.quality, spec.visual.map
    quality.numslices, quality.numstacks, quality.numquads = 20, 9, 1
    spec.stat.extent, spec.stat.center = 1.0, SHADOWED
    depth.znear, depth.zfar, depth.shadowclip = 0.01, 12.0, _REACH


def _set_light(spec: mujoco.MjSpec) -> None:
    headlight = spec.visual.headlight
    headlight.ambient, headlight.diffuse, headlight.specular = [0.43, 0.435, 0.45], [0.10] * 3, [0.03] * 3
    key, fill = spec.lights
    key.dir, key.pos, key.castshadow = KEY_LIGHT, SHADOWED - 1.5 * KEY_LIGHT, True
    key.diffuse, key.specular = [0.41, 0.40, 0.375], [0.25] * 3
    fill.diffuse, fill.specular = [0.11, 0.115, 0.13], [0.05] * 3


def _set_materials(spec: mujoco.MjSpec) -> None:
    known = {material.name for material in spec.materials}
    for name, finish in _FINISHES.items():
        material = spec.material(name) if name in known else spec.add_material(name=name)
        if finish.colour is not None:
            material.rgba = [*finish.colour, 1]
        if finish.gloss is not None:
            material.specular = material.shininess = finish.gloss
        if finish.pattern is not None:
            patterns.show(spec, material, finish.pattern())
            material.texrepeat = finish.repeat
        material.emission = finish.glow


def _add_table_top(spec: mujoco.MjSpec) -> None:
    """A white top with an edge of plywood around it."""
    table = spec.geom("table")
    (x, y, half), (middle_x, middle_y, _) = table.size, table.pos
    for side in (-1, 1):
        along_x = [middle_x, middle_y + side * y, -half], [x + 0.002, 0.002, half - 0.002]
        along_y = [middle_x + side * x, middle_y, -half], [0.002, y + 0.002, half - 0.002]
        for position, size in (along_x, along_y):
            spec.worldbody.add_geom(type=BOX, size=size, pos=position, material="edge", **DRAWN)


def _add_room(spec: mujoco.MjSpec) -> None:
    middle, thick, wide = _FLOOR + _HIGH / 2, 0.05, 4.0
    walls: list[tuple[Sequence[float], Sequence[float]]] = [([_WALL - thick, 0, middle], [thick, wide, _HIGH / 2])]
    walls += [([0, side * (_SIDE_WALLS + thick), middle], [wide, thick, _HIGH / 2]) for side in (-1, 1)]
    for position, size in walls:
        spec.worldbody.add_geom(type=BOX, size=size, pos=position, material="wall", **DRAWN)
    skirting = [([_WALL, 0, _FLOOR + 0.05], [0.012, wide, 0.05])]
    skirting += [([0, side * _SIDE_WALLS, _FLOOR + 0.05], [wide, 0.012, 0.05]) for side in (-1, 1)]
    for position, size in skirting:
        spec.worldbody.add_geom(type=BOX, size=size, pos=position, material="white", **DRAWN)


def _add_sideboard(spec: mujoco.MjSpec) -> None:
    """Furniture at the wall: a low cupboard with two doors, a few books and a plant on it."""
    body = spec.worldbody.add_body(pos=[_WALL + 0.22, 0.15, _FLOOR])
    parts: list[tuple[Any, Sequence[float], Sequence[float], str]] = [
        (BOX, [0.20, 0.75, 0.20], [0, 0, 0.32], "white"),
        (BOX, [0.21, 0.77, 0.012], [0, 0, 0.53], "oak"),
        (BOX, [0.002, 0.003, 0.19], [0.20, 0, 0.32], "dark"),
        *((BOX, [0.006, 0.05, 0.006], [0.205, y, 0.44], "oak") for y in (-0.12, 0.12)),
        *((BOX, [0.015, 0.015, 0.06], [x, y, 0.06], "oak") for x in (-0.15, 0.15) for y in (-0.65, 0.65)),
        (BOX, [0.08, 0.10, 0.014], [0, -0.45, 0.556], "leaves"),
        (BOX, [0.075, 0.09, 0.012], [0, -0.44, 0.582], "clay"),
        (CYLINDER, [0.06, 0.055, 0], [0, 0.5, 0.597], "clay"),
    ]
    for kind, size, position, material in parts:
        body.add_geom(type=kind, size=size, pos=position, material=material, **DRAWN)
    for k in range(9):
        angle, lean = 2.4 * k, 0.25 + 0.06 * k
        up, aside = math.cos(lean), math.sin(lean)
        leaf = np.array([aside * math.cos(angle), aside * math.sin(angle), up])
        axis = np.cross([0, 0, 1], leaf) / aside * math.sin(lean / 2)
        body.add_geom(
            type=ELLIPSOID,
            size=[0.028, 0.010, 0.12],
            pos=np.array([0, 0.5, 0.64]) + 0.11 * leaf,
            quat=[math.cos(lean / 2), *axis],
            material="leaves",
            **DRAWN,
        )

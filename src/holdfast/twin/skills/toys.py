"""The pool of toys: plain bodies that a scene resizes, colours and places on the table, or moves out of sight.

Nothing here is an object of a task. A body is compiled once at its largest and only ever shrunk, so that the bounds
the collision search was built with stay valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from holdfast.twin.objects import (
    BOX,
    CYLINDER,
    DRAWN,
    ELLIPSOID,
    HIDDEN,
    SOLID,
    add_material,
    add_revolved,
    add_staves,
    fixed_body,
    free_body,
)

type Extents = tuple[float, float, float]

TRAVEL = 0.012  # of a knob
WALL = 0.0025  # half the thickness of the walls of hollow toys
# A crate has low friction, and priority in its contacts, so that a pad pushing it cannot jam it (see push_box).
_SMOOTH: dict[str, Any] = {**SOLID, "friction": [0.4, 0.005, 0.0005], "priority": 1}
_DENSITY = 600.0


@dataclass(frozen=True)
class Toy:
    """One body of the pool and the half sizes it may take; `low` is where its underside is, in half heights."""

    name: str
    kind: str
    smallest: Extents
    largest: Extents
    low: float = -1.0
    round: bool = False


@dataclass(frozen=True)
class Prop:
    """A toy in a scene: what it is called, its half sizes, and where it was laid."""

    toy: Toy
    noun: str
    colour: str
    half: Extents
    xy: np.ndarray = field(default_factory=lambda: np.zeros(2))
    yaw: float = 0.0

    @property
    def name(self) -> str:
        """Of its body."""
        return self.toy.name

    @property
    def kind(self) -> str:
        """Such as block or pad."""
        return self.toy.kind

    @property
    def words(self) -> str:
        """What an instruction calls it."""
        return f"the {self.colour} {self.noun}"

    @property
    def low(self) -> float:
        """Height of its underside in its own frame."""
        return self.toy.low * self.half[2]

    @property
    def height(self) -> float:
        """From its underside to its top."""
        return 2 * self.half[2]

    @property
    def radius(self) -> float:
        """Of the circle around it, seen from above."""
        return self.half[0] if self.toy.round else math.hypot(self.half[0], self.half[1])


_TUBE, _DISH, _TRAY, _BIN = (0.034, 0.034, 0.032), (0.056, 0.056, 0.019), (0.055, 0.085, 0.015), (0.065, 0.065, 0.017)
TOYS = (
    *(Toy(f"toy_block_{i}", "block", (0.017, 0.015, 0.010), (0.042, 0.027, 0.034)) for i in range(4)),
    *(Toy(f"toy_cylinder_{i}", "cylinder", (0.014, 0.014, 0.016), (0.028, 0.028, 0.045), round=True) for i in range(3)),
    *(Toy(f"toy_crate_{i}", "crate", (0.026, 0.026, 0.017), (0.045, 0.045, 0.0245)) for i in range(2)),
    Toy("toy_tube", "tube", _TUBE, _TUBE, low=0, round=True),
    Toy("toy_dish", "dish", _DISH, _DISH, low=0, round=True),
    Toy("toy_tray", "tray", _TRAY, _TRAY, low=0),
    Toy("toy_bin", "bin", _BIN, _BIN, low=0),
    Toy("toy_bar", "bar", (0.009, 0.105, 0.009), (0.015, 0.150, 0.020)),
    Toy("toy_pad_0", "pad", (0.045, 0.045, 0.0006), (0.075, 0.075, 0.0006), low=0),
    Toy("toy_pad_1", "pad", (0.045, 0.045, 0.0006), (0.075, 0.075, 0.0006), low=0, round=True),
    *(Toy(f"toy_knob_{i}", "knob", (0.026, 0.026, 0.0165), (0.045, 0.045, 0.026), low=0, round=True) for i in range(2)),
)
NOUNS = {
    "block": ("block", "brick"),
    "cylinder": ("cylinder", "peg"),
    "crate": ("crate", "cuboid"),
    "tube": ("tube", "ring"),
    "dish": ("dish", "round tray"),
    "tray": ("tray", "long tray"),
    "bin": ("bin", "square tray"),
    "bar": ("bar", "stick"),
    "pad": ("pad", "mat"),
    "knob": ("knob", "dome"),
}
# Kinds that are easily confused; no two of them in a scene have the same colour.
ALIKE = (("block", "crate"), ("tube", "dish", "tray", "bin"), ("cylinder",), ("bar",), ("pad",), ("knob",))
COLOURS = {
    "red": (0.80, 0.10, 0.10),
    "green": (0.12, 0.55, 0.20),
    "blue": (0.12, 0.28, 0.80),
    "yellow": (0.93, 0.80, 0.12),
    "orange": (0.94, 0.47, 0.08),
    "purple": (0.48, 0.18, 0.66),
    "white": (0.96, 0.96, 0.96),
    "black": (0.08, 0.08, 0.09),
    "grey": (0.50, 0.50, 0.52),
    "brown": (0.45, 0.28, 0.14),
    "pink": (0.95, 0.55, 0.68),
    "cyan": (0.15, 0.75, 0.82),
}


def add_toys(spec: mujoco.MjSpec) -> None:
    """Add the whole pool, every toy at its largest."""
    for toy in TOYS:
        add_material(spec, toy.name, (0.5, 0.5, 0.5), gloss=0.3)
        _MAKERS[toy.kind](spec, toy)


def _add_solid(spec: mujoco.MjSpec, toy: Toy) -> None:
    """A block, cylinder, crate or bar: one geom around the body's origin."""
    body = free_body(spec, toy.name, [0.3, 0, toy.largest[2] + 0.001])
    x, y, z = toy.largest
    kind, size = (CYLINDER, [x, z, 0]) if toy.round else (BOX, [x, y, z])
    contact = _SMOOTH if toy.kind == "crate" else SOLID
    body.add_geom(type=kind, size=size, material=toy.name, density=_DENSITY, **contact)


def _add_pad(spec: mujoco.MjSpec, toy: Toy) -> None:
    pad = fixed_body(spec, toy.name, [0.3, 0, 0])
    x, y, z = toy.largest
    kind, size = (CYLINDER, [x, z, 0]) if toy.round else (BOX, [x, y, z])
    pad.add_geom(type=kind, size=size, material=toy.name, **DRAWN)


def _add_hollow(spec: mujoco.MjSpec, toy: Toy) -> None:
    """A tube or dish: a floor and a round wall, the origin under the middle of the floor."""
    radius, top, floor = toy.largest[0], 2 * toy.largest[2], 0.002
    body = free_body(spec, toy.name, [0.3, 0, 0.001])
    body.add_geom(type=CYLINDER, size=[radius, floor, 0], pos=[0, 0, floor], mass=0.05, **SOLID, **HIDDEN)
    middle = radius - WALL
    add_staves(body, (middle, floor), (middle, top), WALL, mass=0.07)
    outer = [(0, 0), (radius, 0), (radius, top)]
    add_revolved(
        spec, body, toy.name, [*outer, (radius - 2 * WALL, top), (radius - 2 * WALL, 0.004), (0, 0.004)], toy.name
    )


def _add_tray(spec: mujoco.MjSpec, toy: Toy) -> None:
    """A tray or bin of four walls, the origin under the middle of the floor."""
    x, y, z = toy.largest
    body = free_body(spec, toy.name, [0.3, 0, 0.001])
    body.add_geom(type=BOX, size=[x, y, 0.002], pos=[0, 0, 0.002], material=toy.name, mass=0.15, **SOLID)
    for size, pos in (
        ([WALL, y, z], [x - WALL, 0, z]),
        ([WALL, y, z], [WALL - x, 0, z]),
        ([x, WALL, z], [0, y - WALL, z]),
        ([x, WALL, z], [0, WALL - y, z]),
    ):
        body.add_geom(type=BOX, size=size, pos=pos, material=toy.name, mass=0.03, **SOLID)


def _add_knob(spec: mujoco.MjSpec, toy: Toy) -> None:
    """A round foot that stands still, with a dome on a spring that clears the table even when pressed."""
    radius, _, half = toy.largest
    add_material(spec, f"{toy.name}_foot", (0.5, 0.5, 0.5))
    foot = fixed_body(spec, toy.name, [0.3, 0, 0])
    foot.add_geom(type=CYLINDER, size=[radius, half, 0], pos=[0, 0, half], material=f"{toy.name}_foot", **SOLID)
    dome = foot.add_body(name=f"{toy.name}_dome", pos=[0, 0, 2 * half], gravcomp=1)
    dome.add_joint(
        name=f"{toy.name}_dome",
        type=mujoco.mjtJoint.mjJNT_SLIDE,
        axis=[0, 0, 1],
        range=[-TRAVEL, 0],
        limited=1,
        stiffness=[250, 0, 0],
        damping=[2, 0, 0],
        springref=0.002,
        armature=0.01,
    )
    dome.add_geom(type=ELLIPSOID, size=[0.8 * radius, 0.8 * radius, DOME], material=toy.name, mass=0.02, **SOLID)


DOME = 0.020  # height of a knob's dome above its foot
_MAKERS = {
    "block": _add_solid, "cylinder": _add_solid, "crate": _add_solid, "bar": _add_solid, "pad": _add_pad,
    "tube": _add_hollow, "dish": _add_hollow, "tray": _add_tray, "bin": _add_tray, "knob": _add_knob,
}  # fmt: skip


def resize(model: mujoco.MjModel, toy: Toy, half: Extents) -> None:
    """Set a toy's half sizes and the mass that follows. Hollow toys have one size."""
    body = model.body(toy.name).id
    geom = model.body_geomadr[body]
    x, y, z = half
    if toy.kind == "knob":
        model.geom_size[geom][:2], model.geom_pos[geom][2] = (x, z), z
        dome = model.body(f"{toy.name}_dome").id
        model.body_pos[dome][2] = 2 * z
        model.geom_size[model.body_geomadr[dome]][:2] = 0.8 * x
    elif toy.kind == "pad":
        model.geom_size[geom] = (x, z, 0) if toy.round else half
    elif toy.smallest != toy.largest:
        model.geom_size[geom] = (x, z, 0) if toy.round else half
        model.body_pos[body][2] = z + 0.001
        mass = _DENSITY * 2 * z * (math.pi * x * x if toy.round else 4 * x * y)
        across = mass * (x * x / 4 + z * z / 3)
        moments = (
            (across, across, mass * x * x / 2)
            if toy.round
            else (mass / 3 * (y * y + z * z), mass / 3 * (x * x + z * z), mass / 3 * (x * x + y * y))
        )
        model.body_mass[body], model.body_inertia[body] = mass, moments

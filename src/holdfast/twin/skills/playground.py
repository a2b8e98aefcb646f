"""The playground: one compiled cell with the pool of toys, set up again for every seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import mujoco
import numpy as np

from holdfast.embodiments import piper_x_ik as ik
from holdfast.embodiments.piper_x import BASE
from holdfast.twin import cell
from holdfast.twin.skills.toys import ALIKE, COLOURS, NOUNS, TOYS, Extents, Prop, Toy, add_toys, resize
from holdfast.twin.world import World

type Zone = tuple[tuple[float, float], tuple[float, float]]  # ranges of x and y

# As wide as the tasks' layouts at level wide, and a little more.
ZONES: dict[str, Zone] = {
    "left": ((0.18, 0.47), (-0.06, 0.40)),
    "right": ((0.18, 0.47), (-0.40, 0.06)),
    "shared": ((0.20, 0.42), (-0.10, 0.10)),
    "table": ((0.15, 0.52), (-0.42, 0.42)),
}
_SETTLE = 10
_AWAY = 6.0  # metres in front of the table, behind the front camera
_TRIES = 200
_FIELDS = (
    "body_pos", "body_mass", "body_inertia", "body_gravcomp", "geom_size", "geom_pos", "mat_rgba", "light_diffuse",
    "light_dir", "cam_pos", "cam_quat", "cam_fovy",
)  # fmt: skip
_TILTS = (0.0, 0.15, 0.3)


class Crowded(Exception):  # noqa: N818 -- not an error: the next seed has room
    """There is no room for another toy on the table."""


class Playground:
    """A table that a skill fills with props before an episode begins; fully deterministic by seed."""

    def __init__(self) -> None:
        spec = cell.build()
        add_toys(spec)
        spec.option.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)  # unused toys cost nothing
        self.world = World(spec)
        self.props: list[Prop] = []
        self._nominal = {name: getattr(self.world.model, name).copy() for name in _FIELDS}
        self._ambient = np.array(self.world.model.vis.headlight.ambient)

    def clear(self, rng: np.random.Generator) -> None:
        """Take everything off the table and draw light, cameras and the table's colour."""
        model = self.world.model
        for name, value in self._nominal.items():
            getattr(model, name)[:] = value
        self.props = []
        _draw_look(model, self._ambient, rng)

    def add(
        self,
        rng: np.random.Generator,
        kind: str | Sequence[str],
        zone: Zone,
        *,
        reach: Sequence[str] = (),
        turn: float = math.pi,
        gap: float = 0.045,
        largest: Extents = (1, 1, 1),
        between: tuple[np.ndarray, float, float] | None = None,
    ) -> Prop:
        """Draw a toy, its size, colour and place.

        Args:
            rng: Random generator.
            kind: Of the toy, or several to choose from.
            zone: Where its middle may be.
            reach: Arms that must be able to reach down to it.
            turn: Largest rotation.
            gap: Free space around it.
            largest: Largest half sizes.
            between: A point, and the smallest and largest distance from it.
        """
        kinds = [kind] if isinstance(kind, str) else list(kind)
        used = {prop.name for prop in self.props}
        pool = [toy for toy in TOYS if toy.kind in kinds and toy.name not in used]
        if not pool:
            raise Crowded
        chosen = str(rng.choice(sorted({toy.kind for toy in pool})))
        prop = self._draw(rng, [toy for toy in pool if toy.kind == chosen], largest)
        for _ in range(_TRIES):
            xy = np.array([rng.uniform(*zone[0]), rng.uniform(*zone[1])])
            if between and not between[1] <= math.dist(xy, between[0]) <= between[2]:
                continue
            if self.room(xy, prop.radius, gap) and all(reachable(side, xy) for side in reach):
                prop = replace(prop, xy=xy, yaw=float(rng.uniform(-turn, turn)))
                self.props.append(prop)
                return prop
        raise Crowded

    def room(self, xy: np.ndarray, radius: float, gap: float) -> bool:
        """Whether a circle keeps its distance from all props and from the feet of the arms."""
        clear = all(math.dist(xy, prop.xy) > radius + prop.radius + gap for prop in self.props)
        return clear and all(math.dist(xy, base[:2]) > radius + 0.12 for base in BASE.values())

    def turn(self, prop: Prop, yaw: float) -> Prop:
        """Lay a prop with another yaw."""
        turned = replace(prop, yaw=yaw)
        self.props[self.props.index(prop)] = turned
        return turned

    def begin(self, start: np.ndarray) -> None:
        """Lay everything out with the arms at `start` (14 numbers), and let it settle."""
        world = self.world
        laid = {prop.name: prop for prop in self.props}
        for toy in TOYS:
            world.model.body_gravcomp[world.model.body(toy.name).id] = toy.name not in laid
        mujoco.mj_setConst(world.model, world.data)
        world.reset(start)
        for i, toy in enumerate(TOYS):
            prop = laid.get(toy.name)
            world.place(toy.name, prop.xy if prop else (_AWAY + 0.4 * i, 0), prop.yaw if prop else 0)
        world.settle(_SETTLE)

    def _draw(self, rng: np.random.Generator, pool: Sequence[Toy], largest: Extents) -> Prop:
        toy = pool[int(rng.integers(len(pool)))]
        half = rng.uniform(toy.smallest, np.maximum(np.minimum(toy.largest, largest), toy.smallest))
        if toy.round or toy.kind in ("pad", "crate"):
            half[1] = half[0]
        alike = next(kinds for kinds in ALIKE if toy.kind in kinds)
        taken = {prop.colour for prop in self.props if prop.kind in alike}
        colours = [colour for colour in COLOURS if colour not in taken]
        colour = str(rng.choice(colours))
        model = self.world.model
        resize(model, toy, tuple(half))
        model.mat_rgba[model.mat(toy.name).id][:3] = _shade(rng, COLOURS[colour])
        if toy.kind == "knob":
            model.mat_rgba[model.mat(f"{toy.name}_foot").id][:3] = _shade(rng, COLOURS[str(rng.choice(colours))])
        return Prop(toy, str(rng.choice(NOUNS[toy.kind])), colour, tuple(half))


def reachable(side: str, xy: np.ndarray, heights: Sequence[float] = (0.02, 0.20)) -> bool:
    """Whether a hand can reach down to a point of the table and rise again with little tilt."""
    points = [np.array([*xy, z]) for z in heights]
    heading = ik.heading(side, points[0])
    return any(
        all(ik.solve(side, point, ik.down(heading, tilt, heading)) is not None for point in points) for tilt in _TILTS
    )


def start_pose(poses: Mapping[str, tuple[np.ndarray, np.ndarray]], home: np.ndarray) -> np.ndarray | None:
    """The 14 numbers of arms whose hands are at the given poses, the others at home; None if a pose is out of reach."""
    start = home.copy()
    for side, (position, rotation) in poses.items():
        first = 7 * list(BASE).index(side)
        joints = ik.solve(side, position, rotation, home[first : first + 6])
        if joints is None:
            return None
        start[first : first + 6] = joints
    return start.astype(np.float32).astype(np.float64)


def _shade(rng: np.random.Generator, colour: Sequence[float]) -> np.ndarray:
    return np.clip(np.asarray(colour) * rng.uniform(0.85, 1.1) + rng.uniform(-0.04, 0.04, 3), 0, 1)


def _draw_look(model: mujoco.MjModel, ambient: np.ndarray, rng: np.random.Generator) -> None:
    """Vary light and cameras slightly, and in some episodes the table's colour."""
    table = model.mat_rgba[model.mat("table").id]
    if rng.random() < 0.3:
        table[:3] = rng.uniform(0.45, 0.95) * rng.uniform(0.85, 1.0, 3)
    else:
        table[:3] += rng.uniform(-0.05, 0.05) + rng.uniform(-0.015, 0.015, 3)
    model.vis.headlight.ambient[:] = ambient * rng.uniform(0.85, 1.08)
    model.light_diffuse[:] *= rng.uniform(0.75, 1.1, (len(model.light_diffuse), 1))
    model.light_dir[:] += rng.uniform(-0.12, 0.12, model.light_dir.shape)
    model.light_dir[:] /= np.linalg.norm(model.light_dir, axis=1, keepdims=True)
    model.cam_pos[:] += rng.uniform(-0.004, 0.004, model.cam_pos.shape)
    model.cam_quat[:] += rng.uniform(-0.004, 0.004, model.cam_quat.shape)
    model.cam_quat[:] /= np.linalg.norm(model.cam_quat, axis=1, keepdims=True)
    model.cam_fovy[:] += rng.uniform(-1, 1, model.cam_fovy.shape)

"""A compiled cell: steps the physics, renders the cameras, and reports on bodies, hands and contacts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import piper_x_ik as ik
from holdfast.embodiments.piper_x import PIPER_X_PAIR, SIDES
from holdfast.twin.arm import FINGERS, OPEN, joint_names
from holdfast.twin.cell import CAMERAS, SUBSTEPS
from holdfast.twin.views import Views

HOME = {"left": np.array([0.14, 0.27, 0.18]), "right": np.array([0.14, -0.27, 0.18])}
_JOINTS = tuple(slice(7 * i, 7 * i + 6) for i in range(len(SIDES)))  # within the 14 numbers of state and action
_GRIPPERS = tuple(7 * i + 6 for i in range(len(SIDES)))


class World:
    """Simulator state, with the queries that task scripts and scorers need; bodies by name, lengths in metres."""

    def __init__(self, spec: mujoco.MjSpec) -> None:
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.home = _home()
        names = [joint_names(side) for side in SIDES]
        self._joints = [self._addresses(arm[:6]) for arm in names]
        self._fingers = [self._addresses([f"{side}_{finger}" for finger in FINGERS]) for side in SIDES]
        self._servos = np.array([self.model.actuator(name).id for arm in names for name in arm])
        self._sites = {side: self.model.site(f"{side}_tcp").id for side in SIDES}
        self._pads = {side: [self.model.geom(f"{side}_{f}_pad").id for f in FINGERS] for side in SIDES}
        self._bodies = {self.model.body(i).name: i for i in range(self.model.nbody)}
        self._views: dict[tuple[int, int], Views] = {}

    # Stepping

    def reset(self, start: np.ndarray | None = None) -> None:
        """Reset all bodies to the model's positions and both arms to `start`, by default home, at rest."""
        start = self.home if start is None else start
        mujoco.mj_resetData(self.model, self.data)
        for joints, gripper, addresses, fingers in zip(_JOINTS, _GRIPPERS, self._joints, self._fingers, strict=True):
            self.data.qpos[addresses] = start[joints]
            self.data.qpos[fingers] = start[gripper] / 2
        self.data.ctrl[self._servos] = start
        for views in self._views.values():
            views.forget_waiting()

    def settle(self, steps: int) -> None:
        """Run the physics for some control steps with the current targets."""
        mujoco.mj_forward(self.model, self.data)
        mujoco.mj_step(self.model, self.data, steps * SUBSTEPS)

    def step(self, action: np.ndarray) -> None:
        """One control step towards 14 absolute targets: six joint angles and an opening for each arm."""
        # Datasets store float32; rounding here makes a recorded episode replay to the same bits.
        targets = np.asarray(action, dtype=np.float32).astype(np.float64)
        if targets.shape != self._servos.shape or not np.isfinite(targets).all():
            raise HoldfastError(f"An action is {len(self._servos)} finite numbers, got {action!r}.")
        self.data.ctrl[self._servos] = targets
        mujoco.mj_step(self.model, self.data, SUBSTEPS)

    def state(self) -> np.ndarray:
        """The 14 measured values, in the embodiment's order."""
        arms = zip(self._joints, self._fingers, strict=True)
        return np.concatenate([[*self.data.qpos[joints], self.data.qpos[fingers].sum()] for joints, fingers in arms])

    def render(self, cameras: Sequence[str], height: int, width: int) -> dict[str, np.ndarray]:
        """What cameras see, each as height x width x 3 bytes."""
        return dict(zip(cameras, self._view(height, width).draw(self.data, cameras), strict=True))

    def render_later(self, height: int, width: int) -> list[dict[str, np.ndarray]]:
        """Draw all cameras. Returns the frames that could be read back, the oldest first: often none, then many."""
        return _by_camera(self._view(height, width).draw_later(self.data))

    def rendered(self, height: int, width: int) -> list[dict[str, np.ndarray]]:
        """The frames of this size since the last reset that `render_later` has not returned."""
        return _by_camera(self._view(height, width).read_waiting())

    def close(self) -> None:
        """Free the renderers."""
        for views in self._views.values():
            views.close()
        self._views.clear()

    # Placing, before the physics runs

    def place(self, body: str, xy: Sequence[float] | np.ndarray, yaw: float = 0.0) -> None:
        """Put a free or fixed body at a point of the table, at the height the model gives it."""
        index = self._bodies[body]
        position = [*xy, self.model.body_pos[index][2]]
        quat = [math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)]
        mocap = self.model.body_mocapid[index]
        if mocap >= 0:
            self.data.mocap_pos[mocap], self.data.mocap_quat[mocap] = position, quat
        else:
            address = self.model.jnt_qposadr[self.model.body_jntadr[index]]
            self.data.qpos[address : address + 7] = [*position, *quat]

    def set_joint(self, joint: str, value: float) -> None:
        """Set a one-dimensional joint of an object to an angle or a length."""
        self.data.joint(joint).qpos[0] = value

    # Bodies

    def position(self, body: str) -> np.ndarray:
        """Where a body's origin is."""
        return self.data.xpos[self._bodies[body]].copy()

    def rotation(self, body: str) -> np.ndarray:
        """The 3 x 3 rotation of a body."""
        return self.data.xmat[self._bodies[body]].reshape(3, 3).copy()

    def up(self, body: str) -> float:
        """How upright a body is: 1 upright, 0 on its side."""
        return float(self.data.xmat[self._bodies[body]][8])

    def yaw(self, body: str) -> float:
        """Rotation of a body about the vertical."""
        matrix = self.data.xmat[self._bodies[body]]
        return math.atan2(matrix[3], matrix[0])

    def speed(self, body: str) -> float:
        """Linear speed of a free body."""
        address = self.model.body_dofadr[self._bodies[body]]
        return float(np.linalg.norm(self.data.qvel[address : address + 3]))

    def to_world(self, body: str, point: Sequence[float] | np.ndarray) -> np.ndarray:
        """A point given in a body's frame, in the world's."""
        return self.position(body) + self.rotation(body) @ np.asarray(point, float)

    def to_body(self, body: str, point: np.ndarray) -> np.ndarray:
        """A point given in the world's frame, in a body's."""
        return self.rotation(body).T @ (point - self.position(body))

    def joint(self, name: str) -> float:
        """Angle or length of a one-dimensional joint."""
        return float(self.data.joint(name).qpos[0])

    def site(self, name: str) -> np.ndarray:
        """Where a site is."""
        return self.data.site(name).xpos.copy()

    # Hands

    def tcp(self, side: str) -> tuple[np.ndarray, np.ndarray]:
        """Position and rotation of a hand's tool centre point; the rotation's third column is the approach."""
        site = self._sites[side]
        return self.data.site_xpos[site].copy(), self.data.site_xmat[site].reshape(3, 3).copy()

    def opening(self, side: str) -> float:
        """Measured distance between the pads of a hand."""
        return float(self.data.qpos[self._fingers[SIDES.index(side)]].sum())

    def pads(self, side: str, body: str) -> int:
        """How many of a hand's two pads touch a body: 2 means held; jointed children are separate bodies."""
        geoms = self.data.contact.geom
        if not len(geoms):
            return 0
        bodies = self.model.geom_bodyid[geoms]
        on_body = bodies[:, ::-1] == self._bodies[body]  # flipped: true where the *other* geom belongs to the body
        return sum(bool(((geoms == pad) & on_body).any()) for pad in self._pads[side])

    def held(self, body: str) -> bool:
        """Whether a hand holds a body."""
        return any(self.pads(side, body) == 2 for side in SIDES)

    def _view(self, height: int, width: int) -> Views:
        if (height, width) not in self._views:
            self._views[height, width] = Views(self.model, CAMERAS, height, width)
        return self._views[height, width]

    def _addresses(self, joints: Sequence[str]) -> np.ndarray:
        return np.array([self.model.joint(name).qposadr[0] for name in joints])


def _by_camera(frames: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [dict(zip(CAMERAS, frame, strict=True)) for frame in frames]


def _home() -> np.ndarray:
    home = np.empty(len(PIPER_X_PAIR.dimensions))
    for side, joints, gripper in zip(SIDES, _JOINTS, _GRIPPERS, strict=True):
        angles = ik.solve(side, HOME[side], ik.down())
        assert angles is not None
        home[joints], home[gripper] = angles, OPEN
    return home.astype(np.float32).astype(np.float64)

"""ALOHA's two simulated tasks: gym-aloha's scenes, layouts and rewards, experts of our own, drawing without shadows.

Needs gym-aloha 0.1.5 with mujoco 3.8.1. gym-aloha's environment draws three cameras in full size at every step, so this
worker steps its scenes itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

os.environ.setdefault("MUJOCO_GL", "egl")

import mujoco
import numpy as np
from dm_control.mujoco import Physics  # type: ignore[import-not-found]
from dm_control.rl.control import PhysicsError  # type: ignore[import-not-found]
from gym_aloha.constants import ASSETS_DIR, DT, START_ARM_POSE  # type: ignore[import-not-found]
from gym_aloha.tasks import sim  # type: ignore[import-not-found]
from gym_aloha.utils import sample_box_pose, sample_insertion_pose  # type: ignore[import-not-found]
from holdfast_worker import Simulator  # type: ignore[import-not-found]

SIDES = ("left", "right")
JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
CAMERAS = ("top", "angle", "front_close", "left_pillar", "right_pillar", "left_wrist", "right_wrist")
FULL = 4  # the reward of success; milestones are those of the rewards 1 to 4

# Of the experts.
OPEN, SHUT, START_GRIP = 1.0, 0.0, 0.1
TIP = 0.145  # m, from the hand's body to the point between the fingertips, almost at their end
SLOPE = 1.3  # rad, how far a hand points down when it grasps
ROLL, WEIGHTS = 3, np.array([1, 1, 1, 0.1, 0.1, 0.1, 0.02])  # the forearm's roll; place, direction, little roll
MEET, SPREAD = (0.0, 0.5, 0.2), (0.02, 0.01, 0.02)  # m, where the hands meet, and how far that varies


class Aloha(Simulator):
    """One task at a time. State and action are the angles of both arms' joints, and grippers from 0 to 1 (open)."""

    tasks = {  # noqa: RUF012
        "transfer_cube": {
            "instruction": "Pick up the cube with the right arm and hand it to the left arm.",
            "milestones": {
                "touched": "The right gripper touches the cube.",
                "lifted": "The right gripper has the cube off the table.",
                "met": "The left gripper touches the cube.",
                "transferred": "The left gripper has the cube off the table.",
            },
        },
        "insert_peg": {
            "instruction": "Pick up the socket and the peg, and insert the peg into the socket.",
            "milestones": {
                "touched": "The left gripper touches the socket, the right one the peg.",
                "lifted": "The grippers have both off the table.",
                "met": "Off the table, the peg touches the socket.",
                "inserted": "The peg touches the pin inside the socket.",
            },
        },
    }
    state = action = tuple(f"{side}_{joint}" for side in SIDES for joint in JOINTS)
    kinds = dict.fromkeys(action, "target")
    rate = round(1 / DT)
    max_steps = 400

    def __init__(self, cameras: Sequence[str] = ("top",)) -> None:
        for camera in cameras:
            if camera not in CAMERAS:
                raise ValueError(f"Unknown camera {camera!r}. Valid: {', '.join(CAMERAS)}.")
        self.cameras = tuple(cameras)
        self._scenes: dict[str, Any] = {}
        self._renderers: dict[tuple[str, int, int], Any] = {}

    def begin(self, task: str, seed: int, level: str) -> None:
        """Draw a layout as gym-aloha does: a seed is the same layout there."""
        if task not in self._scenes:
            self._scenes[task] = _open(task)
        self._task, (self._physics, self._judge) = task, self._scenes[task]
        seed %= 2**32
        cube = task == "transfer_cube"
        sim.BOX_POSE[0] = sample_box_pose(seed) if cube else np.concatenate(sample_insertion_pose(seed))
        self._judge.initialize_episode(self._physics)
        self._reward = self._best = 0
        self._broken = False

    def step(self, action: np.ndarray) -> None:
        """The simulator keeps targets within the joints' limits. One that it cannot compute ends the episode."""
        try:
            self._judge.before_step(action, self._physics)
            self._physics.step(round(DT / self._physics.timestep()))
            self._reward = self._judge.get_reward(self._physics)
        except PhysicsError:
            self._reward, self._broken = 0, True
        self._best = max(self._best, self._reward)

    def measure(self) -> np.ndarray:
        """As gym-aloha's `agent_pos`."""
        return self._judge.get_qpos(self._physics)

    def success(self) -> bool:
        """Once done is done, as in gym-aloha, whose episode ends then."""
        return self._best == FULL

    def milestones(self) -> Sequence[str]:
        """Those up to the highest reward so far."""
        return list(self.tasks[self._task]["milestones"])[: self._best]

    def over(self) -> bool:
        """Whether the physics broke down."""
        return self._broken

    def draw(self, camera: str, height: int, width: int) -> np.ndarray:
        """A camera of the scene."""
        key = self._task, height, width
        if key not in self._renderers:
            self._renderers[key] = mujoco.Renderer(self._physics.model.ptr, height, width)
        self._renderers[key].update_scene(self._physics.data.ptr, camera)
        return self._renderers[key].render()

    def picture(self) -> np.ndarray:
        """Both arms, from the front."""
        return self.draw("angle", 480, 640)

    def expert(self, seed: int | None) -> Iterator[np.ndarray]:
        """Both hands go from stop to stop; with a seed at a pace of their own, and they meet elsewhere."""
        vary = np.random.default_rng(seed).uniform(-1, 1, 4) if seed is not None else np.zeros(4)
        objects = self._physics.data.qpos[len(START_ARM_POSE) :].copy()
        meet, pace = np.array(MEET) + vary[:3] * SPREAD, 1 + 0.15 * vary[3]
        stops = (_transfer if self._task == "transfer_cube" else _insert)(objects, meet)
        arms = [Arm(self._physics.model.ptr, side) for side in SIDES]
        here = np.array([arm.start() for arm in arms])
        for seconds, *hands in stops:
            steps, there = round(seconds * pace / DT), np.array(hands)
            for part in np.arange(1, steps + 1) / steps:
                poses = here + (there - here) * part**2 * (3 - 2 * part)  # starts and ends gently
                yield np.concatenate([arm.reach(pose) for arm, pose in zip(arms, poses, strict=True)])
            here = there


def _open(task: str) -> tuple[Any, Any]:
    """The scene of a task, and gym-aloha's judge of it."""
    file, judge = {
        "transfer_cube": ("transfer_cube", sim.TransferCubeTask),
        "insert_peg": ("insertion", sim.InsertionTask),
    }[task]
    physics = Physics.from_xml_path(str(ASSETS_DIR / f"bimanual_viperx_{file}.xml"))
    physics.model.vis.quality.shadowsize = physics.model.vis.quality.offsamples = 0
    physics.model.light_castshadow[:] = 0
    return physics, judge()


class Hand(NamedTuple):
    """The point between the fingertips (m), how far the hand points down and is turned (rad), and its grip, 1 is open.

    The left hand points to +x, the right one to -x. Turned by 0, fingers close along y.
    """

    x: float
    y: float
    z: float
    down: float
    turn: float
    grip: float


Stop = tuple[float, Hand, Hand]  # seconds on the way, left, right


def _transfer(cube: np.ndarray, meet: np.ndarray) -> list[Stop]:
    """The right hand takes the cube from the table, tips it by half its slope and holds it out to the left hand."""
    x, y = cube[:2]
    x0, y0, z0 = meet
    half = SLOPE / 2  # so the cube's faces are square to both hands
    grasp = Hand(x, y, 0.02, SLOPE, 0, SHUT)
    offer = Hand(x0, y0, z0, half, 0, SHUT)
    take = offer._replace(turn=np.pi / 2)
    wait = take._replace(x=x0 - 0.14, z=z0 + 0.07, grip=OPEN)
    return [
        (1.2, wait, grasp._replace(x=x + 0.05, z=0.1, grip=OPEN)),
        (0.8, wait, grasp._replace(grip=OPEN)),
        (0.6, wait, grasp),
        (1.4, wait, offer),
        (0.8, take._replace(grip=OPEN), offer),
        (0.6, take, offer),
        (0.4, take, offer._replace(grip=OPEN)),
        (0.8, take._replace(x=x0 - 0.1), offer._replace(x=x0 + 0.15, z=z0 + 0.05, grip=OPEN)),
    ]


def _insert(objects: np.ndarray, meet: np.ndarray) -> list[Stop]:
    """Each hand takes its part from the table, then they come together."""
    (peg_x, peg_y), (socket_x, socket_y) = objects[:2], objects[7:9]
    x0, y0, z0 = meet
    socket = Hand(socket_x, socket_y, 0.022, SLOPE, 0, SHUT)
    peg = Hand(peg_x, peg_y, 0.014, SLOPE, 0, SHUT)  # 4 mm above its middle, so that the fingers clear the table
    socket_up, peg_up = Hand(x0 - 0.1, y0, z0, SLOPE, 0, SHUT), Hand(x0 + 0.1, y0, z0 + 0.004, SLOPE, 0, SHUT)
    socket_in, peg_in = socket_up._replace(x=x0 - 0.045), peg_up._replace(x=x0 + 0.045)
    return [
        (1.2, socket._replace(x=socket_x - 0.05, z=0.1, grip=OPEN), peg._replace(x=peg_x + 0.05, z=0.1, grip=OPEN)),
        (0.8, socket._replace(grip=OPEN), peg._replace(grip=OPEN)),
        (0.6, socket, peg),
        (1.4, socket_up, peg_up),
        (1.2, socket_in, peg_in),
        (0.4, socket_in, peg_in),
    ]


class Arm:
    """Inverse kinematics of one arm, in a state of the scene that is never stepped."""

    def __init__(self, model: Any, side: str) -> None:
        first = int(model.joint(f"vx300s_{side}/waist").qposadr[0])
        self._joints, self._ahead = slice(first, first + 6), 1 if side == "left" else -1
        self._model, self._data = model, mujoco.MjData(model)
        self._body = model.body(f"vx300s_{side}/gripper_link").id
        self._angles = np.array(START_ARM_POSE[:6])

    def start(self) -> Hand:
        """Where the hand is at the start."""
        position, axes = self._at(self._angles)
        x, y, z = position + TIP * axes[:, 0]
        return Hand(x, y, z, -np.arcsin(axes[2, 0]), 0, START_GRIP)

    def reach(self, pose: np.ndarray) -> np.ndarray:
        """The arm's seven targets for a pose of its hand that is near the last one.

        Of all angles those with little roll of the forearm are taken: with a straight wrist it would turn wildly.
        """
        hand, jacobian = Hand(*pose), np.zeros((7, self._model.nv))
        axes = self._axes(hand.down, hand.turn)
        limits = self._model.jnt_range[self._joints].T
        for _ in range(5):
            position, turned = self._at(self._angles)
            mujoco.mj_jacBody(self._model, self._data, jacobian[:3], jacobian[3:6], self._body)
            own = jacobian[:, self._joints].copy()
            own[6, ROLL] = 1
            turning = np.cross(turned, axes, axis=0).sum(axis=1) / 2
            error = np.concatenate([pose[:3] - TIP * axes[:, 0] - position, turning, [-self._angles[ROLL]]])
            step = np.linalg.lstsq(own * WEIGHTS[:, None], error * WEIGHTS)[0]
            self._angles = np.clip(self._angles + step, *limits)
        return np.append(self._angles, hand.grip)

    def _at(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position and axes of the hand for these angles."""
        self._data.qpos[self._joints] = angles
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        return self._data.xpos[self._body].copy(), self._data.xmat[self._body].reshape(3, 3).copy()

    def _axes(self, down: float, turn: float) -> np.ndarray:
        """The hand's axes as columns: ahead, along the opening of the fingers, and across both."""
        ahead, side = np.array([self._ahead * np.cos(down), 0, -np.sin(down)]), np.array([0, self._ahead, 0])
        across = np.cross(ahead, side)
        opening = np.cos(turn) * side + np.sin(turn) * across
        return np.stack([ahead, opening, np.cross(ahead, opening)], axis=1)

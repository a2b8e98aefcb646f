"""LIBERO's suites: a seed is one of the fifty initial states of its task, and the simulator says what is done.

Needs hf-libero 0.1.4 with mujoco 3.8.1. State, actions, cameras and limits are those of `lerobot-eval
--env.type=libero` and of LeRobot's datasets. Images are the simulator's own observations, drawn at every step: it takes
them together with the state at the beginning of a control step, so one drawn later would show another moment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")

import libero  # type: ignore[import-not-found]
import numpy as np
from holdfast_worker import Simulator, resized  # type: ignore[import-not-found]


def _say_where_files_are() -> None:
    """Write the file of paths that LIBERO wants: without one it asks whoever sits before the screen."""
    if "LIBERO_CONFIG_PATH" in os.environ:
        return
    folder, package = Path(sys.prefix) / "libero_config", Path(libero.__path__[0]) / "libero"
    places = {"bddl_files": "bddl_files", "init_states": "init_files", "datasets": "datasets", "assets": "assets"}
    paths = {"benchmark_root": str(package), **{key: str(package / place) for key, place in places.items()}}
    folder.mkdir(exist_ok=True)
    written = folder / f"{os.getpid()}.part"
    written.write_text(json.dumps(paths))  # JSON is YAML too
    written.replace(folder / "config.yaml")
    os.environ["LIBERO_CONFIG_PATH"] = str(folder)


_say_where_files_are()
from libero.libero import benchmark, get_assets_path  # type: ignore[import-not-found] # noqa: E402
from libero.libero.envs import OffScreenRenderEnv  # type: ignore[import-not-found] # noqa: E402

LIMITS = {"libero_spatial": 280, "libero_object": 280, "libero_goal": 300, "libero_10": 520, "libero_90": 400}
CAMERAS = {"image": "agentview", "image2": "robot0_eye_in_hand"}
REST = (0, 0, 0, 0, 0, 0, -1)  # no motion, the gripper open
SETTLE = 10  # control steps before the episode: objects start a little above the table


class Libero(Simulator):
    """One task at a time. The state is the hand's pose and its two fingers; actions move and turn the hand."""

    state = ("x", "y", "z", "rx", "ry", "rz", "left_finger", "right_finger")
    action = ("dx", "dy", "dz", "droll", "dpitch", "dyaw", "gripper")
    kinds = dict.fromkeys(action[:6], "delta")
    rate = 20

    def __init__(
        self,
        suites: Sequence[str] = ("libero_spatial", "libero_object", "libero_goal", "libero_10"),
        cameras: Mapping[str, str] | None = None,
        size: int = 256,
    ) -> None:
        """List the tasks.

        Args:
            suites: Names of suites.
            cameras: By name, the camera of LIBERO; by default `image` and `image2`, as LeRobot calls them.
            size: Height and width in which LIBERO draws; the default is that of its datasets.
        """
        for suite in suites:
            if suite not in LIMITS:
                raise ValueError(f"Unknown suite {suite!r}. Valid: {', '.join(LIMITS)}.")
        if not os.path.isdir(get_assets_path()):
            raise FileNotFoundError(
                "LIBERO's assets are missing: it loads lerobot/libero-assets from the hub when it first runs. Without "
                "the hub, copy what is in libero/libero/assets of LIBERO's repository to ~/.cache/libero/assets."
            )
        made = [benchmark.get_benchmark_dict()[suite]() for suite in suites]
        self._places = {task.name: (suite, i) for suite in made for i, task in enumerate(suite.tasks)}
        self.tasks = {
            name: {"instruction": suite.tasks[i].language, "max_steps": LIMITS[suite.name]}
            for name, (suite, i) in self._places.items()
        }
        self._cameras = dict(cameras or CAMERAS)
        self.cameras = tuple(self._cameras)
        self._task, self._size = "", size

    def begin(self, task: str, seed: int, level: str) -> None:
        """Take an initial state. The reset before it builds all anew, so nothing of earlier episodes is left."""
        if task != self._task:
            self._open(task)
        self._env.seed(seed % 2**32)
        self._env.reset()
        self._env.set_init_state(self._layouts[seed % len(self._layouts)])
        for _ in range(SETTLE):
            self.step(np.array(REST))

    def _open(self, task: str) -> None:
        if self._task:
            self._env.close()
        suite, number = self._places[task]
        self._layouts = suite.get_task_init_states(number)
        file = suite.get_task_bddl_file_path(number)
        self._env: Any = OffScreenRenderEnv(
            bddl_file_name=file,
            camera_names=list(self._cameras.values()),
            camera_heights=self._size,
            camera_widths=self._size,
        )
        self._task = task

    def step(self, action: np.ndarray) -> None:
        """Actions are from -1 to 1; the simulator cuts what is beyond."""
        self._seen = self._env.step(action)[0]

    def measure(self) -> np.ndarray:
        """Position, rotation vector, fingers."""
        hand, fingers = self._seen["robot0_eef_pos"], self._seen["robot0_gripper_qpos"]
        return np.concatenate([hand, _rotation_vector(self._seen["robot0_eef_quat"]), fingers])

    def success(self) -> bool:
        """As LIBERO judges."""
        return bool(self._env.check_success())

    def draw(self, camera: str, height: int, width: int) -> np.ndarray:
        """What a camera saw, turned by 180 degrees as in LIBERO's datasets."""
        return resized(self._seen[f"{self._cameras[camera]}_image"][::-1, ::-1], height, width)

    def picture(self) -> np.ndarray:
        """The first camera."""
        side = self._size // 2 * 2
        return self.draw(self.cameras[0], side, side)


def _rotation_vector(quaternion: np.ndarray) -> np.ndarray:
    """Axis times angle, from 0 to 2 pi, of a quaternion x, y, z, w."""
    cosine = np.clip(quaternion[3], -1, 1)
    sine = np.sqrt(1 - cosine**2)
    return quaternion[:3] * (2 * np.arccos(cosine) / sine) if sine > 1e-10 else np.zeros(3)

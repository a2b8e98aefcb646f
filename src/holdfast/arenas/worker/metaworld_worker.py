"""MetaWorld's fifty tasks: a layout for every seed, the package's own experts, and drawing without shadows.

Needs metaworld 3.0.0 with mujoco 3.3.0 or 3.8.1; with mujoco 4 it breaks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")

import metaworld  # type: ignore[import-not-found]
import mujoco
import numpy as np
from holdfast_worker import Simulator  # type: ignore[import-not-found]
from metaworld.policies import ENV_POLICY_MAP  # type: ignore[import-not-found]

INSTRUCTIONS = {
    "assembly": "Put the ring over the peg.",
    "basketball": "Throw the ball into the basket.",
    "bin-picking": "Move the block to the other bin.",
    "box-close": "Put the lid on the box.",
    "button-press": "Press the button on the wall.",
    "button-press-topdown": "Press the button from above.",
    "button-press-topdown-wall": "Press the button behind the wall from above.",
    "button-press-wall": "Reach around the wall and press the button.",
    "coffee-button": "Press the button of the coffee machine.",
    "coffee-pull": "Pull the mug away from the coffee machine.",
    "coffee-push": "Push the mug under the coffee machine.",
    "dial-turn": "Turn the dial.",
    "disassemble": "Take the ring off the peg.",
    "door-close": "Close the door.",
    "door-lock": "Lock the door.",
    "door-open": "Open the door.",
    "door-unlock": "Unlock the door.",
    "drawer-close": "Close the drawer.",
    "drawer-open": "Open the drawer.",
    "faucet-close": "Turn the faucet to close it.",
    "faucet-open": "Turn the faucet to open it.",
    "hammer": "Hammer the nail into the box.",
    "hand-insert": "Lower the block into the hole.",
    "handle-press": "Press the handle down.",
    "handle-press-side": "Press the handle down from the side.",
    "handle-pull": "Pull the handle up.",
    "handle-pull-side": "Pull the handle up from the side.",
    "lever-pull": "Pull the lever up.",
    "peg-insert-side": "Insert the peg into the hole.",
    "peg-unplug-side": "Pull the peg out of the hole.",
    "pick-out-of-hole": "Lift the block out of the hole.",
    "pick-place": "Put the block at the goal.",
    "pick-place-wall": "Lift the block over the wall to the goal.",
    "plate-slide": "Slide the plate into the cabinet.",
    "plate-slide-back": "Slide the plate back out of the cabinet.",
    "plate-slide-back-side": "Slide the plate back out of the cabinet, sideways.",
    "plate-slide-side": "Slide the plate into the cabinet, sideways.",
    "push": "Push the block to the goal.",
    "push-back": "Pull the block back to the goal.",
    "push-wall": "Push the block around the wall to the goal.",
    "reach": "Reach the goal.",
    "reach-wall": "Reach the goal behind the wall.",
    "shelf-place": "Put the block on the shelf.",
    "soccer": "Kick the ball into the goal.",
    "stick-pull": "Pull the thermos with the stick.",
    "stick-push": "Push the thermos with the stick.",
    "sweep": "Sweep the block off the table.",
    "sweep-into": "Sweep the block into the hole.",
    "window-close": "Close the window.",
    "window-open": "Open the window.",
}
CORNER = (0.75, 0.075, 0.7)  # where LeRobot puts the camera corner2, nearer to the table


class MetaWorld(Simulator):
    """One task at a time. The state is the hand's position and the opening of the gripper; actions move the hand."""

    tasks = {f"{name}-v3": text for name, text in INSTRUCTIONS.items()}  # noqa: RUF012
    state = ("x", "y", "z", "opening")
    action = ("dx", "dy", "dz", "grip")
    kinds = dict.fromkeys(("dx", "dy", "dz"), "delta")
    rate = 80
    max_steps = 500  # the package refuses further steps

    def __init__(self, cameras: Sequence[str] | Mapping[str, str] = ("corner2",)) -> None:
        """List the cameras, or name them: by name, the camera of MetaWorld."""
        self._cameras = dict(cameras) if isinstance(cameras, Mapping) else {name: name for name in cameras}
        self.cameras = tuple(self._cameras)
        self._task = ""
        self._renderers: dict[tuple[int, int], Any] = {}

    def begin(self, task: str, seed: int, level: str) -> None:
        """Draw a layout from the whole range of the task, not from MetaWorld's list of fifty."""
        if task != self._task:
            self._open(task)
        mujoco.mj_resetData(self._env.model, self._env.data)
        self._env.seed(seed)
        self._observation, _ = self._env.reset()
        self._success = False

    def _open(self, task: str) -> None:
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
        self._env, self._task = metaworld.ALL_V3_ENVIRONMENTS[task](), task
        self._env._set_task_called = True
        self._env._partially_observable = False  # experts need the goal
        del self._env.sawyer_observation_space  # a cache, by which the goal would still be cut away
        self._env._freeze_rand_vec, self._env.seeded_rand_vec = False, True
        model = self._env.model
        model.cam_pos[model.camera("corner2").id] = CORNER
        model.vis.quality.shadowsize = model.vis.quality.offsamples = 0
        model.light_castshadow[:] = 0

    def step(self, action: np.ndarray) -> None:
        """Actions are from -1 to 1; beyond that they are cut."""
        self._observation, _, _, _, info = self._env.step(np.clip(action, -1, 1).astype(np.float32))
        self._success = bool(info["success"])

    def measure(self) -> np.ndarray:
        """Hand and gripper."""
        return self._observation[:4]

    def success(self) -> bool:
        """As the package judges."""
        return self._success

    def draw(self, camera: str, height: int, width: int) -> np.ndarray:
        """A camera of the package; the corner cameras hang upside down there."""
        if (height, width) not in self._renderers:
            self._renderers[height, width] = mujoco.Renderer(self._env.model, height, width)
        renderer = self._renderers[height, width]
        name = self._cameras[camera]
        renderer.update_scene(self._env.data, name)
        image = renderer.render()
        return image[::-1, ::-1] if name.startswith("corner") else image

    def expert(self, seed: int | None) -> Iterator[np.ndarray]:
        """The package's scripted policy; it varies with the layout only."""
        policy = ENV_POLICY_MAP[self._task]()
        while not self._success:
            yield np.clip(policy.get_action(self._observation), -1, 1)

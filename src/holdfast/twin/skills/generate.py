"""Episodes of skills: the scene, the demonstrator and the images of one seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from holdfast.embodiments import piper_x_ik as ik
from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.cell import CAMERAS, CONTROL_HZ
from holdfast.twin.expert import Expert
from holdfast.twin.skills.both import Assist, Carry, LiftPair, PlacePair, PressPair
from holdfast.twin.skills.playground import Crowded, Playground, start_pose
from holdfast.twin.skills.push import Push
from holdfast.twin.skills.single import Lift, Place, Press, Reach, SetDown, Stack
from holdfast.twin.skills.skill import Skill
from holdfast.twin.world import HOME

SINGLE: dict[type[Skill], float] = {
    Reach: 0.10,
    Press: 0.16,
    Lift: 0.16,
    SetDown: 0.10,
    Place: 0.2,
    Stack: 0.13,
    Push: 0.15,
}
BOTH: dict[type[Skill], float] = {LiftPair: 0.25, PressPair: 0.10, Carry: 0.25, Assist: 0.2, PlacePair: 0.2}
ARMS = {("left",): 0.40, ("right",): 0.25, ("left", "right"): 0.35}
PERTURBED, NUDGED = 0.35, 0.25  # shares of episodes that start away from home, and in which a hand is pushed away
MOST_STEPS = 540
_NUDGE = 0.07  # rad, at its peak


@dataclass(frozen=True)
class Episode:
    """A demonstration: T states and actions, and the images of every n-th step, in the order of `CAMERAS`.

    Where a hand was pushed off its path, the actions are those of the demonstrator, so they lead back.
    """

    instruction: str
    skill: str
    arms: tuple[str, ...]
    states: np.ndarray
    actions: np.ndarray
    frames: np.ndarray


def demonstrate(seed: int, size: int, every: int) -> Episode | None:
    """Demonstrate the skill of a seed; None if the demonstration failed.

    Args:
        seed: Decides the scene, the words and the motions.
        size: Of the square images; 0 draws none.
        every: Control steps between two sets of images.
    """
    try:
        skill, start, rng = _scene(seed)
    except Crowded:
        return None
    world = skill.world
    expert = Expert(world, skill.scripts, seed)
    for side, (position, rotation) in start.items():
        driver = expert.drivers[side]
        driver.position, driver.rotation = position.copy(), rotation.copy()
    nudge = _nudge(rng, skill.arms)
    states: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    frames: list[list[np.ndarray]] = []
    while len(actions) < MOST_STEPS and (action := expert.act()) is not None:
        if size and len(actions) % every == 0:
            frames.append(list(world.render(CAMERAS, size, size).values()))
        states.append(world.state())
        world.step(action + nudge[len(actions)] if len(actions) < len(nudge) else action)
        actions.append(action)
    missed = any(driver.misses for driver in expert.drivers.values())
    if missed or len(actions) == MOST_STEPS or not skill.succeeded():
        return None
    return Episode(
        instruction=skill.instruction,
        skill=skill.name,
        arms=skill.arms,
        states=np.array(states, np.float32),
        actions=np.array(actions, np.float32),
        frames=np.array(frames, np.uint8),
    )


type Poses = dict[str, tuple[np.ndarray, np.ndarray]]


def _scene(seed: int) -> tuple[Skill, Poses, np.random.Generator]:
    """Draw arms, skill and scene, and where the hands begin."""
    playground = _playground()
    rng = np.random.default_rng([seed, len(SIDES) + 1])  # independent of the drivers' generators
    playground.clear(rng)
    arms = list(ARMS)[rng.choice(len(ARMS), p=list(ARMS.values()))]
    kinds = SINGLE if len(arms) == 1 else BOTH
    kind = list(kinds)[rng.choice(len(kinds), p=list(kinds.values()))]
    skill = kind(playground, arms, rng)
    poses = _poses(rng, arms) if rng.random() < PERTURBED else {}
    start = start_pose(poses, playground.world.home)
    if start is None:
        poses, start = {}, playground.world.home
    playground.begin(start)
    return skill, poses, rng


def _poses(rng: np.random.Generator, arms: tuple[str, ...]) -> Poses:
    """Hands within a hand's breadth of home, or anywhere over their side of the table, slightly rotated."""
    poses = {}
    for side in arms:
        if rng.random() < 0.5:
            position = HOME[side] + rng.uniform([-0.02, -0.10, -0.06], [0.12, 0.10, 0.06])
        else:
            outwards = 1 if HOME[side][1] > 0 else -1
            position = rng.uniform([0.16, 0.08, 0.13], [0.42, 0.36, 0.22]) * [1, outwards, 1]
        heading = ik.heading(side, position)
        poses[side] = (position, ik.down(heading * rng.uniform(0, 1) + rng.uniform(-0.5, 0.5)))
    return poses


def _nudge(rng: np.random.Generator, arms: tuple[str, ...]) -> np.ndarray:
    """Offsets of the first steps' joint targets: zero, or one smooth push of a moving arm."""
    begin, length = rng.integers(3, 20), rng.integers(12, 24)
    side = SIDES.index(str(rng.choice(arms)))
    push = rng.uniform(-_NUDGE, _NUDGE, 6)
    nudge = np.zeros((CONTROL_HZ * 2, 14))
    if rng.random() < NUDGED:
        profile = np.sin(np.pi * np.arange(length) / length) ** 2
        nudge[begin : begin + length, 7 * side : 7 * side + 6] = profile[:, None] * push
    return nudge


@cache
def _playground() -> Playground:
    return Playground()

"""Contact sheets: a few moments of an episode from all four cameras."""

from __future__ import annotations

import numpy as np

from holdfast.twin.env import CellEnv
from holdfast.twin.scripted import ScriptedPolicy, run

PASSES = 12  # renderings per image: softer shadows than in a film
ROWS = ("head", "front", "left_wrist", "right_wrist")  # the whole scene first, then the hands


def contact_sheet(
    env: CellEnv, policy: ScriptedPolicy, moments: int = 5, size: tuple[int, int] = (240, 320)
) -> np.ndarray:
    """One row per camera, one column per moment, from the first to the last control step.

    The environment must be freshly reset. The episode runs twice: its length, and so the moments to draw, is known only
    after the first run, and drawing is slow.
    """
    actions = run(env, policy)
    chosen = set(np.linspace(0, len(actions), moments).round().astype(int))
    env.reset(env.seed, env.level)
    columns = [_views(env, size)]
    for step, action in enumerate(actions, 1):
        env.step(action)
        if step in chosen:
            columns.append(_views(env, size))
    return np.hstack(columns)


def _views(env: CellEnv, size: tuple[int, int]) -> np.ndarray:
    return np.vstack(list(env.show(size, ROWS, PASSES).values()))

"""Contact sheets: a few moments of an episode as a visitor and all four cameras see them."""

from __future__ import annotations

import numpy as np

from holdfast.twin.env import CellEnv
from holdfast.twin.look import VISITOR
from holdfast.twin.portrait import STILL
from holdfast.twin.scripted import ScriptedPolicy, run

ROWS = (VISITOR, "head", "front", "left_wrist", "right_wrist")  # the whole scene first, then the hands


def contact_sheet(
    env: CellEnv, policy: ScriptedPolicy, moments: int = 5, size: tuple[int, int] = (240, 320)
) -> np.ndarray:
    """One row per view, one column per moment, from the first to the last control step.

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
    return np.vstack(list(env.show(size, ROWS, STILL).values()))

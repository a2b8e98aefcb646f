"""What the tests of the twin share: one compiled cell per task, and a way to play any script in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from holdfast.core.records import Reached
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import Drivers, Expert, Scripts
from holdfast.twin.scripted import run
from holdfast.twin.task import TwinTask

type Play = Callable[..., Reached]


@cache
def compiled(task: str) -> CellEnv:
    return CellEnv(task)


@pytest.fixture
def env_of() -> Callable[[str], CellEnv]:
    """`env_of(task)`: the task's environment, compiled once for all tests."""
    return compiled


@pytest.fixture
def play() -> Play:
    """`play(task, script, seed, level)`: what a script reached, a function of the task and its drivers."""

    def attempt(
        task: str, script: Callable[[TwinTask, Drivers], Scripts], seed: int = 0, level: str = "standard"
    ) -> Reached:
        env = compiled(task)
        env.reset(seed, level)
        run(env, Expert(env.world, lambda drivers: script(env.task, drivers)))
        return env.reached()

    return attempt


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "twin" in item.path.parts:
            item.add_marker(pytest.mark.sim)

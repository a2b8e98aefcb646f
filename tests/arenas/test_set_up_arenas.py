"""Simulators in their own environments. Each is skipped unless `holdfast arena setup` made it."""

import pytest

from holdfast import arenas, catalog
from holdfast.arenas.arena_file import set_up_arenas
from holdfast.arenas.contract import ArenaContract

pytestmark = [pytest.mark.slow, pytest.mark.sim]


class SetUp(ArenaContract):
    """The contract, for the arena `called`."""

    called: str

    @pytest.fixture(autouse=True, scope="class")
    def _arena(self):
        if self.called not in set_up_arenas():
            pytest.skip(f"{self.called} is not set up")
        type(self).arena = arenas.load(self.called)


class TestMetaWorld(SetUp):
    """Its expert fails where the goal is cut out of the observation, as it is until a task is set."""

    called, task = "metaworld", "push-wall-v3"

    def test_it_has_all_tasks_with_experts(self):
        assert (len(self.arena.tasks), self.arena.policies, self.arena.rate) == (50, ("expert",), 80)
        assert not set(self.arena.state) & set(self.arena.action), "increments: nothing is subtracted from them"


class TestPushT(SetUp):
    called, task = "pusht", "pusht"


class TestAloha(SetUp):
    called, task = "aloha", "transfer_cube"


class TestPushTOfLeRobot(SetUp):
    called, task = "lerobot-pusht", "pusht"


class TestAlohaOfLeRobot(SetUp):
    called, task = "lerobot-aloha", "transfer_cube"


class TestLibero(SetUp):
    called, task = "libero", "turn_on_the_stove"

    def test_its_tasks_are_those_of_the_streams(self):
        suites = [catalog.load_stream(f"libero_{suite}", "data") for suite in ("spatial", "object", "goal", "10")]
        known = {entry.task.name: entry.task.instruction for suite in suites for entry in suite.tasks}
        assert {name: task.instruction for name, task in self.arena.tasks.items()} == known

"""Simulators in their own environments. Each is skipped unless `holdfast arena setup` made it."""

import numpy as np
import pytest

from holdfast import arenas, catalog, embodiments
from holdfast.arenas.arena_file import set_up_arenas
from holdfast.arenas.contract import ArenaContract
from holdfast.arenas.scripted import score

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

    def test_its_tasks_are_those_of_the_stream(self):
        stream = catalog.load_stream("aloha", "data")
        assert tuple(self.arena.tasks) == stream.names
        for entry in stream.tasks:
            own = self.arena.tasks[entry.task.name]
            assert (own.instruction, own.milestones) == (entry.task.instruction, entry.task.milestones)
        assert self.arena.state == self.arena.action == embodiments.load(stream.embodiment).names

    @pytest.mark.parametrize("task", ["transfer_cube", "insert_peg"])
    def test_its_experts_score_fully_and_reach_every_milestone(self, task):
        tally = score("aloha", task, "expert", "", range(6), jitter=True)
        assert tally.full == 6
        assert set(tally.milestones.values()) == {6}
        for trial in tally.trials:
            times = [trial.times[milestone.name] for milestone in self.arena.tasks[task].milestones]
            assert 0 < times[0] <= times[1] < times[2] <= times[3], "in their order"

    @pytest.mark.parametrize("task", ["transfer_cube", "insert_peg"])
    def test_its_experts_keep_the_robots_limits(self, task):
        robot, environment = embodiments.load("aloha"), self.arena.open(task)
        lower, upper = robot.state_range()
        for seed in range(3):
            environment.reset(seed, "")
            expert = self.arena.policy("expert", environment, seed)
            actions = []
            while (action := expert.act()) is not None:
                actions.append(action)
            assert ((lower <= np.array(actions)) & (np.array(actions) <= upper)).all()
            assert (abs(np.diff(actions, axis=0)) <= [d.fastest for d in robot.dimensions]).all(), "a wrist turns over"
        environment.close()

    def test_targets_that_break_the_physics_end_the_episode(self):
        episode, rng = self.episode, np.random.default_rng(0)
        while not episode.over:
            episode.step(rng.choice([-3.0, 3.0], len(self.arena.action)))
        assert episode.steps < self.arena.max_steps(self.task)
        assert not episode.done
        assert self.played(self.episode)[0].state[1] == -0.96, "the next one begins as always"


class TestAlohaInsertion(SetUp):
    called, task = "aloha", "insert_peg"


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

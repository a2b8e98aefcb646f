"""Arms that a task does not use are held in trials as they are behind a server: by the robot of the run."""

import numpy as np
import pytest
from fake_arena import FakeArena, Point

from holdfast.arenas.learned import LearnedPolicy
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.core.records import Task, TrialProtocol
from holdfast.embodiments.embodiment import Dimension, Embodiment
from holdfast.evaluate.rollout import LocalLane, PolicyNeeds, TrialOrder

TASK = Task("touch", "Go to the mark.", ("left",))
ANSWER = np.array([[0.1, 0.2], [0.3, 0.4]])
executed: list[list[float]] = []


class Watched(Point):
    def reset(self, seed, level):
        super().reset(seed, level)
        self.at = np.array([-0.5, 0.5])
        executed.clear()

    def step(self, action):
        executed.append(np.asarray(action).tolist())
        super().step(action)


class TwoArms(FakeArena):
    """A coordinate for each arm. It knows no robot, like every simulator in a process of its own."""

    name = "arms"

    def open(self, task):
        return Watched(1)


class Renamed(TwoArms):
    action = "dx", "dy"


def robot(kind, names):
    return Embodiment(
        "two", tuple(Dimension(*pair, kind, -1, 1, 0.1) for pair in zip(names, ("left", "right"), strict=True))
    )


@pytest.mark.parametrize(
    ("arena", "kind", "held"),
    [
        (Renamed, "delta", [0, 0]),
        (Renamed, "velocity", [0, 0]),
        (Renamed, "binary", [0.2, 0.4]),
        (Renamed, "target", [0.2, 0.4]),  # what it measures is not known
        (TwoArms, "target", [0.5, 0.5]),
        (TwoArms, "delta", [0, 0]),
        (TwoArms, None, [0.2, 0.4]),
    ],
)
def test_the_idle_arm_is_held_by_the_kind_of_its_action(arena, kind, held):
    trained = kind and robot(kind, arena.action)
    order = TrialOrder(None, None, 1, TASK, 0, "", "w", "n", TrialProtocol(2), robot=trained)
    lane = LocalLane(f"test_idle_arms:{arena.__name__}")
    lane.begin(order, PolicyNeeds((8, 8), ("top",), 2))
    seen = lane.result()
    lane.go(ANSWER)
    assert executed == [[0.1, held[0]], [0.3, held[1]]]
    if trained:  # as serve/protocol.py holds them
        assert executed == trained.hold_idle(ANSWER, seen.state, arena.action, arena.state, TASK.arms).tolist()


def test_a_policy_that_is_watched_holds_them_too():
    class Pilot:
        size, cameras, answer_steps = (8, 8), ("top",), 2

        def answer(self, questions):
            return [ANSWER]

    episode = ScoredEpisode(Renamed(), TASK)
    episode.begin(0, "")
    assert LearnedPolicy(episode, Pilot(), robot=robot("delta", Renamed.action)).act().tolist() == [0.1, 0]

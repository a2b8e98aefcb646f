"""MetaWorld in its own environment. Skipped unless `holdfast arena setup metaworld` was run."""

import pytest

from holdfast import arenas
from holdfast.arenas.arena_file import set_up_arenas
from holdfast.arenas.contract import ArenaContract

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sim,
    pytest.mark.skipif("metaworld" not in set_up_arenas(), reason="MetaWorld is not set up"),
]


class TestMetaWorld(ArenaContract):
    """Its expert fails where the goal is cut out of the observation, as it is until a task is set."""

    task = "push-wall-v3"

    @pytest.fixture(autouse=True, scope="class")
    def _arena(self):
        type(self).arena = arenas.load("metaworld")


def test_it_has_all_tasks_with_experts():
    arena = arenas.load("metaworld")
    assert (len(arena.tasks), arena.policies, arena.rate) == (50, ("expert",), 80)
    assert not set(arena.state) & set(arena.action), "increments: nothing is subtracted from them"

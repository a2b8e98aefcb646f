"""What looks at watched episodes say, and what follows for the replay."""

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.data.loader import AHEAD
from holdfast.replay.buffer import Kept
from holdfast.replay.looks import Look, check_looks, eased, growth, is_watched, replayed, shares_by_need

LOOKS = [Look(0, {"a": 0.5, "b": 2.0}), Look(10, {"a": 1.0, "b": 1.0}), Look(20, {"a": 0.75, "b": 3.0})]


def test_the_first_episode_is_set_aside_unless_it_is_the_only_one():
    kept = Kept("a", "f", 9, (4, 2, 7))
    assert is_watched(kept)
    assert replayed(kept) == (2, 7)
    assert replayed(Kept("a", "f", 9, (4, 2, 7), copy="c")) == (1, 2)
    assert not is_watched(Kept("a", "f", 9, (4,)))
    assert replayed(Kept("a", "f", 9, (4,))) == (4,)


def test_growth_counts_from_the_stages_start_and_never_below_one():
    assert growth(LOOKS, 10 + AHEAD) == {"a": 2.0, "b": 1.0}
    assert growth(LOOKS, 1000) == {"a": 1.5, "b": 1.5}
    assert growth([], 5) == {}
    assert growth([Look(0, {"a": 0.0}), Look(1, {"a": 0.0})], 100) == {"a": 1.0}


def test_a_step_knows_only_what_was_known_when_its_batch_was_drawn():
    """A batch is drawn up to AHEAD steps before its step, but a resumed run draws it right then."""
    for step in range(40):
        for drawn_after in range(max(0, step - AHEAD + 1), step + 1):
            then = [look for look in LOOKS if look.step <= drawn_after]
            assert growth(then, step) == growth(LOOKS, step)
    assert growth(LOOKS, 0) == {"a": 1.0, "b": 1.0}


def test_a_loss_that_doubled_gets_twice_the_share():
    assert shares_by_need(["a", "b"], {"a": 2.0, "b": 1.0}).tolist() == [2 / 3, 1 / 3]
    assert shares_by_need(["a", "b"], {"a": 1.0, "b": 1.0}).tolist() == [0.5, 0.5]


def test_a_task_that_is_not_watched_gets_an_equal_share():
    assert np.allclose(shares_by_need(["a", "b", "c"], {"a": 3.0, "c": 1.0}), [1 / 2, 1 / 3, 1 / 6])
    assert shares_by_need(["a", "b"], {}).tolist() == [0.5, 0.5]


def test_replay_is_eased_in_with_the_worst_growth():
    grown = {"a": 1.0, "b": 1.05}
    assert eased(0.2, 0.1, ["a", "b"], grown) == pytest.approx(0.1)
    assert eased(0.2, 0.1, ["a", "b"], {"a": 1.0, "b": 1.0}) == 0
    assert eased(0.2, 0.1, ["a", "b"], {"a": 7.0, "b": 1.0}) == 0.2
    assert eased(0.2, 0.1, ["a", "b", "c"], grown) == eased(0.2, 0.1, ["a"], {}) == 0.2  # c is not watched


@pytest.mark.parametrize(
    "looks",
    [
        [LOOKS[1], LOOKS[0]],
        [LOOKS[0], LOOKS[0]],
        [Look(31, {"a": 1.0})],
        [Look(-1, {"a": 1.0})],
        [LOOKS[0], Look(5, {"a": 1.0})],
    ],
)
def test_looks_of_a_file_are_checked(looks):
    check_looks(LOOKS, 30, "it")
    check_looks([], 30, "it")
    with pytest.raises(HoldfastError, match="it must hold looks at the same tasks, at steps from 0 to 30 in order"):
        check_looks(looks, 30, "it")

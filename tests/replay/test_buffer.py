import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import candidates

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.replay.buffer import Buffer, quota
from holdfast.replay.selection import SELECTIONS, Selection

NAMES = ("stack_bowls", "hang_cup", "press_button", "fold_towel", "push_box")


def history(sizes, ratio=0.2, seed=42, names=NAMES):
    """The buffer after every stage of a stream whose tasks have `sizes` episodes."""
    found, buffer = [], Buffer(ratio)
    for name, size in zip(names, sizes, strict=False):
        buffer = buffer.after_stage(candidates(name, [30] * size, seed), f"print of {name}", "random")
        found.append(buffer)
    return found


def counts(buffer):
    return [len(kept.episodes) for kept in buffer.tasks]


@pytest.mark.parametrize(
    ("episodes", "wanted"), [(500, [100, 50, 33, 25, 20]), (300, [60, 30, 20, 15, 12]), (50, [10, 5, 3, 2, 2])]
)
def test_every_task_keeps_the_papers_number_of_episodes(episodes, wanted):
    for stage, buffer in enumerate(history([episodes] * 5), 1):
        assert counts(buffer) == [wanted[stage - 1]] * stage


def test_tasks_of_different_size_keep_their_own_share():
    sizes = [500, 300, 7, 100, 60]
    assert [counts(b) for b in history(sizes)] == [[100], [50, 30], [33, 20, 1], [25, 15, 1, 5], [20, 12, 1, 4, 2]]


def test_what_is_kept_later_is_part_of_what_was_kept_before_for_every_task():
    stages = history([500, 300, 200, 100, 500])
    for earlier, later in pairwise(stages):
        for kept in earlier.tasks:
            now = later.of(kept.task).episodes
            assert set(now) < set(kept.episodes)
            assert now == kept.episodes[: len(now)]


def test_kept_episodes_are_whole_different_and_of_the_task():
    for buffer in history([500, 300, 7, 100, 60]):
        for kept in buffer.tasks:
            assert len(set(kept.episodes)) == len(kept.episodes)
            assert set(kept.episodes) <= set(range(kept.total))
            assert all(type(e) is int for e in kept.episodes)


@pytest.mark.parametrize("size", [1, 2, 5, 24])
def test_at_least_one_episode_is_kept(size):
    assert counts(history([size] * 5)[-1]) == [1] * 5


@pytest.mark.parametrize(
    ("total", "ratio", "stages", "wanted"),
    [
        (500, 0.2, 1, 100),
        (500, 0.2, 3, 33),
        (500, 0.02, 5, 2),
        (500, 0.002, 1, 1),
        (500, 0.002, 5, 1),
        (500, 1, 1, 500),
        (100, 0.29, 1, 29),  # in floats 28.999999999999996, and so on
        (100, 0.58, 2, 29),
        (90, 0.7, 3, 21),
    ],
)
def test_quota_is_exact(total, ratio, stages, wanted):
    assert quota(total, ratio, stages) == wanted


@given(st.lists(st.integers(1, 300), min_size=1, max_size=8), st.integers(1, 1000))
@settings(max_examples=60, deadline=None)
def test_the_budget_is_never_exceeded_unless_one_episode_is_too_many(sizes, thousandths):
    ratio = thousandths / 1000
    for stage, buffer in enumerate(history(sizes, ratio, names="abcdefgh"), 1):
        shares = [Fraction(thousandths, 1000) * size / stage for size in sizes[:stage]]
        kept = counts(buffer)
        assert all(k <= share or (k == 1 and share < 1) for k, share in zip(kept, shares, strict=True))
        if min(shares) >= 1:
            assert sum(kept) <= Fraction(thousandths, 1000) * sum(sizes[:stage]) / stage


def test_the_picks_are_decided_by_seed_and_task_name_alone():
    first = history([500] * 5)[-1]
    assert history([500] * 5)[-1] == first
    assert history([500] * 5, seed=43)[-1].of("hang_cup").episodes != first.of("hang_cup").episodes
    other_order = history([500] * 5, names=NAMES[::-1])[-1]
    assert {k.task: k.episodes for k in other_order.tasks} == {k.task: k.episodes for k in first.tasks}


def test_different_tasks_get_different_picks():
    picks = [kept.episodes for kept in history([500] * 5)[-1].tasks]
    assert len(set(picks)) == 5


def test_the_picks_are_spread_over_the_dataset():
    kept = history([500])[0].tasks[0].episodes
    quarters = [sum(1 for e in kept if e // 125 == q) for q in range(4)]
    assert min(quarters) >= 12  # 25 expected each
    assert kept != tuple(sorted(kept))


def test_a_stage_that_is_repeated_finds_what_it_found_before():
    before = history([500, 500])[-1]
    again = [before.after_stage(candidates("push_box", [30] * 100, 42), "f", "random") for _ in range(2)]
    assert again[0] == again[1]
    assert counts(before) == [50, 50]


def test_what_is_kept_of_a_task_is_found_by_name():
    buffer = history([500, 300])[-1]
    kept = buffer.of("hang_cup")
    assert (kept.task, kept.fingerprint, kept.total) == ("hang_cup", "print of hang_cup", 300)
    with pytest.raises(HoldfastError, match="Did you mean 'hang_cup'"):
        buffer.of("hang_cups")


def test_json_round_trip():
    buffer = history([500, 300, 200])[-1]
    back = from_json(Buffer, json.loads(json.dumps(to_json(buffer))), "buffer.json")
    assert back == buffer
    grown = [b.after_stage(candidates("push_box", [30] * 100, 42), "f", "random") for b in (buffer, back)]
    assert grown[0] == grown[1]


def test_an_unknown_selection_is_refused():
    with pytest.raises(HoldfastError, match="Did you mean 'random'"):
        Buffer(0.2).after_stage(candidates("a", [1, 2], 0), "f", "ramdom")


@pytest.mark.parametrize("ranking", [(0, 1), (0, 1, 1), (0, 1, 2, 3), (1, 2, 3), ()])
def test_a_selection_that_does_not_rank_every_episode_once_is_refused(monkeypatch, ranking):
    monkeypatch.setitem(SELECTIONS, "mine", Selection(lambda candidates: ranking))
    with pytest.raises(HoldfastError, match="'mine' must rank every episode of 'a' once"):
        Buffer(0.2).after_stage(candidates("a", [5, 5, 5], 0), "f", "mine")


def test_another_selection_decides_what_is_kept_and_stays_nested(monkeypatch):
    longest = Selection(lambda found: tuple(int(e) for e in np.argsort(-found.lengths)))
    monkeypatch.setitem(SELECTIONS, "longest", longest)
    first = Buffer(0.5).after_stage(candidates("a", [3, 9, 1, 7], 0), "f", "longest")
    second = first.after_stage(candidates("b", [1, 2, 3, 4], 0), "f", "longest")
    assert first.of("a").episodes == (1, 3)
    assert (second.of("a").episodes, second.of("b").episodes) == ((1,), (3,))

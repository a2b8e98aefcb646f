import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json
from holdfast.embodiments import load
from holdfast.norm.stats import RunningStats, Stats
from holdfast.norm.strategies import (
    ACTION,
    STATE,
    STRATEGIES,
    Normalization,
    Space,
    calibrated_space,
    normalize,
    widen,
)

PAIR = load("piper_x_pair")
NAMED_PAIR, NAMED_X = ({STATE: names, ACTION: names} for names in (PAIR.names, ["x"]))


def stats_of(low, high):
    return Stats.from_range(np.atleast_1d(np.array(low, float)), np.atleast_1d(np.array(high, float)))


def space_of(low, high):
    return Space(stats_of(low, high), stats_of(2 * low, 2 * high))


FIRST, SECOND, THIRD, DECLARED = (space_of(-k, k + 1) for k in (1, 2, 3, 10))


def normalization(strategy, *spaces):
    known = Normalization(strategy, calibrated=DECLARED)
    for name, space in zip("abc", spaces, strict=False):
        known = known.with_task(name, space)
    return known


@pytest.mark.parametrize(
    ("strategy", "train", "test"),
    [
        ("per-task", (FIRST, SECOND, THIRD), (FIRST, SECOND, THIRD)),
        ("frozen-first", (FIRST,) * 3, (FIRST,) * 3),
        ("mixed", (FIRST, SECOND, THIRD), (FIRST,) * 3),
        ("calibrated", (DECLARED,) * 3, (DECLARED,) * 3),
    ],
)
def test_each_strategy_picks_its_space_for_training_and_testing(strategy, train, test):
    known = normalization(strategy, FIRST, SECOND, THIRD)
    assert tuple(known.train(t) for t in "abc") == train
    assert tuple(known.test(t) for t in "abc") == test


def test_there_are_four_strategies():
    assert list(STRATEGIES) == ["per-task", "frozen-first", "mixed", "calibrated"]


def test_frozen_first_never_changes_when_tasks_are_added():
    known, seen = normalization("frozen-first", FIRST), []
    for name, space in (("d", SECOND), ("0", THIRD), ("A", DECLARED)):
        known = known.with_task(name, space)
        seen += [known.train(name), known.test(name), known.train("a"), known.test("a")]
    assert seen == [FIRST] * 12


def test_adding_a_task_leaves_the_old_normalization_as_it_was():
    old = normalization("per-task", FIRST)
    old.with_task("b", SECOND)
    assert list(old.measured) == ["a"]


@pytest.mark.parametrize("strategy", ["per-task", "frozen-first", "mixed"])
def test_a_task_that_was_never_measured_is_named(strategy):
    with pytest.raises(HoldfastError, match="statistics 'z'"):
        Normalization(strategy).train("z")


def test_own_statistics_of_an_unknown_task_are_an_error_that_lists_the_known():
    with pytest.raises(HoldfastError, match=r"'z'.*a, b"):
        normalization("per-task", FIRST, SECOND).test("z")


def test_a_task_never_trained_is_executed_in_the_first_tasks_space():
    known = normalization("per-task", FIRST, SECOND)
    assert (known.execute("b"), known.execute("z")) == (SECOND, FIRST)


def test_calibrated_without_an_embodiment_says_what_to_do():
    with pytest.raises(HoldfastError, match=r"stream names none.*embodiment = .*--norm\.strategy=frozen-first"):
        Normalization("calibrated")


def test_an_unknown_strategy_is_refused():
    with pytest.raises(HoldfastError, match="Did you mean 'frozen-first'"):
        Normalization("frozen_first")


def test_calibrated_space_is_what_the_embodiment_declares():
    relative = np.array([True] * 7 + [False] * 7)
    space = calibrated_space(PAIR, relative, 10)
    for stats, (low, high) in ((space.state, PAIR.state_range()), (space.action, PAIR.action_range(relative, 10))):
        np.testing.assert_array_equal(stats.q01, low)
        np.testing.assert_array_equal(stats.q99, high)
    assert space.widened == ()


def test_state_and_action_are_told_apart():
    assert FIRST.of(STATE) is FIRST.state
    assert FIRST.of(ACTION) is FIRST.action
    assert FIRST.state != FIRST.action


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_json_round_trip_keeps_everything_and_the_order(strategy):
    known = normalization(strategy, FIRST, replace(SECOND, widened=("action:x",)), THIRD)
    back = Normalization.from_json(json.loads(json.dumps(known.to_json())))
    assert back == known
    assert list(back.measured) == list(known.measured)
    assert back.hash == known.hash == known.to_json()["hash"]


def test_an_absent_embodiment_survives_the_round_trip():
    known = Normalization("per-task").with_task("a", FIRST)
    assert Normalization.from_json(json.loads(json.dumps(known.to_json()))) == known


def leaves(value, path=()):
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, key))
    else:
        yield path


def changed(content, path):
    content = json.loads(json.dumps(content))
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    inner[path[-1]] = np.nextafter(old, 1e9) if isinstance(old, float) else old + 1 if isinstance(old, int) else "mixed"
    return content


CONTENT = json.loads(json.dumps(normalization("frozen-first", FIRST, SECOND).to_json()))


@pytest.mark.parametrize("path", [p for p in leaves(CONTENT) if p != ("hash",)], ids=lambda p: ".".join(map(str, p)))
def test_a_tampered_file_does_not_load_and_its_honest_twin_has_another_hash(path):
    tampered = changed(CONTENT, path)
    with pytest.raises(HoldfastError, match="do not match their hash"):
        Normalization.from_json(tampered)
    spaces = {task: from_json(Space, space, task) for task, space in tampered["measured"].items()}
    honest = Normalization(tampered["strategy"], spaces, from_json(Space, tampered["calibrated"], "calibrated"))
    assert honest.hash != CONTENT["hash"]


@pytest.mark.parametrize(
    "tamper",
    [
        lambda c: c.pop("hash"),
        lambda c: c.pop("measured"),
        lambda c: c["measured"].pop("b"),
        lambda c: c.update(hash="0" * 64),
        lambda c: c.update(calibrated=None),
        lambda c: c["measured"]["a"]["widened"].append("action:x"),
        lambda c: c.update(measured=dict(reversed(c["measured"].items()))),
    ],
    ids=["no hash", "no statistics", "task gone", "other hash", "embodiment gone", "widened", "order"],
)
def test_a_file_with_parts_missing_or_moved_does_not_load(tamper):
    content = json.loads(json.dumps(CONTENT))
    tamper(content)
    with pytest.raises(HoldfastError, match="do not match their hash"):
        Normalization.from_json(content)


def test_whose_statistics_are_the_first_is_part_of_the_hash():
    here = Normalization("frozen-first").with_task("a", FIRST).with_task("b", SECOND)
    there = Normalization("frozen-first").with_task("b", SECOND).with_task("a", FIRST)
    assert here.train("b") != there.train("b")
    assert here.hash != there.hash


share = st.floats(0, 1)


@given(
    st.floats(-100, 100), st.floats(1e-3, 1000), share, st.one_of(st.just(0.0), st.floats(1e-9, 1)), share,
)  # fmt: skip
@settings(deadline=None)
def test_with_floor_a_fifth_no_value_inside_the_declared_range_goes_beyond_ten(low, width, centre, narrow, value):
    high = low + width
    middle, value = low + centre * width, low + value * width
    half = narrow * width / 2
    measured = stats_of(middle - half, middle + half)
    assume(low <= middle <= high)
    declared = stats_of(low, high)
    space = widen(Space(measured, measured), Space(declared, declared), NAMED_X, 0.2)
    for feature in (STATE, ACTION):
        assert abs(normalize(np.array([value]), space.of(feature))[0]) <= 10 * (1 + 1e-6)


@given(share, share, st.floats(0.01, 1), st.floats(0, 1))
@settings(deadline=None)
def test_a_widened_range_keeps_its_centre_and_gets_the_floors_width(a, b, width, floor):
    low, high = sorted((a, b))
    declared = stats_of(0, width)
    space = widen(Space(stats_of(low, high), declared), Space(declared, declared), NAMED_X, floor)
    q01, q99 = space.state.q01[0], space.state.q99[0]
    if high - low < floor * width:
        assert q99 - q01 == pytest.approx(floor * width)
        assert (q01 + q99) / 2 == pytest.approx((low + high) / 2)
        assert space.widened == (f"{STATE}:x",)
    else:
        assert (q01, q99, space.widened) == (low, high, ())


def one_armed_task():
    """A first task in which the left arm moves through half of its range and the right one idles, up to noise."""
    rng = np.random.default_rng(3)
    low, high = PAIR.state_range()
    values = rng.uniform(low + (high - low) / 4, high - (high - low) / 4, size=(2000, 14))
    values[:, 7:] = (low + high)[7:] / 2 + rng.normal(0, 1e-6, size=(2000, 7))
    running = RunningStats()
    running.update(values)
    return Space(running.finish(), running.finish())


def test_an_idle_arm_takes_its_range_from_the_embodiment_and_a_moving_one_keeps_its_own():
    measured, declared = one_armed_task(), calibrated_space(PAIR, np.zeros(14, bool), 10)
    space = widen(measured, declared, NAMED_PAIR, 0.2)
    assert space.widened == tuple(f"{f}:{n}" for f in (STATE, ACTION) for n in PAIR.names[7:])
    low, high = PAIR.state_range()
    for stats in (space.state, space.action):
        assert stats.q01[:7] == measured.state.q01[:7]
        assert stats.q99[:7] == measured.state.q99[:7]
        np.testing.assert_allclose(np.subtract(stats.q99, stats.q01)[7:], 0.2 * (high - low)[7:])
        assert (stats.mean, stats.std, stats.min, stats.max, stats.count) == (
            measured.state.mean, measured.state.std, measured.state.min, measured.state.max, 2000,
        )  # fmt: skip
    assert np.abs(normalize(np.stack([low, high]), space.action)).max() <= 10


def test_with_the_rule_off_an_idle_arms_later_motion_becomes_huge():
    measured, declared = one_armed_task(), calibrated_space(PAIR, np.zeros(14, bool), 10)
    space = widen(measured, declared, NAMED_PAIR, 0.0)
    assert space == replace(measured, widened=())
    later = np.stack(PAIR.state_range())  # the right arm moves in the next task
    assert np.abs(normalize(later, space.action))[:, 7:].max(0).min() > 1e4
    assert np.abs(normalize(later, space.action))[:, :7].max() < 10


def test_state_and_action_are_widened_each_by_its_own_range():
    declared = Space(stats_of(0, 10), stats_of(-1, 1))
    measured = Space(stats_of(4, 5), stats_of(0, 1))
    space = widen(measured, declared, NAMED_X, 0.2)
    assert space.widened == (f"{STATE}:x",)
    assert (space.state.q01, space.state.q99) == ((3.5,), (5.5,))
    assert space.action == measured.action


def quantiles_of_lerobot(tensor, q01, q99, eps=1e-8):
    """LeRobot 0.6, NormalizerProcessorStep, mode QUANTILES."""
    denom = q99 - q01
    denom = np.where(denom == 0, eps, denom)
    return 2.0 * (tensor - q01) / denom - 1.0


def test_normalize_is_lerobots_formula_also_for_a_range_of_zero():
    rng = np.random.default_rng(0)
    low = np.array([-2.0, 0.5, 0.0, 3.0])
    high = np.array([1.0, 0.5, 1e-6, 3.5])
    values = rng.normal(size=(100, 4))
    np.testing.assert_array_equal(normalize(values, stats_of(low, high)), quantiles_of_lerobot(values, low, high))
    assert normalize(np.array([-2.0, 0.5, 0.0, 3.0]), stats_of(low, high)).tolist() == [-1] * 4
    assert normalize(np.array([1.0, 0.5, 1e-6, 3.5]), stats_of(low, high)).tolist() == [1, -1, 1, 1]
    assert normalize(np.array([0.0, 0.6, 0.0, 3.0]), stats_of(low, high))[1] == pytest.approx(2e7, rel=1e-6)


def test_normalize_does_not_clip_and_takes_any_leading_axes():
    stats = stats_of([-1, 0], [1, 2])
    values = np.array([[[5.0, 5.0]], [[-3.0, 1.0]]])
    np.testing.assert_array_equal(normalize(values, stats), [[[5, 4]], [[-3, 0]]])

from fractions import Fraction
from math import ceil, floor
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.replay.schedule import exact, is_replay, replay_rows, replay_steps, replayed_rows, shares, stage_steps

GROUPS = {"a": "single", "b": "single", "c": "single", "d": "bimanual", "e": "bimanual"}
TASKS = tuple(GROUPS)


def replayed(steps, frequency, coin="plain", seed=42, stage=2):
    return [step for step in range(steps) if is_replay(seed, stage, step, steps, frequency, coin)]


@pytest.mark.parametrize(
    ("frequency", "steps"), [(0.0, 4000), (0.05, 4210), (0.1, 4444), (0.2, 5000), (0.3, 5714), (0.5, 8000)]
)
def test_a_stage_of_4000_updates_grows_as_in_the_paper(frequency, steps):
    assert stage_steps(4000, frequency) == steps


def test_a_decimal_means_what_a_person_meant():
    assert exact(0.2) == Fraction(1, 5)
    assert exact(1e-05) == Fraction(1, 100_000)
    assert exact(0) == 0


@pytest.mark.parametrize(
    ("steps", "frequency", "wanted"),
    [
        (3, 0.7, 10),  # in floats 9.999999999999998, and so on
        (41, 0.18, 50),
        (14, 0.44, 25),
        (100, 0.99, 10_000),
        (1, 0.999, 1000),
    ],
)
def test_step_counts_are_exact_for_awkward_decimals(steps, frequency, wanted):
    assert stage_steps(steps, frequency) == wanted


@given(st.integers(1, 10_000), st.integers(0, 999))
@settings(deadline=None)
def test_the_new_task_keeps_its_updates_to_within_one(steps, thousandths):
    frequency = thousandths / 1000
    total = stage_steps(steps, frequency)
    rest = total * (1 - Fraction(thousandths, 1000))
    assert rest <= steps < rest + 1


def test_the_plain_coin_has_no_state():
    forwards = replayed(300, 0.2)
    backwards = [step for step in reversed(range(300)) if is_replay(42, 2, step, 300, 0.2)]
    assert forwards == backwards[::-1]
    assert forwards == [step for step in range(300) if is_replay(42, 2, step, 10**6, 0.2)]  # nor does the length matter


@pytest.mark.parametrize("frequency", [0.05, 0.2, 0.5])
def test_the_plain_coin_comes_up_near_its_frequency(frequency):
    steps = 4000
    spread = np.sqrt(steps * frequency * (1 - frequency))
    assert abs(len(replayed(steps, frequency)) - steps * frequency) < 4 * spread


def test_the_plain_coin_is_not_in_blocks():
    steps = np.array(replayed(4000, 0.2))
    gaps = np.diff(steps)
    assert len(set(gaps.tolist())) > 10
    assert gaps.max() < 80


@pytest.mark.parametrize("coin", ["plain", "stratified"])
def test_the_coin_differs_by_stage_and_seed(coin):
    base = replayed(500, 0.2, coin)
    assert replayed(500, 0.2, coin) == base
    assert replayed(500, 0.2, coin, stage=3) != base
    assert replayed(500, 0.2, coin, seed=43) != base


@pytest.mark.parametrize("coin", ["plain", "stratified", "released"])
def test_with_frequency_zero_nothing_is_replayed(coin):
    assert replayed(200, 0.0, coin) == []


@given(st.integers(1, 400), st.integers(0, 999), st.integers(0, 2**32), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_the_stratified_coin_gives_exactly_the_wanted_number_one_in_each_stratum(steps, thousandths, seed, stage):
    frequency = thousandths / 1000
    wanted = round(Fraction(thousandths, 1000) * steps)
    found = replayed(steps, frequency, "stratified", seed, stage)
    assert len(found) == wanted == replay_steps(steps, frequency)
    assert [step * wanted // steps for step in found] == list(range(wanted))


def test_the_stratified_coin_uses_every_place_of_a_stratum():
    places = {step % 5 for step in replayed(1000, 0.2, "stratified")}
    assert places == set(range(5))


def test_the_papers_stage_has_a_thousand_replay_steps():
    assert replay_steps(5000, 0.2) == 1000


def test_the_released_coin_is_the_papers_same_steps_in_every_stage_and_run():
    found = replayed(5000, 0.2, "released")
    assert len(found) == 1057  # of the released code, Random(step).random() < 0.2
    assert found[:5] == [step for step in range(100) if Random(step).random() < 0.2][:5]
    assert replayed(5000, 0.2, "released", seed=7, stage=5) == found


def test_an_unknown_coin_is_refused():
    with pytest.raises(HoldfastError, match="Did you mean 'stratified'"):
        is_replay(0, 1, 0, 10, 0.2, "stratifed")


def split(share, tasks=TASKS, frames=None, weights=None):
    weights = {"bimanual": 2.0, "single": 1.0} if weights is None else weights
    return shares(tasks, share, frames=frames or dict.fromkeys(tasks, 1), groups=GROUPS, weights=weights)


def test_equal_shares_are_equal_whatever_the_frames():
    frames = dict(zip(TASKS, (1, 1000, 10, 10, 10), strict=True))
    np.testing.assert_allclose(split("equal", frames=frames), [0.2] * 5)


def test_frame_shares_follow_what_is_kept():
    frames = dict(zip(TASKS, (10, 20, 30, 40, 100), strict=True))
    np.testing.assert_allclose(split("frames", frames=frames), [0.05, 0.1, 0.15, 0.2, 0.5])


def test_group_shares_give_two_parts_to_bimanual_and_one_to_single_arm_tasks():
    found = split("group")
    np.testing.assert_allclose(found, [1 / 9] * 3 + [1 / 3] * 2)
    assert found[3:].sum() == pytest.approx(2 * found[:3].sum())


def test_group_shares_do_not_depend_on_the_order_of_the_tasks():
    np.testing.assert_allclose(split("group", ("d", "a", "e", "b", "c")), [1 / 3, 1 / 9, 1 / 3, 1 / 9, 1 / 9])


@pytest.mark.parametrize(("tasks", "wanted"), [(("a", "b"), [0.5, 0.5]), (("d",), [1.0]), (("a", "d"), [1 / 3, 2 / 3])])
def test_an_absent_groups_weight_goes_to_the_others(tasks, wanted):
    np.testing.assert_allclose(split("group", tasks), wanted)


def test_a_group_without_a_weight_is_named_with_an_example():
    with pytest.raises(HoldfastError, match=r"group 'single'.*\['bimanual'\].*--replay\.weights="):
        split("group", weights={"bimanual": 2.0})


def test_weights_of_groups_are_not_needed_for_other_shares():
    assert split("equal", weights={}).sum() == pytest.approx(1)


@pytest.mark.parametrize("weights", [{"bimanual": 0.0, "single": 0.0}, {"bimanual": -1.0, "single": 0.5}])
def test_weights_that_sum_to_nothing_are_refused(weights):
    with pytest.raises(HoldfastError, match="must be positive"):
        split("group", weights=weights)


def test_an_unknown_share_is_refused():
    with pytest.raises(HoldfastError, match="Did you mean 'frames'"):
        split("frame")


def rows(steps, frequency, batch_size, mix="row", seed=42, stage=2):
    return [replayed_rows(seed, stage, step, steps, frequency, batch_size, mix, "plain") for step in range(steps)]


@settings(max_examples=200)
@given(st.integers(1, 400), st.integers(0, 99), st.integers(1, 130))
def test_with_row_mixing_every_batch_has_its_share_and_the_total_is_exact(steps, hundredths, batch_size):
    frequency = hundredths / 100
    found, share = rows(steps, frequency, batch_size), Fraction(hundredths, 100) * batch_size
    assert sum(found) == replay_rows(steps, frequency, batch_size) == round(share * steps)
    assert set(found) <= {floor(share), ceil(share)}


def test_row_mixing_spreads_the_odd_rows_over_the_stage():
    assert rows(10, 0.3, 8) == [2, 2, 3, 2, 3, 2, 2, 3, 2, 3]
    assert sum(rows(5000, 0.2, 128)) == 128_000
    assert rows(3, 0.0, 8) == [0, 0, 0]


def test_step_mixing_is_the_papers_whole_batch_by_the_coin():
    found = rows(500, 0.2, 16, mix="step")
    assert found == [16 * is_replay(42, 2, step, 500, 0.2) for step in range(500)]
    assert set(found) == {0, 16}


def test_an_unknown_mix_is_refused():
    with pytest.raises(HoldfastError, match="Unknown replay mix 'rows'"):
        rows(2, 0.5, 4, mix="rows")

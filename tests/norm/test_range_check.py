import json

import numpy as np
import pytest
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.embodiments import load
from holdfast.norm.range_check import DimensionRange, RangeCheck, RangeCounter, table
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import ACTION, STATE, Space

PAIR = load("piper_x_pair")


def stats_of(low, high, dimensions=2):
    return Stats.from_range(np.full(dimensions, float(low)), np.full(dimensions, float(high)))


def checked(space, blocks, names=("x", "y")):
    counter = RangeCounter(space, {STATE: names, ACTION: names})
    for feature, values in blocks:
        counter.update(feature, np.asarray(values))
    return counter.finish("stack_bowls")


def row(found, feature, name):
    return next(r for r in found.rows if (r.feature, r.name) == (feature, name))


SPACE = Space(stats_of(0, 2), stats_of(-1, 1), widened=(f"{ACTION}:y",))


def test_share_outside_and_largest_are_counted_over_all_blocks():
    blocks = [
        (STATE, [[1, 1], [3, 1], [1, 1], [1, 1]]),  # x: 3 is normalized to 2
        (ACTION, [[0, 0], [0, -5]]),
        (STATE, [[-2, 0], [1, 2], [1, 1], [1, 1]]),  # x: -2 to -3; y stays on the edge
        (ACTION, [[1.5, 0.5]]),
    ]
    found = checked(SPACE, blocks)
    assert [(r.feature, r.name) for r in found.rows] == [(f, n) for f in (STATE, ACTION) for n in ("x", "y")]
    assert [r.outside for r in found.rows] == [2 / 8, 0, 1 / 3, 1 / 3]
    assert [r.largest for r in found.rows] == [3, 1, 1.5, 5]
    assert [(r.low, r.high) for r in found.rows] == [(0, 2), (0, 2), (-1, 1), (-1, 1)]
    assert [r.widened for r in found.rows] == [False, False, False, True]


def test_values_on_the_edge_are_inside_even_in_float32():
    low, high = np.float32(-0.1), np.float32(0.7)
    space = Space(stats_of(low, high), stats_of(-0.1, 0.7))
    values = np.array([[low, high], [high, low]], np.float32)
    found = checked(space, [(STATE, values), (ACTION, values)])
    assert [r.outside for r in found.rows] == [0] * 4
    assert all(r.largest == pytest.approx(1, abs=1e-6) for r in found.rows)


def test_a_value_just_beyond_the_edge_is_outside():
    found = checked(SPACE, [(ACTION, [[1.001, 1.0], [0.0, 0.0]])])
    assert row(found, ACTION, "x").outside == 0.5
    assert row(found, ACTION, "y").outside == 0


def test_a_feature_that_was_never_seen_counts_as_nothing():
    found = checked(SPACE, [(ACTION, [[0.0, 0.0]])])
    assert row(found, STATE, "x").outside == row(found, STATE, "x").largest == 0


def check_of(*largest):
    rows = (DimensionRange(ACTION, "abcdef"[i], -0.25, 0.5, 0.1, value, False) for i, value in enumerate(largest))
    return RangeCheck("pack_bag", tuple(rows))


def test_check_is_silent_up_to_the_limit():
    found = check_of(1.0, 9.9, 10.0)
    found.check(10, [], "mixed")
    assert found.beyond(10, []) == ()


def test_check_names_dimension_value_range_and_the_ways_out():
    with pytest.raises(HoldfastError) as caught:
        check_of(3.0, 12.0, 123456.0, 11.0).check(10, [], "frozen-first")
    message = str(caught.value)
    for part in (
        "'pack_bag'",
        "action dimension 'c' and 2 more",
        "1.235e+05 (limit 10)",
        "'frozen-first'",
        "[-0.25, 0.5]",
        "--norm.floor=0.2",
        "--norm.strategy=calibrated",
        "--norm.allow='[c]'",
    ):
        assert part in message


def test_a_dimension_is_allowed_by_name_and_the_others_are_not():
    found = check_of(3.0, 12.0, 50.0)
    found.check(10, ["b", "c"], "mixed")
    assert [r.name for r in found.beyond(10, ["c"])] == ["b"]
    with pytest.raises(HoldfastError, match=r"dimension 'b' would be normalized to 12 "):
        found.check(10, ["c"], "mixed")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_a_number_does_not_slip_through(value):
    found = checked(SPACE, [(ACTION, [[0.0, 0.0], [value, 0.0], [0.5, 0.5]])])
    with pytest.raises(HoldfastError, match="action dimension 'x' would be normalized"):
        found.check(10, [], "mixed")


def test_json_holds_every_row():
    content = json.loads(json.dumps(to_json(check_of(3.0, 12.0))))
    assert content["task"] == "pack_bag"
    assert [(r["name"], r["largest"], r["outside"]) for r in content["rows"]] == [("a", 3.0, 0.1), ("b", 12.0, 0.1)]


def rendered(found, **options):
    console = Console(width=80, **options)
    with console.capture() as caught:
        console.print(table(found, limit=10.0))
    return caught.get().splitlines()


@pytest.mark.parametrize("unit", [1.0, 60.0], ids=["radians", "degrees"])
@pytest.mark.parametrize("size", [1.0, 45.0, 1e3, 1e5, 3e8])
def test_the_table_shows_all_dimensions_in_eighty_columns_untruncated(size, unit):
    low, high = (unit * np.array(limits) for limits in PAIR.state_range())
    stats = Stats.from_range(low, high)
    space = Space(stats, stats, tuple(f"{f}:{n}" for f in (STATE, ACTION) for n in PAIR.names))
    values = (low + high) / 2 + (high - low) / 2 * size
    lines = rendered(checked(space, [(STATE, [values]), (ACTION, [values])], PAIR.names))
    assert not [line for line in lines if "…" in line or len(line) > 80]
    rows = [line.split() for line in lines if ".pos" in line]
    assert [cells[0] for cells in rows] == list(PAIR.names)
    share = "100.0%" if size > 1 else "0.0%"
    assert all(cells[2] == cells[5] == share and float(cells[3]) == pytest.approx(size, rel=0.1) for cells in rows)


def test_the_table_shows_ranges_shares_and_largest_values():
    found = checked(SPACE, [(STATE, [[1.0, 3.0]]), (ACTION, [[0.5, -12.0], [0.0, 0.0]])])
    cells = [line.split() for line in rendered(found)]
    assert ["x", "+0.00..+2.00", "0.0%", "0.00", "-1.00..+1.00", "0.0%", "0.50"] in cells
    assert ["y", "+0.00..+2.00", "100.0%", "2.00", "-1.00..+1.00*", "50.0%", "12.0"] in cells


def test_dimensions_beyond_the_limit_are_red():
    lines = rendered(check_of(3.0, 12.0), force_terminal=True, color_system="standard", no_color=False)
    assert ["\x1b[31m" in line for line in lines if "-0.25" in line] == [False, True]

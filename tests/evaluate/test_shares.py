"""How orders are dealt to processes: whole handfuls, and nobody idle at the end."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import catalog
from holdfast.evaluate.rollout import TrialOrder
from holdfast.evaluate.workers import SHARE, _shares

ORDER = TrialOrder(Path("run"), Path("1"), 1, catalog.task("stack_bowls"), 0, "standard", "", "", "")


@pytest.mark.parametrize(
    ("trials", "slots", "last"),
    [
        (2 * SHARE + 4, 2, [2, 2]),
        (SHARE + 5, 3, [2, 2, 1]),
        (2, 4, [1, 1]),
        (SHARE, 2, [SHARE // 2] * 2),
        (3 * SHARE, 2, [SHARE // 2] * 2),
    ],
)
def test_every_order_once_and_the_rest_for_all(trials, slots, last):
    orders = [replace(ORDER, seed=seed) for seed in range(trials)]
    shares = list(_shares(iter(orders), slots))
    assert sorted(order.seed for share in shares for order in share) == list(range(trials))
    assert [len(share) for share in shares] == [SHARE] * ((trials - 1) // SHARE) + last


def test_a_share_is_of_one_checkpoint_and_only_the_very_last_is_split():
    orders = [replace(ORDER, checkpoint=Path(name), seed=seed) for name in "12" for seed in range(SHARE + 4)]
    shares = list(_shares(iter(orders), 2))
    assert [{order.checkpoint.name for order in share} for share in shares] == [{"1"}, {"1"}, {"2"}, {"2"}, {"2"}]
    assert [len(share) for share in shares] == [SHARE, 4, SHARE, 2, 2]


def test_orders_are_drawn_only_when_a_share_is_due():
    drawn = []
    shares = _shares((drawn.append(seed) or replace(ORDER, seed=seed) for seed in range(3 * SHARE)), 2)
    next(shares)
    assert len(drawn) == SHARE + 1

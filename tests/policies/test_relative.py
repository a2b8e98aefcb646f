"""Relative actions are fitted to a dataset before a policy is built for it."""

from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.data.lesson import Pairing
from holdfast.policies.relative import relative_dimensions, settle_relative

NAMES = ("x", "gripper", "speed")


def config(ours=True, **values):
    fields = {"type": "pi0", "use_relative_actions": True, "relative_exclude_joints": ["gripper"], **values}
    return SimpleNamespace(**fields, **({"relative_to": None} if ours else {}))


def pairing(*places, states=4):
    return Pairing(np.array(places), ("joint",) * len(places), states)


def settle(chosen, pairs, asked=False):
    said = []
    settle_relative(chosen, NAMES, pairs, asked, said.append)
    return said


@pytest.mark.parametrize("ours", [True, False])
def test_dimensions_in_their_places_need_nothing(ours):
    chosen = config(ours)
    assert settle(chosen, pairing(0, 1, 2)) == []
    assert getattr(chosen, "relative_to", None) is None
    assert relative_dimensions(chosen, NAMES).tolist() == [True, False, True]


def test_an_excluded_dimension_need_not_be_paired():
    chosen = config(ours=False)
    assert settle(chosen, pairing(0, -1, 2)) == []


@pytest.mark.parametrize(
    ("pairs", "mask"), [(pairing(3, 1, 0), [True, False, True]), (pairing(0, -1, 1, states=2), [True, False, True])]
)
def test_our_policies_find_states_elsewhere(pairs, mask):
    chosen = config()
    assert settle(chosen, pairs) == []
    assert chosen.relative_to == pairs.places.tolist()
    assert relative_dimensions(chosen, NAMES).tolist() == mask


def test_what_stays_absolute_is_named():
    chosen = config()
    assert settle(chosen, pairing(0, 1, -1)) == [
        "Actions that are no targets or have no state dimension of the same name stay as they are: speed."
    ]
    assert relative_dimensions(chosen, NAMES).tolist() == [True, False, False]


def test_a_saved_policys_pairing_is_made_anew():
    chosen = config()
    chosen.relative_to = [-1, -1, -1]
    settle(chosen, pairing(0, 1, 2))
    assert chosen.relative_to is None


def test_a_policy_of_lerobot_goes_by_position_or_is_refused():
    with pytest.raises(HoldfastError, match=r"'pi0' subtracts .* by position.*differ in speed.*actions=false"):
        settle(config(ours=False), pairing(0, 1, -1))
    with pytest.raises(HoldfastError, match="differ in order"):
        settle(config(ours=False), pairing(2, 1, 0))


def test_nothing_paired_switches_them_off_unless_they_were_asked_for():
    chosen = config(ours=False)
    assert settle(chosen, pairing(-1, 1, -1))[0].startswith("Relative actions are off")
    assert chosen.use_relative_actions is False
    with pytest.raises(HoldfastError, match=r"none for x, speed. Set --policy.use_relative_actions=false"):
        settle(config(), pairing(-1, 1, -1), asked=True)
    assert settle(config(use_relative_actions=False), pairing(-1, -1, -1), asked=True) == []

"""What happened in an attempt, in words."""

from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.commands.attempt_text import _DID, attempt_text
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.limits import Limits, Workspace
from holdfast.robots.loop import WAITED, Outcome


def said(limited, slow=0):
    trial = SimpleNamespace(score=62.5, valid=True, seconds=12.34)
    outcome = Outcome("over", "", 400, limited, slow)
    return attempt_text(2, 3, SimpleNamespace(trial=trial, outcome=outcome, folder=None))


def test_an_attempt_without_interference_is_one_line():
    assert said({}) == "attempt 2 of 3: score 62 of 100, 12.3 s."


def test_counters_are_words():
    text = said({WAITED: 87, "speed": 1}, slow=3)
    assert "waited 87 steps for an answer, moved slower than wanted in 1 step" in text
    assert "3 steps of 400 took longer than a control period" in text


@pytest.mark.parametrize("wanted", [np.nan, 100.0, -100.0])
def test_every_reason_of_the_limits_has_its_words(wanted):
    limits = Limits(EMBODIMENTS["piper_x_pair"], Workspace())
    measured = np.clip(np.zeros(len(limits.embodiment.names)), *limits.embodiment.state_range())
    command = limits.start(measured)
    for _ in range(30):
        command = limits.step(command, measured, np.full(len(measured), wanted))
        assert set(command.reasons) <= set(_DID)
        assert command.reasons

"""Several people, several consoles, and events sent again: everybody keeps what was acknowledged."""

import sqlite3

import pytest
from scoring_runs import make_run, tell, trials

from holdfast.console.assignments import RefusedError
from holdfast.console.view import sheet_view
from holdfast.core.errors import HoldfastError

TASKS = ("stack_bowls",)


def tick(assignments, operator, attempt, name):
    return tell(assignments, operator, attempt, "milestone", {"name": name, "on": True})


def test_a_verdict_sent_again_gets_the_trial_that_failed(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    assignments = open_runs(folder)
    attempt = assignments.next("Ann", "video")
    tick(assignments, "Ann", attempt, "reached")
    with sqlite3.connect(folder / "trials.sqlite") as file:
        file.execute("CREATE TRIGGER full BEFORE INSERT ON trials BEGIN SELECT RAISE(ABORT, 'disk full'); END")
        file.commit()
        with pytest.raises(HoldfastError, match="disk full"):
            tell(assignments, "Ann", attempt, "submit", key="a" * 32)
        file.execute("DROP TRIGGER full")
        file.commit()
    for _ in range(2):
        assert tell(assignments, "Ann", attempt, "submit", key="a" * 32).state == "submitted"
    assert [trial.score for trial in trials(folder)] == [25.0]


def test_a_key_stands_for_one_event_only(tmp_path, open_runs):
    assignments = open_runs(make_run(tmp_path / "er", 2, tasks=TASKS))
    attempt, other = assignments.next("Ann", "video"), assignments.next("Bob", "video")
    tell(assignments, "Ann", attempt, "note", "slow", key="a" * 32)
    for operator, where, kind, value in (
        ("Ann", attempt, "note", "fast"),
        ("Ann", attempt, "invalid", "slow"),
        ("Ann", attempt, "submit", None),
        ("Ann", other, "note", "slow"),
        ("Bob", attempt, "note", "slow"),
    ):
        with pytest.raises(RefusedError) as caught:
            tell(assignments, operator, where, kind, value, key="a" * 32)
        assert caught.value.status == 409
    assert tell(assignments, "Ann", attempt, "note", "slow", key="a" * 32).said("note", "") == "slow"


def test_what_was_saved_at_one_console_cannot_be_changed_at_another(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    one, other = open_runs(folder), open_runs(folder)
    attempt = one.next("Ann", "video")
    tick(one, "Ann", attempt, "reached")
    assert other.next("Ann", "video").ticket == attempt.ticket
    tell(one, "Ann", attempt, "submit")
    for kind, value in (("milestone", {"name": "lifted", "on": True}), ("undo", None), ("submit", None)):
        with pytest.raises(RefusedError, match="already saved"):
            tell(other, "Ann", attempt, kind, value)
    tell(other, "Ann", attempt, "withdraw")
    with pytest.raises(RefusedError, match="not saved"):
        tell(one, "Ann", attempt, "withdraw")
    tell(one, "Ann", attempt, "submit")
    assert sheet_view(attempt, other.sheet(attempt.ticket, "Ann"))["score"] == trials(folder)[0].score == 25.0

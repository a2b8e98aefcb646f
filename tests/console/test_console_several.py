"""Several people, several consoles, and events sent again: everybody keeps what was acknowledged."""

import sqlite3

import pytest
from scoring_runs import make_run, score, tell, trials

from holdfast.console.assignments import RESERVED, RefusedError
from holdfast.console.view import progress_view, sheet_view
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.runs.trials import Trials

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
        with pytest.raises(HoldfastError, match="full"):
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


def test_a_repeated_attempt_stays_when_the_invalid_one_is_taken_back(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", tasks=TASKS)
    assignments = open_runs(folder, target=1)
    first = score(assignments, "Ann", "robot", invalid="cable loose")
    again = assignments.next("Bob", "robot")
    assert (again.ticket != first.ticket, again.layout) == (True, 1)
    tick(assignments, "Bob", again, "reached")
    tell(assignments, "Ann", first, "withdraw")
    assignments.next("Ann", "video")  # she leaves it
    assert assignments.next("Bob", "robot").ticket == again.ticket
    tick(assignments, "Bob", again, "lifted")
    tell(assignments, "Bob", again, "submit")
    assert [(t.operator, t.score) for t in trials(folder) if t.valid] == [("Bob", 50.0)]
    assert assignments.next("Ann", "robot") is None, "one trial is wanted, and Bob's is there"


def test_a_repeated_attempt_keeps_its_layout(tmp_path, open_runs):
    assignments = open_runs(make_run(tmp_path / "er", tasks=TASKS), target=2)
    invalid = {
        attempt.layout: attempt for attempt in (score(assignments, "Ann", "robot", invalid="x") for _ in range(2))
    }
    again = {attempt.layout: attempt for attempt in (assignments.next(name, "robot") for name in ("Bob", "Cy"))}
    assert sorted(again) == [1, 2]
    tell(assignments, "Ann", invalid[1], "withdraw")
    assignments.refresh()
    assert {layout: assignments.find(attempt.ticket).layout for layout, attempt in again.items()} == {1: 1, 2: 2}


def test_a_slot_that_is_no_longer_needed_still_takes_its_ticks(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", tasks=TASKS)
    assignments = open_runs(folder, target=1)
    attempt = assignments.next("Ann", "robot")
    assignments.next("Ann", "video")  # released
    with Trials(folder / "trials.sqlite") as file:
        file.add(Trial("stack_bowls", 1, (), source="operator", operator="Bob", score=0.0, when=5.0))
    assert assignments.next("Cy", "robot") is None
    tick(assignments, "Ann", attempt, "reached")
    assert tell(assignments, "Ann", attempt, "submit").stands


def test_a_video_whose_trial_was_taken_back_is_offered_to_its_second_rater(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    assignments = open_runs(folder)
    attempt = score(assignments, "Ann")
    score(assignments, "Bob", reached=("reached", "lifted"))
    tell(assignments, "Ann", attempt, "withdraw")
    assignments.next("Ann", "robot")  # she leaves it
    progress = progress_view(assignments, "Bob")["ways"]["video"]
    assert (progress["done"], progress["total"]) == (0, 1)
    assert assignments.next("Bob", "video").ticket == attempt.ticket
    tell(assignments, "Bob", attempt, "submit")
    assert [(t.operator, t.score) for t in trials(folder) if t.valid] == [("Bob", 50.0)]
    assert assignments.next("Bob", "video") is None


@pytest.mark.parametrize(("change", "free"), [(-86400, True), (RESERVED + 1, True), (-5, False), (5, False)])
def test_a_clock_that_is_set_back_frees_an_attempt(tmp_path, open_runs, clock, change, free):
    assignments = open_runs(make_run(tmp_path / "er", 1, tasks=TASKS))
    attempt = assignments.next("Ann", "video")
    clock.now += change
    found = assignments.next("Bob", "video")
    assert found == (attempt if free else None)

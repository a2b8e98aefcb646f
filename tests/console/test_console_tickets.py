"""Tickets: nobody can compute one, and sheets of files without a secret are found by new ones."""

import hashlib
import json
import sqlite3

import pytest
from scoring_runs import make_run, score, tell, trials

from holdfast.console.assignments import Assignments
from holdfast.core.errors import HoldfastError
from holdfast.runs.run import read_run

TASKS = ("stack_bowls",)


def guessed(folder, *parts):
    """A ticket as one computes it who knows the run and guesses the attempt."""
    text = json.dumps([read_run(folder).seed, folder.name, *parts])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def guesses(folder):
    return {guessed(folder, "robot", "stack_bowls", 1, 0), guessed(folder, "video", "rollouts/0000/video.mp4")}


def make_first_form(folder):
    """A file as it was before there were secrets."""
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        file.execute("DROP TABLE secret")
        file.execute("PRAGMA user_version = 1")


def test_a_ticket_cannot_be_computed(tmp_path, open_runs):
    folders = [make_run(tmp_path / name / "er", 1, tasks=TASKS) for name in ("a", "b")]
    one, other = ({attempt.ticket for attempt in open_runs(folder, target=2).attempts} for folder in folders)
    assert len(one) == len(other) == 2
    assert not one & other, "equal runs have different secrets"
    assert not (one | other) & guesses(folders[0])
    assert {attempt.ticket for attempt in open_runs(folders[0], target=2).attempts} == one, "a restart keeps them"
    with sqlite3.connect(folders[0] / "scoring.sqlite") as file:
        for statement in ("UPDATE secret SET value = ''", "DELETE FROM secret"):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                file.execute(statement)


def test_sheets_of_the_first_form_are_found_by_tickets_that_cannot_be_computed(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    open_runs(folder).close()
    make_first_form(folder)
    ticket = guessed(folder, "video", "rollouts/0000/video.mp4")
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        row = ("a" * 32, ticket, "Ada", "milestone", '{"name": "reached", "on": true}', 1.8e9)
        file.execute('INSERT INTO events (key, ticket, operator, kind, value, "when") VALUES (?, ?, ?, ?, ?, ?)', row)
    before = open_runs(folder, target=2)
    assert not {attempt.ticket for attempt in before.attempts} & guesses(folder)
    attempt = score(before, "Ada", reached=("lifted",))
    assert [trial.score for trial in trials(folder)] == [50.0], "what was ticked before counts"
    after = open_runs(folder, target=2)
    assert {attempt.ticket for attempt in after.attempts} == {attempt.ticket for attempt in before.attempts}
    tell(after, "Ada", attempt, "withdraw")
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        tickets = [row[0] for row in file.execute("SELECT ticket FROM events ORDER BY id")]
    assert tickets[0] == ticket, "no row is changed"
    assert set(tickets[1:]) == {attempt.ticket}


def test_a_file_of_the_first_form_without_sheets_gets_a_secret(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    open_runs(folder).close()
    make_first_form(folder)
    tickets = [{attempt.ticket for attempt in open_runs(folder, target=2).attempts} for _ in range(2)]
    assert tickets[0] == tickets[1]
    assert not tickets[0] & guesses(folder)


@pytest.mark.parametrize(
    "values",
    [[""], ["x"], [b"1"], ["0" * 64 + " "], ["0" * 64 + " -1"], [], ["0" * 64, "1" * 64], ["0" * 64] * 2],
)
def test_a_damaged_secret_is_an_error(tmp_path, open_runs, values):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    open_runs(folder).close()
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        file.execute("DROP TABLE secret")
        file.execute("CREATE TABLE secret (value TEXT NOT NULL)")
        file.executemany("INSERT INTO secret VALUES (?)", [(value,) for value in values])
    with pytest.raises(HoldfastError, match="damaged: it needs one secret"):
        Assignments([read_run(folder)], 0)

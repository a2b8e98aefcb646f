"""Files that others wrote or damaged: the console starts, names what it cannot use, and loses nothing."""

import json
import os
import re
import shutil
import sqlite3
import uuid

import pytest
import yaml
from scoring_runs import add_rollout, make_run, promptly, score, tell, trials

from holdfast.console.assignments import Assignments
from holdfast.console.view import attempt_view, progress_view
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

TASKS = ("stack_bowls",)


def count(folder):
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        return file.execute("SELECT count(*) FROM events").fetchone()[0]


def add_row(folder, ticket="", operator="Ada", kind="note", value='"x"', when=1.8e9):
    """An event that no check has seen, as an older version or another program may have left it."""
    row = (uuid.uuid4().hex, ticket, operator, kind, value, when)
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        file.execute('INSERT INTO events (key, ticket, operator, kind, value, "when") VALUES (?, ?, ?, ?, ?, ?)', row)


def judgement(**changes):
    """The value of a submission."""
    trial = {"task": "stack_bowls", "stage": 1, "milestones": [], "score": 0.0}
    return json.dumps({"trial": trial | changes, "counts": True})


@pytest.mark.parametrize(
    "row",
    [
        {"value": r'"x \ud83d"'},
        {"value": "no json"},
        {"value": "[" * 100_000},
        {"value": "1" * 5000},
        {"value": b"\xff"},
        {"value": 5},
        {"value": '"' + "x" * 3000 + '"'},
        {"kind": "fly"},
        {"kind": b"note"},
        {"kind": "milestone", "value": "{}"},
        {"kind": "milestone", "value": '{"name": "reached", "on": 1}'},
        {"kind": "milestone", "value": '{"name": "flown", "on": true}'},
        {"kind": "penalty", "value": '{"name": "flown", "count": 1}'},
        {"kind": "final", "value": "0"},
        {"kind": "clock", "value": "Infinity"},
        {"kind": "undo", "value": "1"},
        {"kind": "submit", "value": "null"},
        {"kind": "submit", "value": '{"trial": [], "counts": true}'},
        {"kind": "submit", "value": '{"trial": {}, "counts": true}'},
        {"kind": "submit", "value": judgement(notes="x \ud83d")},
        {"kind": "submit", "value": judgement(seed=10**22)},
        {"kind": "submit", "value": judgement(seconds=float("inf"))},
        {"kind": "submit", "value": judgement(more=1)},
        {"kind": "withdraw", "value": judgement(score="x")},
        {"operator": "x" * 5000},
        {"operator": b"\xff\xfe"},
        {"operator": "\x1b[2J"},
        {"ticket": ""},
        {"when": 1e300},
        {"when": -1.0},
        {"when": "soon"},
    ],
)
def test_a_start_survives_any_row(tmp_path, open_runs, capsys, row):
    """The row is named and set aside; all others count, and the attempt can still be scored."""
    folder = make_run(tmp_path / "er", 2, tasks=TASKS)
    assignments = open_runs(folder)
    score(assignments, "Ada")
    attempt = assignments.next("Ada", "video")
    tell(assignments, "Ada", attempt, "milestone", {"name": "reached", "on": True})
    tell(assignments, "Ada", attempt, "milestone", {"name": "lifted", "on": True})
    before = count(folder)
    add_row(folder, **{"ticket": attempt.ticket, **row})
    later = open_runs(folder)
    assert f"scoring.sqlite: row {before + 1} is set aside" in capsys.readouterr().err
    assert later.next("Ada", "video").ticket == attempt.ticket
    assert attempt_view(later, attempt, "Ada")["sheet"]["score"] == 50.0
    assert progress_view(later, "Ada")["mine"] == 1
    tell(later, "Ada", attempt, "submit")
    assert [trial.score for trial in trials(folder)] == [25.0, 50.0]
    assert count(folder) == before + 2, "the row is still there"


def test_a_row_with_the_largest_number_hides_no_later_ones(tmp_path, open_runs, capsys):
    """After it SQLite gives random numbers: events would be acknowledged and not be seen."""
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    attempt = open_runs(folder).next("Ada", "video")
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        row = (2**63 - 1, uuid.uuid4().hex, attempt.ticket, "Ada", "note", '"x"', 1.8e9)
        file.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    before = count(folder)
    for reached in ("reached", "lifted"):
        tell(open_runs(folder), "Ada", attempt, "milestone", {"name": reached, "on": True})
    tell(open_runs(folder), "Ada", attempt, "submit")
    assert f"row {2**63 - 1} is set aside" in capsys.readouterr().err
    assert [trial.score for trial in trials(folder)] == [50.0]
    assert count(folder) == before + 3


def test_two_requests_cannot_end_scoring_for_ever(tmp_path, open_runs, capsys):
    """As an older version stored them: a note with half of an emoji, and the sheet with that note."""
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    attempt = open_runs(folder).next("Ada", "video")
    add_row(folder, attempt.ticket, value=r'"x \ud83d"')
    saved = judgement(notes="x \ud83d", operator="Ada", source="operator")
    add_row(folder, attempt.ticket, kind="submit", value=saved)
    for _ in range(2):
        later = open_runs(folder)
        assert later.next("Ada", "video").ticket == attempt.ticket
    said = capsys.readouterr().err
    assert "row 2 is set aside and stays in the file. Its value cannot be read: it is not well-formed Unicode" in said
    assert "row 3 is set aside" in said
    tell(later, "Ada", attempt, "submit")
    assert len(trials(folder)) == 1


def test_a_verdict_that_cannot_be_written_does_not_stop_the_others(tmp_path, open_runs, capsys):
    folder = make_run(tmp_path / "er", 2, tasks=TASKS)
    add_row(folder, open_runs(folder).next("Ada", "video").ticket, kind="submit", value=judgement(task="fly"))
    later = open_runs(folder)
    assert "the trial of 'Ada' was not written. Unknown task 'fly' of the run" in capsys.readouterr().err
    score(later, "Bob")
    assert [trial.operator for trial in trials(folder)] == ["Bob"]


def test_a_bad_row_of_trials_stops_nothing(tmp_path, open_runs, capsys):
    folder = make_run(tmp_path / "er", 2, tasks=TASKS)
    score(open_runs(folder), "Ada")
    with Trials(folder / "trials.sqlite") as file:
        columns = [row["name"] for row in file.file.execute("PRAGMA table_info(trials)")]
        changed = {"id": "9", "milestones": "'[['", "when": '"when" + 1'}
        values = ", ".join(changed.get(name, f'"{name}"') for name in columns)
        file.file.execute(f"INSERT INTO trials SELECT {values} FROM trials WHERE id = 1")
    score(open_runs(folder), "Ada")
    assert "trials.sqlite: row 9 is set aside" in capsys.readouterr().err
    assert len(trials(folder)) == 2


@pytest.mark.parametrize("video", ["x" * 300 + ".mp4", "../../../etc/passwd.mp4", "videos"])
def test_a_trial_with_an_odd_video_is_left_out(tmp_path, open_runs, video):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    with Trials(folder / "trials.sqlite") as file:
        file.add(Trial("stack_bowls", 1, (), source="twin", seed=1, score=0.0, video=video))
    assert len(open_runs(folder).attempts) == 1


def record(**content):
    return json.dumps({"task": "stack_bowls", "stage": 1} | content)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "Infinity",
        "",
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        record(stage=float("inf")),
        record(stage=float("nan")),
        record(stage=10**400),
        record(task=["stack_bowls"]),
        record(task={}).replace("{}", "[" * 900 + "]" * 900),
        record(seconds=float("inf")),
        record(seconds=-1),
        record(when=float("nan")),
        record(when={}),
        record(policy="\ud800"),
        record(normalization="\0"),
        record(protocol="horizon eight"),
        record(protocol={"horizon": -1, "ahead": 0, "limits": True}),
        record(milestones=[], source="\ud800"),
    ],
)
def test_a_bad_rollout_is_left_out(tmp_path, open_runs, text):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    (add_rollout(folder, 7, "stack_bowls", 1) / "rollout.json").write_text(text)
    assignments = open_runs(folder)
    assert len(assignments.attempts) == 1
    score(assignments, "Ada")
    assert len(trials(folder)) == 1


@pytest.mark.parametrize(
    ("content", "protocol"),
    [
        ({"valid": 1, "slow": 3.0, "episode": "0012", "limited": {"speed": 2.0}, "why": None}, ""),
        ({"protocol": "horizon 8"}, "horizon 8"),
        ({"protocol": {"horizon": 8, "ahead": 4, "limits": True}}, "rolled out, horizon 8, asked 4 ahead"),
        ({"source": [], "operator": 5, "stopped_after": "never", "more": {}}, ""),
        ({"notes": "horizon 8"}, "horizon 8"),
    ],
)
def test_an_attempt_counts_whatever_else_its_record_says(tmp_path, open_runs, capsys, content, protocol):
    folder = make_run(tmp_path / "er", tasks=TASKS)
    add_rollout(folder, 0, "stack_bowls", 1, **content)
    (attempt,) = open_runs(folder).attempts
    assert str(attempt.protocol or "") == protocol
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"stage": "1"}, "stage: .*got '1'"),
        ({"task": None}, "task is missing"),
        ({"when": -1.0}, "when"),
        ({"valid": "yes"}, "Its valid must be true or false, got 'yes'"),
        ({"milestones": [], "source": 5}, "source"),
        ({"protocol": "horizon eight"}, "protocol must be like 'horizon 8' .*'horizon eight'"),
        ({"protocol": {"horizon": "8"}}, "Its protocol cannot be used: horizon"),
        ({"protocol": [8]}, "protocol must be like"),
    ],
)
def test_a_record_that_cannot_be_used_is_named_once(tmp_path, open_runs, capsys, content, said):
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    file = add_rollout(folder, 7, "stack_bowls", 1) / "rollout.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | content))
    for _ in range(2):
        assert len(open_runs(folder).attempts) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(rf"0007/rollout.json cannot be used, .*{said}", line)


def test_a_rollout_that_says_little_is_offered(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", tasks=TASKS)
    (add_rollout(folder, 7, "stack_bowls", 1) / "rollout.json").write_text(record(seconds=None, more=[]))
    score(open_runs(folder), "Ada")
    assert len(trials(folder)) == 1


def test_a_rollout_that_is_no_file_is_left_out(tmp_path, open_runs):
    """A pipe would stop the start until somebody writes into it."""
    folder = make_run(tmp_path / "er", 1, tasks=TASKS)
    (tmp_path / "outside.json").write_text(record())
    for number in (7, 8, 9):
        (add_rollout(folder, number, "stack_bowls", 1) / "rollout.json").unlink()
    os.mkfifo(folder / "rollouts" / "0007" / "rollout.json")
    (folder / "rollouts" / "0008" / "rollout.json").symlink_to(tmp_path / "outside.json")
    (folder / "rollouts" / "0009" / "rollout.json").mkdir()
    with promptly():
        assert len(open_runs(folder).attempts) == 1


def test_a_task_without_a_rubric_is_not_shown(tmp_path, open_runs):
    """It has not been learned yet, but it may have been tried and filmed."""
    folder = make_run(tmp_path / "er", 1, tasks=("stack_bowls", "press_button"))
    settings = yaml.safe_load((folder / "run.yaml").read_text())
    settings["tasks"][1]["milestones"] = []
    (folder / "run.yaml").write_text(yaml.safe_dump(settings))
    shutil.rmtree(next((folder / "stages").glob("02-*")))
    (folder / "videos").mkdir()
    shutil.copy(folder / "rollouts" / "0000" / "video.mp4", folder / "videos" / "x.mp4")
    with Trials(folder / "trials.sqlite") as file:
        file.add(Trial("press_button", 1, (), source="twin", seed=1, score=0.0, video="videos/x.mp4"))
    assignments = open_runs(folder)
    for _ in range(2):
        progress_view(assignments, "Ada")
        attempt = assignments.next("Ada", "video")
        if attempt:
            attempt_view(assignments, attempt, "Ada")
            tell(assignments, "Ada", attempt, "submit")
    assert [trial.task for trial in trials(folder) if trial.source == "operator"] == ["stack_bowls"]


def test_a_run_whose_name_is_no_text_is_refused(tmp_path):
    """No trial could be written for it, however long people score."""
    folder = make_run(tmp_path / "er", 1, tasks=TASKS).rename(tmp_path / "er\udcff")
    with pytest.raises(HoldfastError, match=r"'er.udcff' is not UTF-8.*Rename"):
        Assignments([read_run(folder)], 0)

"""Assignments: who gets what, what a finished sheet becomes, and that nothing is lost, doubled or changed."""

import json
import sqlite3

import pytest
from scoring_runs import add_rollout, make_run, score, tell, trials

from holdfast.console.assignments import RESERVED, RefusedError
from holdfast.console.view import pairs, progress_view
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial, TrialProtocol
from holdfast.runs.sources import matrix_of
from holdfast.runs.trials import Trials


def rows(folder):
    with sqlite3.connect(folder / "trials.sqlite") as file:
        return file.execute("SELECT count(*) FROM trials").fetchone()[0]


def test_a_sheet_becomes_an_ordinary_trial(tmp_path, open_runs):
    folder = make_run(tmp_path / "er")
    add_rollout(folder, 3, "stack_bowls", 2)
    assignments = open_runs(folder)
    attempt = assignments.next("Ada", "video")
    for name, at in (("lifted", 2.5), ("reached", 1.25)):
        tell(assignments, "Ada", attempt, "milestone", {"name": name, "on": True, "at": at})
    tell(assignments, "Ada", attempt, "penalty", {"name": "green_bowl_knocked", "count": 1})
    tell(assignments, "Ada", attempt, "note", "slow")
    tell(assignments, "Ada", attempt, "submit")
    (trial,) = trials(folder)
    assert trial == Trial(
        task="stack_bowls", stage=2, milestones=("reached", "lifted"), penalties={"green_bowl_knocked": 1},
        source="operator", notes="slow", run="er", operator="Ada", times={"lifted": 2.5, "reached": 1.25}, seconds=12.0,
        score=37.5, video="rollouts/0003/video.mp4", weights="weights2", normalization="space", when=trial.when,
    )  # fmt: skip
    assert assignments.next("Ada", "video") is None


def test_a_milestone_given_without_the_one_before_counts(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1, tasks=("stack_bowls",))
    score(open_runs(folder), "Ada", reached=("reached", "stacked"))
    assert [(t.milestones, t.score) for t in trials(folder)] == [(("reached", "stacked"), 50.0)]


def test_the_order_is_random_over_checkpoints_and_kept_by_a_restart(tmp_path, open_runs):
    folders = [make_run(tmp_path / name, 9) for name in ("er", "sequential")]
    first = [score(open_runs(*folders), "Ada") for _ in range(10)]
    again = open_runs(*reversed(folders))
    order = sorted(attempt.ticket for attempt in again.attempts)
    assert [attempt.ticket for attempt in first] == order[:10]
    assert score(again, "Ada").ticket == order[10]
    shown = [(attempt.run.path.name, attempt.stage) for attempt in first]
    assert shown != sorted(shown)
    assert len(set(shown)) > 2


def test_on_the_robot_a_layout_is_tried_with_all_checkpoints_before_the_next(tmp_path, open_runs):
    folders = [make_run(tmp_path / name) for name in ("er", "sequential")]
    assignments = open_runs(*folders, target=2)
    order = [score(assignments, "Ada", "robot") for _ in range(12)]
    assert assignments.next("Ada", "robot") is None
    assert [(a.task.name, a.layout) for a in order[:8]] == [("stack_bowls", 1)] * 4 + [("stack_bowls", 2)] * 4
    assert all(len({(a.run.path.name, a.stage) for a in order[n : n + 4]}) == 4 for n in (0, 4))
    assert len(trials(folders[0])) == len(trials(folders[1])) == 6


def test_two_operators_never_get_the_same_trial(tmp_path, open_runs, clock):
    folder = make_run(tmp_path / "er", 4)
    opened = [open_runs(folder), open_runs(folder)]  # two servers, even
    given = [opened[n % 2].next(f"operator {n}", "video").ticket for n in range(4)]
    assert len(set(given)) == 4
    assert opened[0].next("late", "video") is None
    assert opened[0].next("operator 0", "video").ticket == given[0]
    clock.now += RESERVED + 1
    assert opened[0].next("late", "video").ticket in given


def test_a_restart_shows_exactly_the_state(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 3)
    assignments = open_runs(folder)
    attempt = assignments.next("Ada", "video")
    first = attempt.task.milestones[0].name
    tell(assignments, "Ada", attempt, "milestone", {"name": first, "on": True})
    tell(assignments, "Ada", attempt, "note", "look")
    tell(assignments, "Ada", attempt, "undo")
    later = open_runs(folder)
    assert later.next("Ada", "video").ticket == attempt.ticket
    sheet = later.sheet(attempt.ticket, "Ada")
    assert (sheet.milestones, sheet.said("note", "")) == ((first,), "")
    assert sheet == assignments.sheet(attempt.ticket, "Ada")


def test_an_event_sent_twice_counts_once(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1)
    assignments = open_runs(folder)
    attempt = assignments.next("Ada", "video")
    for _ in range(2):
        tell(assignments, "Ada", attempt, "milestone", {"name": "reached", "on": True}, key="a" * 32)
        tell(assignments, "Ada", attempt, "undo", key="b" * 32)
    for _ in range(3):
        tell(assignments, "Ada", attempt, "submit", key="c" * 32)
    assert rows(folder) == 1
    assert trials(folder)[0].score == 0


def test_a_kill_between_verdict_and_trial_loses_and_doubles_nothing(tmp_path, open_runs, monkeypatch):
    folder = make_run(tmp_path / "er", 1)
    assignments = open_runs(folder)
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.console.assignments._settle", lambda *_: None)
        score(assignments, "Ada")
    assert rows(folder) == 0
    open_runs(folder)
    open_runs(folder)
    assert [trial.score for trial in trials(folder)] == [25.0]
    assert rows(folder) == 1


def test_taking_a_saved_trial_back_leaves_a_trace(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1)
    assignments = open_runs(folder)
    attempt = score(assignments, "Ada")
    with pytest.raises(RefusedError, match="already saved"):
        tell(assignments, "Ada", attempt, "note", "too late")
    tell(assignments, "Ada", attempt, "withdraw")
    assert [(t.valid, t.score) for t in trials(folder)] == [(False, None)]
    assert assignments.next("Ada", "video").ticket == attempt.ticket
    tell(assignments, "Ada", attempt, "milestone", {"name": "lifted", "on": True})
    tell(assignments, "Ada", attempt, "submit")
    assert [(t.valid, t.score) for t in trials(folder)] == [(True, 50.0)]
    assert rows(folder) == 3
    with Trials(folder / "trials.sqlite") as file:
        assert len(matrix_of(("stack_bowls", "press_button"), file.counted()).cells[1, 1]) == 1


def test_no_event_can_be_changed_or_deleted(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1)
    score(open_runs(folder), "Ada")
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        for statement in ("UPDATE events SET value = 'null'", "DELETE FROM events"):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                file.execute(statement)


def test_an_invalid_attempt_never_counts_and_is_tried_again_on_the_robot(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", tasks=("stack_bowls",))
    assignments = open_runs(folder, target=2)
    score(assignments, "Ada", "robot", invalid="cable loose")
    (trial,) = trials(folder)
    assert (trial.valid, trial.score, trial.notes) == (False, None, "invalid: cable loose")
    assert sorted(score(assignments, "Ada", "robot").layout for _ in range(2)) == [1, 2]
    assert assignments.next("Ada", "robot") is None


def test_a_second_opinion_is_a_rating_and_not_a_trial(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 2, tasks=("stack_bowls",))
    assignments = open_runs(folder)
    for _ in range(2):
        score(assignments, "Ada", reached=("reached", "lifted"))
    for _ in range(2):
        score(assignments, "Bob", reached=("reached",))
    assert assignments.next("Eve", "video") is None  # two opinions are enough
    assert [(t.operator, t.score) for t in trials(folder)] == [("Ada", 50.0)] * 2
    (pair,) = pairs(assignments)
    assert (pair.raters, pair.videos, pair.overall.count) == (("Ada", "Bob"), 2, 8)
    assert progress_view(assignments, "Bob")["ways"]["video"]["twice"] == 2


def test_people_rate_videos_of_the_twin_without_a_second_trial(tmp_path, open_runs):
    from report.synthetic import write_video

    folder = make_run(tmp_path / "er", evaluated=True, trials=2, video=write_video)
    before = trials(folder)
    assignments = open_runs(folder)
    for _ in range(3):
        score(assignments, "Ada")
    assert assignments.next("Ada", "video") is None
    assert trials(folder) == before
    (pair,) = pairs(assignments)
    assert (pair.raters, pair.videos) == (("Ada", "automatic scorer"), 3)


def test_a_rollout_scored_as_it_happened_is_not_offered_again(tmp_path, open_runs, clock):
    folder = make_run(tmp_path / "er", tasks=("stack_bowls",))
    assignments = open_runs(folder, target=1)
    attempt = assignments.next("Ada", "robot")
    wanted = json.loads((folder / "next.json").read_text())["attempts"]
    assert [(w["task"], w["stage"], w["operator"]) for w in wanted] == [("stack_bowls", 1, "Ada")]
    add_rollout(folder, 0, "stack_bowls", 1, when=clock.now + 1)
    clock.now += 20
    tell(assignments, "Ada", attempt, "submit")
    assert trials(folder)[0].video == "rollouts/0000/video.mp4"
    assert json.loads((folder / "next.json").read_text()) == {"attempts": []}
    assert assignments.next("Ada", "video") is None
    assert assignments.next("Bob", "video").judged  # for a second opinion only


MADE = TrialProtocol(8, ahead=4, limits=True)


@pytest.mark.parametrize(
    ("said", "protocol"),
    [
        ({"protocol": {"horizon": 8, "ahead": 4, "limits": True}}, MADE),
        ({"notes": "rolled out, horizon 8, asked 4 ahead"}, MADE),  # as rollout.json was written at first
        ({"notes": "a note"}, None),
        ({}, None),
    ],
)
def test_people_score_an_attempt_and_its_protocol_stays(tmp_path, open_runs, clock, said, protocol):
    folder = make_run(tmp_path / "er", tasks=("stack_bowls",))
    assignments = open_runs(folder, target=2)
    live = assignments.next("Ada", "robot")
    add_rollout(folder, 0, "stack_bowls", 1, when=clock.now, **said)
    tell(assignments, "Ada", live, "note", "horizon 3")
    tell(assignments, "Ada", live, "submit")
    add_rollout(folder, 1, "stack_bowls", 1, when=clock.now + 100, **said)
    score(assignments, "Ada", note="horizon 3")
    assert [(trial.video[9:13], trial.protocol, trial.notes) for trial in trials(folder)] == [
        ("0000", protocol, "horizon 3"),
        ("0001", protocol, "horizon 3"),
    ]
    tell(assignments, "Ada", live, "withdraw")
    assert [trial.protocol for trial in trials(folder)] == [protocol] * 2


def test_an_attempt_of_a_simulator_is_never_a_trial_of_people(tmp_path, open_runs, clock):
    """It is filmed in the same run, even while somebody watches a robot; people may rate it."""
    folder = make_run(tmp_path / "er", tasks=("stack_bowls",))
    assignments = open_runs(folder, target=1)
    live = assignments.next("Ada", "robot")
    made = {"source": "twin", "milestones": ["reached"], "protocol": {"horizon": 8, "ahead": 4, "limits": True}}
    add_rollout(folder, 0, "stack_bowls", 1, when=clock.now, **made)
    add_rollout(folder, 1, "stack_bowls", 1, when=clock.now + 1000, **made)
    tell(assignments, "Ada", live, "submit")
    (own,) = trials(folder)
    assert (own.source, own.video, own.protocol) == ("operator", "", None)
    assert assignments.next("Ada", "video") is None, "their trials are lost"
    with Trials(folder / "trials.sqlite") as file:
        video = "rollouts/0000/video.mp4"
        twin = Trial("stack_bowls", 1, ("reached",), source="twin", seed=1, score=25.0, video=video, protocol=MADE)
        file.add(twin)
    rated = score(open_runs(folder), "Ada", reached=())
    assert rated.judged.source == "twin"
    assert [(trial.source, trial.score) for trial in trials(folder)] == [("operator", 0.0), ("twin", 25.0)]


def test_a_rollout_written_after_its_score_is_not_a_second_trial(tmp_path, open_runs, clock):
    folder = make_run(tmp_path / "er", tasks=("stack_bowls",))
    assignments = open_runs(folder, target=1)
    began = clock.now + 1
    score(assignments, "Ada", "robot")
    add_rollout(folder, 0, "stack_bowls", 1, when=began - 0.999)
    assert assignments.next("Ada", "video") is None
    add_rollout(folder, 1, "stack_bowls", 1, when=began + 1000)
    assert assignments.next("Ada", "video").video == "rollouts/0001/video.mp4"


def test_waiting_videos_and_other_trials_are_no_longer_asked_of_the_robot(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 2, tasks=("stack_bowls",))
    with Trials(folder / "trials.sqlite") as file:
        file.add(Trial("stack_bowls", 1, (), source="operator", operator="Bob", score=0.0, when=5.0))
    assignments = open_runs(folder, target=4)
    assert sum(attempt.way == "robot" for attempt in assignments.attempts) == 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("milestone", {"name": "flown", "on": True}),
        ("milestone", {"name": "reached", "on": 1}),
        ("milestone", {"name": "reached", "on": True, "at": float("nan")}),
        ("milestone", "reached"),
        ("penalty", {"name": "green_bowl_knocked", "count": 2}),
        ("penalty", {"name": "green_bowl_knocked", "count": -1}),
        ("final", "yes"),
        ("note", 3),
        ("note", "x" * 2001),
        ("note", "x \ud83d"),
        ("note", "x\0"),
        ("invalid", ["x"]),
        ("milestone", {"name": "reached\ud83d", "on": True}),
        ("milestone", {"name": "reached", "on": True, "more": "x" * 5000}),
        ("penalty", {"name": "green_bowl_knocked", "count": 10**30}),
        ("penalty", {"name": "green_bowl_knocked", "count": True}),
        ("penalty", {"name": "green_bowl_knocked", "count": 1.0}),
        ("clock", -1),
        ("clock", float("inf")),
        ("clock", True),
        ("open", None),
        ("release", None),
        ("undo", "x" * 100),
        ("submit", {"trial": {"task": "stack_bowls"}, "counts": True}),
        ("withdraw", 0),
        ("\ud83d", None),
    ],
)
def test_marks_that_the_rubric_does_not_know_are_refused(tmp_path, open_runs, kind, value):
    assignments = open_runs(make_run(tmp_path / "er", 1))
    attempt = assignments.next("Ada", "video")
    with pytest.raises(RefusedError):
        tell(assignments, "Ada", attempt, kind, value)
    assert not assignments.sheet(attempt.ticket, "Ada").marks
    with sqlite3.connect(tmp_path / "er" / "scoring.sqlite") as file:
        assert file.execute("SELECT kind FROM events").fetchall() == [("open",)]


def test_half_written_and_foreign_rollouts_are_left_alone(tmp_path, open_runs):
    folder = make_run(tmp_path / "er", 1)
    (add_rollout(folder, 7, "stack_bowls", 1) / "rollout.json").write_text('{"task": "stack')
    (add_rollout(folder, 8, "stack_bowls", 1) / "video.mp4").unlink()
    add_rollout(folder, 9, "stack_bowls", 1, valid=False, why="server gone")
    add_rollout(folder, 10, "fly", 1)
    add_rollout(folder, 11, "stack_bowls", 9)
    assert len(open_runs(folder).attempts) == 1


def test_runs_of_one_name_are_refused(tmp_path, open_runs):
    with pytest.raises(HoldfastError, match="Two runs are called 'er'"):
        open_runs(make_run(tmp_path / "a" / "er"), make_run(tmp_path / "b" / "er"))

"""Trials as CSV: out and in again without a change, and nothing half imported."""

from dataclasses import replace

import pytest
from scoring_runs import make_run

from holdfast.cli import main
from holdfast.console.exchange import export, read
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

ADA = Trial(
    task="stack_bowls", stage=2, milestones=("reached", "lifted"), penalties={"green_bowl_knocked": 1}, final=True,
    source="operator", notes='slow, "odd"\nand long; a=b', operator="Ada", times={"reached": 1.1}, seconds=9.3,
    score=37.5, video="rollouts/0001/video.mp4", weights="abc", normalization="def", when=1.8e9 + 1 / 3,
)  # fmt: skip
HEADER = "task,stage,when,operator,milestones,penalties\n"


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "er")


def stored(folder):
    with Trials(folder / "trials.sqlite") as file:
        return file.all()


def test_what_goes_out_comes_in_again_without_a_change(tmp_path):
    folder = make_run(tmp_path / "er", evaluated=True, trials=3)
    with Trials(folder / "trials.sqlite") as file:
        first = file.add(ADA)
        file.add(replace(ADA, score=None, valid=False, when=ADA.when + 1), supersedes=first)
        file.add(replace(ADA, when=ADA.when + 2))
    assert export([read_run(folder)], tmp_path / "one.csv") == 11
    other = make_run(tmp_path / "other" / "er")
    assert read([read_run(other)], tmp_path / "one.csv") == (11, 11)
    export([read_run(other)], tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert stored(other) == [replace(trial, run="er") for trial in stored(folder)]
    # Where they came from, and a second time, nothing is added.
    assert read([read_run(folder)], tmp_path / "one.csv") == (11, 0)
    assert read([read_run(other)], tmp_path / "one.csv") == (11, 0)


def test_a_list_from_paper_is_scored_by_the_rubric(tmp_path, folder, capsys):
    (tmp_path / "paper.csv").write_text(
        HEADER
        + "stack_bowls,1,2026-11-15T10:00:00+00:00,Ada,reached; lifted,green_bowl_knocked\n"
        + "press_button,2,2026-11-15T10:05:00+00:00,Ada,,\n"
        + "stack_bowls,2,2026-11-15T10:10:00+00:00,Ada,reached; stacked,\n"  # a person may leave out those between
    )
    assert main(["score", str(folder), "--import", str(tmp_path / "paper.csv")]) == 0
    assert "3 of them new" in capsys.readouterr().out
    assert [(t.score, t.source, t.when) for t in stored(folder)] == [
        (37.5, "operator", 1794736800.0),
        (0.0, "operator", 1794737100.0),
        (50.0, "operator", 1794737400.0),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("stack_bowl,1,5,Ada,reached,", "line 3, column 'task'.*Did you mean 'stack_bowls'"),
        ("stack_bowls,7,5,Ada,reached,", "line 3, column 'stage'.*Valid: 1, 2"),
        ("stack_bowls,one,5,Ada,reached,", "line 3, column 'stage'.*whole number"),
        ("stack_bowls,1,,Ada,reached,", "line 3, column 'when'"),
        ("stack_bowls,1,yesterday,Ada,reached,", "line 3, column 'when'"),
        ("stack_bowls,1,5,,reached,", "line 3, column 'operator'"),
        ("stack_bowls,1,5,Ada,reachd,", "line 3, column 'milestones'.*Did you mean 'reached'"),
        ("stack_bowls,1,5,Ada,reached,spilled", "line 3, column 'penalties'"),
        ("stack_bowls,1,5,Ada,reached,green_bowl_knocked=x", "line 3, column 'penalties'"),
        ("stack_bowls,1,5,Ada,reached", "line 3: 5 fields for 6 columns"),
    ],
)
def test_one_wrong_row_stops_all_and_is_named(tmp_path, folder, row, problem):
    (tmp_path / "bad.csv").write_text(f"{HEADER}stack_bowls,1,4,Ada,reached,\n{row}\n")
    with pytest.raises(HoldfastError, match=problem):
        read([read_run(folder)], tmp_path / "bad.csv")
    assert stored(folder) == []


def test_a_score_that_is_not_the_rubrics_is_refused(tmp_path, folder):
    (tmp_path / "bad.csv").write_text("task,stage,when,operator,milestones,score\nstack_bowls,1,4,Ada,reached,100\n")
    with pytest.raises(HoldfastError, match="line 2, column 'score': the rubric gives 25, not 100"):
        read([read_run(folder)], tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("task,stage,when", "column 'milestones' is missing"),
        ("task,stage,when,milestone", "Did you mean 'milestones'"),
        ("task,stage,when,milestones,task", "'task' is there twice"),
        ("", "column 'task' is missing"),
    ],
)
def test_a_wrong_header_is_named(tmp_path, folder, header, problem):
    (tmp_path / "bad.csv").write_text(header)
    with pytest.raises(HoldfastError, match=problem):
        read([read_run(folder)], tmp_path / "bad.csv")


def test_rows_of_several_runs_find_their_run(tmp_path):
    runs = [read_run(make_run(tmp_path / name)) for name in ("er", "sequential")]
    text = "run,task,stage,when,operator,milestones\n"
    (tmp_path / "two.csv").write_text(text + "sequential,stack_bowls,1,4,Ada,reached\ner,stack_bowls,2,4,Ada,\n")
    assert read(runs, tmp_path / "two.csv") == (2, 2)
    assert [t.stage for t in stored(tmp_path / "er")] == [2]
    (tmp_path / "none.csv").write_text(text + ",stack_bowls,1,4,Ada,reached\n")
    with pytest.raises(HoldfastError, match="line 2, column 'run'"):
        read(runs, tmp_path / "none.csv")

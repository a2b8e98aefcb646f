import json

import pytest
from report.synthetic import judge_by_hand, write_run

from holdfast.cli import main


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "er", names=("stack_bowls", "press_button"), heldout=False)


def test_plan_prints_every_cell_and_the_hours(folder, capsys):
    assert main(["plan", str(folder), "--width", "10"]) == 0
    out = capsys.readouterr().out
    assert out.count("stack_bowls") == 2
    assert "more trials for intervals of 10 points. At 12 s each" in out


def test_plan_as_json_says_the_same(folder, capsys):
    assert main(["plan", str(folder), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [(cell["task"], cell["stage"], cell["trials"]) for cell in plan["cells"]] == [
        ("stack_bowls", 1, 8),
        ("stack_bowls", 2, 8),
        ("press_button", 2, 8),
    ]
    assert plan["more"] == sum(cell["more"] for cell in plan["cells"])
    assert plan["hours"] == pytest.approx(plan["more"] * 12 / 3600)


def test_plan_wants_a_run(tmp_path, capsys):
    assert main(["plan", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err


def test_plan_counts_the_trials_of_one_source(folder, capsys):
    judge_by_hand(folder, {(1, 1): [50.0, 100.0]})
    assert main(["plan", str(folder)]) == 2
    assert "trials of 2 sources, which are never averaged: twin, operator" in capsys.readouterr().err
    assert main(["plan", str(folder), "--source", "operator", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["source"], plan["seconds"]) == ("operator", 20.0)
    assert [cell["trials"] for cell in plan["cells"]] == [2, 0, 0]
    assert main(["plan", str(folder), "--source", "twin"]) == 0
    assert "judged by twin" in capsys.readouterr().out


def test_people_plan_before_their_first_trial(folder, capsys):
    assert main(["plan", str(folder), "--source", "operator", "--json"]) == 0
    assert {cell["trials"] for cell in json.loads(capsys.readouterr().out)["cells"]} == {0}

"""`holdfast twin` as a user calls it."""

from __future__ import annotations

import json

import pytest

from holdfast.cli import main

pytestmark = pytest.mark.sim


def test_scores_as_json_have_exactly_the_promised_keys(capsys):
    assert main(["twin", "score", "--task", "press_button", "--seeds", "3:6", "--jitter", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["task", "level", "seeds", "scores", "full", "milestones", "penalties"]
    assert found["seeds"] == [3, 4, 5]
    assert found["scores"] == [100, 100, 100]
    assert (found["task"], found["level"], found["full"]) == ("press_button", "standard", 3)
    assert found["milestones"] == {"aligned": 3, "near": 3, "pressed": 3}


def test_the_number_of_processes_changes_nothing(capsys):
    texts = []
    for processes in ("1", "2"):
        command = ["twin", "score", "--task", "press_button", "--as", "blind", "--seeds", "0:5", "--json"]
        assert main([*command, "--processes", processes]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_a_table_without_json(capsys):
    assert main(["twin", "score", "--task", "stack_bowls", "--as", "noop", "--seeds", "0", "--processes", "1"]) == 0
    text = capsys.readouterr().out
    assert "mean score 0.0" in text
    assert "penalty green_bowl_knocked" in text


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--task", "stack_bowl"], "stack_bowls"),
        (["--task", "stack_bowls", "--as", "nobody"], "open-gripper"),
        (["--task", "stack_bowls", "--level", "hard"], "standard"),
        (["--task", "stack_bowls", "--seeds", "5:5"], "0 <= A < B"),
        (["--task", "stack_bowls", "--seeds", "x"], "0:100"),
        (["--task", "stack_bowls", "--processes", "0"], "at least 1"),
    ],
)
def test_mistakes_are_named(capsys, flags, hint):
    assert main(["twin", "score", *flags]) == 2
    assert hint in capsys.readouterr().err


def test_sheet_writes_a_picture(tmp_path):
    out = tmp_path / "sheet.png"
    assert main(["twin", "sheet", "--task", "press_button", "--moments", "2", "--out", str(out)]) == 0
    assert out.stat().st_size > 10_000

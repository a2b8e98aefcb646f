"""`holdfast run`: says what it does, stops at the first failure, and goes on where it was."""

from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli import main
from holdfast.commands.run import carry_out
from holdfast.core.errors import HoldfastError


def test_a_dry_run_prints_commands_and_does_nothing(tmp_path, capsys):
    assert main(["run", "quickstart", "--dry-run", "--output", str(tmp_path / "q")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["record"] + ["train"] * 2 + ["evaluate"] * 2 + ["report"]
    assert not (tmp_path / "q").exists()


def test_every_seed_has_a_folder_of_its_own(capsys):
    main(["run", "quickstart", "--dry-run"])
    first = capsys.readouterr().out
    main(["run", "quickstart", "--dry-run", "--seed", "2"])
    second = capsys.readouterr().out
    assert "runs/quickstart/data" in first
    assert "runs/quickstart-2/data" in second
    assert "runs/quickstart/" not in second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["quickstrat"], "quickstart"), (["quickstart", "--seed", "-1"], "--seed must not be negative")],
)
def test_mistakes_are_named(arguments, message, capsys):
    assert main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_commands_of_a_part_run_side_by_side_and_leave_logs(tmp_path):
    carry_out([("--version",), ("--help",)], tmp_path / "logs", Console(quiet=True))
    logs = sorted((tmp_path / "logs").iterdir())
    assert len(logs) == 2
    assert any("holdfast" in log.read_text() for log in logs)


def test_a_failure_stops_the_others_and_names_its_log(tmp_path):
    failing = ("doctor", str(tmp_path / "nothing"))
    endless = ("record", "--tasks", "press_button", "--episodes", "1000", "--output", str(tmp_path / "data"))
    with pytest.raises(HoldfastError, match="nothing") as caught:
        carry_out([endless, failing], tmp_path / "logs", Console(quiet=True))
    assert "doctor-2.log" in str(caught.value)
    assert not list(Path(tmp_path / "data").glob("press_button"))

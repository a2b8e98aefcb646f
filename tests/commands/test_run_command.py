"""`holdfast run`: says what it does, stops at the first failure, and goes on where it was."""

from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli import main
from holdfast.commands.overall_progress import OverallProgress
from holdfast.commands.run import carry_out
from holdfast.core.errors import HoldfastError
from holdfast.recipes.gpus import Gpus


def test_a_dry_run_prints_commands_and_does_nothing(tmp_path, capsys):
    assert main(["run", "quickstart", "--dry-run", "--output", str(tmp_path / "q")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [*("record", "train", "evaluate", "train", "report")]
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
    [
        (["quickstrat"], "quickstart"),
        (["quickstart", "--seed", "-1"], "--seed must not be negative"),
        (["quickstart", "--gpus", "2"], "--gpus is for recipes whose trainings fill a GPU"),
        (["paper", "--parts", "ratoi"], "Did you mean 'ratio'"),
        (["paper", "--dry-run", "--gpus", "0", "--gpu-memory", "80"], "--gpus must be at least 1"),
        (["paper", "--dry-run", "--gpus", "1", "--gpu-memory", "80", "--accumulate", "3"], "divisor of the batch size"),
        (["paper", "--dry-run", "--gpus", "8", "--gpu-memory", "80", "--accumulate", "4"], "8 ranks cannot share"),
    ],
)
def test_mistakes_are_named(arguments, message, capsys):
    assert main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


def lines_of(out, command):
    return [line for line in out.splitlines() if line.startswith(command)]


def test_the_plan_of_the_paper_shows_every_training_and_its_memory(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.commands.run.found", lambda: None)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["run", "paper", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for name in ("single_arm-er", "bimanual-joint", "heterogeneous-er-asymmetric", "single_arm-er-ratio-0.002"):
        (row,) = (line for line in out.splitlines() if line.split()[:1] == [name])
        assert "95.6 GiB, too much" in row
        assert row.rstrip().endswith("66.5 GiB")
    assert "paper does not fit 1 GPU of 80 GiB" in out
    assert "--accumulate 4 (72.1 GiB)" in out
    assert "All of it fits 8 GPUs of 80 GiB." in out
    assert len(lines_of(out, "holdfast train")) == 19
    assert "seed 42" in out


def test_what_does_not_fit_is_refused_before_any_work(tmp_path, capsys):
    machine = ["--gpus", "1", "--gpu-memory", "80", "--output", str(tmp_path / "p")]
    assert main(["run", "paper", "--dry-run", *machine]) == 2
    said = capsys.readouterr()
    assert "The same training fits with --accumulate 4 (72.1 GiB)" in said.err
    assert not lines_of(said.out, "holdfast train")
    assert main(["run", "paper", "--dry-run", *machine, "--accumulate", "4", "--parts", "ratio"]) == 0
    commands = lines_of(capsys.readouterr().out, "holdfast train")
    assert len(commands) == 3
    assert all("--optim.accumulate=4" in command for command in commands)
    assert not (tmp_path / "p").exists()


def test_several_gpus_train_through_torchrun(capsys):
    assert main(["run", "paper", "--dry-run", "--gpus", "8", "--gpu-memory", "80", "--parallel", "fsdp"]) == 0
    commands = lines_of(capsys.readouterr().out, "torchrun")
    assert len(commands) == 19
    start = "torchrun --standalone --nproc-per-node=8 -m holdfast train --stream="
    assert all(command.startswith(start) and "--parallel=fsdp" in command for command in commands)


def test_without_a_gpu_the_paper_is_only_planned(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("holdfast.commands.run.found", lambda: None)
    assert main(["run", "paper", "--output", str(tmp_path / "p")]) == 2
    assert "needs a GPU" in capsys.readouterr().err
    monkeypatch.setattr("holdfast.commands.run.found", lambda: Gpus(2, 139))
    assert main(["run", "paper", "--gpus", "4", "--output", str(tmp_path / "p")]) == 2
    assert "torch sees 2" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def carried_out(phase, folder, ranks=1):
    overall = OverallProgress([command for chain in phase for command in chain])
    carry_out(phase, folder / "logs", Console(quiet=True), overall, ranks)
    return overall


def test_trainings_on_several_ranks_are_started_by_torchrun(tmp_path):
    """Both ranks fail alike, the first says why, and torchrun sums up."""
    command = ("train", f"--stream={tmp_path}/none.toml", f"--output={tmp_path}/er")
    with pytest.raises(HoldfastError, match="torchrun --standalone --nproc-per-node=2 -m holdfast train"):
        carried_out([(command,)], tmp_path, ranks=2)
    log = (tmp_path / "logs" / "train-er.log").read_text()
    assert "none.toml" in log
    assert "local_rank: " in log


def test_commands_of_a_phase_run_side_by_side_and_leave_logs(tmp_path):
    overall = carried_out([(("--version",),), (("--help",),)], tmp_path)
    assert overall.share([]) == 1
    logs = sorted((tmp_path / "logs").iterdir())
    assert len(logs) == 2
    assert any("holdfast" in log.read_text() for log in logs)


def test_a_chain_goes_on_until_a_command_fails(tmp_path):
    failing = ("doctor", str(tmp_path / "nothing"))
    with pytest.raises(HoldfastError, match="nothing"):
        carried_out([(("--version",), failing, ("--help",))], tmp_path)
    assert sorted(log.name for log in (tmp_path / "logs").iterdir()) == ["--version-1.log", "doctor-1.log"]


def test_a_failure_stops_the_others_and_names_its_log(tmp_path):
    failing = ("doctor", str(tmp_path / "nothing"))
    endless = ("record", "--tasks", "press_button", "--episodes", "1000", "--output", str(tmp_path / "data"))
    with pytest.raises(HoldfastError, match="nothing") as caught:
        carried_out([(endless,), (failing,)], tmp_path)
    assert "doctor-2.log" in str(caught.value)
    assert not list(Path(tmp_path / "data").glob("press_button"))

import os
import subprocess
import sys

import pytest

from holdfast import __version__
from holdfast.cli import entry, main
from holdfast.commands import COMMANDS, GROUPS
from holdfast.core.torch_environment import set_up_torch


def test_help_names_every_command_under_its_group(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out.split("\n\n")
    for title, group in GROUPS.items():
        (part,) = (part for part in shown if part.startswith(f"{title}:\n"))
        assert [line.split()[0] for line in part.splitlines()[1:]] == list(group)
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_has_a_short_flag(flag, capsys):
    assert main([flag]) == 0
    assert capsys.readouterr().out == f"holdfast {__version__}\n"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_neither_torch_nor_lerobot(command):
    # What makes `--help` slow is importing them; looking at what was imported is a test that no busy machine fails.
    code = (
        "import sys\nfrom holdfast.cli import main\n"
        f"try: main({[c for c in (command, '--help') if c]})\nexcept SystemExit as stop: assert not stop.code\n"
        "heavy = {'torch', 'lerobot', 'mujoco', 'transformers'} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout


def test_help_fits_the_terminal_and_leaves_examples_as_they_are(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("examples:")
    assert max(map(len, lines[:start])) <= 80
    assert "  holdfast score runs/single_arm-er --export trials.csv" in lines[start:]
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    prose = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Every tick")]
    assert 100 < len(prose[0]) <= 118


def test_unknown_command_suggests_the_nearest(capsys):
    assert main(["trian"]) == 2
    assert "Did you mean 'train'" in capsys.readouterr().err


def test_train_help_teaches(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help"])
    out = capsys.readouterr().out
    assert not stop.value.code
    for word in ("--stream", "--replay.ratio", "--norm.strategy", "examples:", "[[task]]"):
        assert word in out


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_torch_is_set_up_unless_the_user_did(name, monkeypatch):
    monkeypatch.setattr("os.environ", {})
    set_up_torch()
    assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert int(os.environ["OMP_NUM_THREADS"]) >= 1

    own = {name: "max_split_size_mb:64", "OMP_NUM_THREADS": "7"}
    monkeypatch.setattr("os.environ", dict(own))
    set_up_torch()
    assert os.environ == own


@pytest.mark.parametrize("command", ["--help", "train --help", "metrics -", "metrics - --json", "wrong"])
def test_a_reader_that_goes_away_is_no_error_of_ours(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", "from holdfast.cli import entry; entry()", *command.split()],
        input=b'{"tasks": ["a"], "cells": [[1]]}',
        stdout=writing,
        stderr=writing if command == "wrong" else subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 1
    assert not done.stderr


def test_a_pipe_of_our_own_that_breaks_is_shown(monkeypatch):
    def broken(argv):
        raise BrokenPipeError("a robot went away")

    monkeypatch.setattr("holdfast.cli.main", broken)
    with pytest.raises(BrokenPipeError, match="robot"):
        entry()


def test_a_very_long_error_keeps_its_start_and_its_advice(capsys):
    assert main(["x" * 100_000]) == 2
    said = capsys.readouterr().err
    assert len(said) < 5000
    assert said.startswith("holdfast: Unknown command 'xxx")
    assert said.endswith("completion.\n")

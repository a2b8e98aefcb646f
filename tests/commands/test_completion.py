"""Completion knows what the commands know, in three shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.commands import COMMANDS
from holdfast.commands.completion import SCRIPTS, complete
from holdfast.recipes import RECIPES


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("tr", ["train"]),
        ("nonsense ", []),
        ("train --st", ["--stream=", "--steps="]),
        ("train --method=e", ["--method=er", "--method=ewc"]),
        ("train --method = e", ["er", "ewc"]),  # as bash takes it apart
        ("train --preset =", ["cpu", "gpu", "paper"]),
        ("train --replay.share=f", ["--replay.share=frames"]),
        ("train --log.wandb=", ["--log.wandb=true", "--log.wandb=false"]),
        ("train --nothing=", []),
        ("train --none.such=", []),
        ("train --method=ewc --method.s", ["--method.strength=", "--method.samples="]),
        ("evaluate run --tr", ["--trials"]),
        ("twin ", ["score", "sheet", "docs"]),
        ("twin score --pro", ["--processes"]),
        ("twin sheet --pro", []),
        ("twin score --task hang", ["hang_cup"]),
        ("record --stream b", ["bimanual"]),
        ("bundle deploy x --t", ["--to"]),
        ("bundle --st", ["--stage"]),
        ("run ", [*RECIPES, "base"]),
        ("run quickstart ", []),
        ("run paper --parallel ", ["ddp", "fsdp"]),
        ("export ", ["buffer", "policy"]),
        ("completion ", [*SCRIPTS]),
        ("report ", []),
    ],
)
def test_words_are_completed(words, found):
    assert complete(words.split(" ")) == found


def test_nothing_yet_offers_every_command():
    assert complete([]) == complete([""]) == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_flags_completed(command):
    assert any(flag.startswith("--help") for flag in complete([command, "--"]))


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_printed_for_every_shell(shell, capsys):
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == SCRIPTS[shell]


def test_an_unknown_shell_is_refused(capsys):
    assert main(["completion", "bsh"]) == 2
    assert "Did you mean 'bash'?" in capsys.readouterr().err


def run_in(shell, script, tmp_path):
    """What a script prints in a shell that has the completion, and a `holdfast` of this Python."""
    program = shutil.which(shell)
    if not program:
        pytest.skip(f"no {shell} on the PATH")
    own = tmp_path / "holdfast"
    own.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    own.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program, "-c", f"{SCRIPTS[shell]}\n{script}"],
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split("\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [("holdfast tr", ["train"]), ("holdfast train --method = ew", ["ewc"]), ("holdfast report runs", [])],
)
def test_bash_gets_them(words, found, tmp_path):
    listed = " ".join(f"'{word}'" for word in words.split(" "))
    ask = f"COMP_WORDS=({listed}); COMP_CWORD={words.count(' ')}; _holdfast; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    assert [line for line in run_in("bash", ask, tmp_path) if line] == found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("holdfast tr", ["train"]),
        ("holdfast train --method=ew", ["--method=ewc"]),
        ("holdfast run ", [*RECIPES, "base"]),  # and no files
        ("holdfast report hold", ["holdfast"]),  # a file, since there is nothing else
    ],
)
def test_fish_gets_them(words, found, tmp_path):
    offered = run_in("fish", f"complete -C '{words}'", tmp_path)
    assert sorted(line for line in offered if line) == sorted(found)


def test_zsh_reads_the_script(tmp_path):
    define = "function compdef { }; whence -w _holdfast"
    assert run_in("zsh", define, tmp_path)[0] == "_holdfast: function"

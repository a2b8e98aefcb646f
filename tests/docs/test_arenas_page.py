"""The page on arenas: a simulator written by it alone passes the check, and its commands run."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from blocks import blocks

from holdfast import arenas
from holdfast.arenas.setups import SETUPS
from holdfast.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "arenas.md"


@pytest.mark.slow
def test_the_simulator_of_the_page_is_an_arena(tmp_path, monkeypatch, capsys):
    for block in blocks(PAGE):
        if block.title:
            (tmp_path / block.title).write_text(block.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    lines = [line for block in blocks(PAGE) if block.language == "bash" for line in block.text.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if "rail" in line]
    assert [command[0] for command in commands] == ["arena", "watch", "record"]
    for command in commands:
        assert main(command) == 0, capsys.readouterr()
    out = capsys.readouterr().out
    assert out.count("  ok  ") == 30
    assert "score 100 of 100" in out
    assert "data/stop_right: 2 demonstrations, none dropped" in out
    assert arenas.load("rail.toml").max_steps("stop_right") == 80
    arenas.load.cache_clear()


def test_the_page_lists_every_arena_that_can_be_set_up():
    assert all(f"| `{name}` |" in PAGE.read_text() for name in SETUPS)

"""Recordings in a simulator that fails: such a layout is dropped, with its reason, and never tried for ever."""

import json
import sys
from pathlib import Path

import pytest

from holdfast.cli import main

WORKER = Path(__file__).parent / "hostile_worker.py"


def record(folder, faults, episodes):
    file = folder / "toy.toml"
    lines = "".join(f'{seed} = "{fault}"\n' for seed, fault in faults.items())
    file.write_text(f'python = {json.dumps(sys.executable)}\nworker = "{WORKER}"\n[options.faults]\n{lines}')
    words = ["record", "--arena", str(file), "--tasks", "touch", "--episodes", str(episodes), "--seed", "0"]
    return main([*words, "--size", "32", "--processes", "1", "--output", str(folder / "data")])


def seeds(folder):
    notes = json.loads((folder / "data/touch/meta/recording.json").read_text())
    return notes["seeds"], notes["dropped"]


@pytest.mark.slow
def test_layouts_in_which_it_fails_are_dropped_and_said(tmp_path, capsys):
    assert record(tmp_path, {1: "at_begin", 2: "die", 6: "die"}, episodes=5) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "touch, layout 1 is dropped. The worker of the arena 'toy' failed in 'begin'" in out
    assert "no licence" in out
    assert (
        "touch, layout 2 is dropped. The worker of the arena 'toy' failed in 'step': it was killed by signal 9" in out
    )
    assert seeds(tmp_path) == ([0, 3, 4, 5, 7], [1, 2, 6])
    assert "5 demonstrations, 3 without full score dropped" in out


@pytest.mark.slow
def test_a_simulator_that_fails_every_time_is_an_error_that_leaves_nothing(tmp_path, capsys):
    assert record(tmp_path, dict.fromkeys(range(9), "at_begin"), episodes=3) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "The arena failed in all of 3 layouts, as in layout 2" in said
    assert "no licence" in said
    assert record(tmp_path, {}, episodes=3) == 0
    assert seeds(tmp_path) == ([0, 1, 2], [])

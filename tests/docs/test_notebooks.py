"""Both notebooks do what they say, at a tiny size."""

import json
from pathlib import Path

import pytest
from notebooks import code_cells, run_notebook

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # a few trials need one process


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.usefixtures("short_trials")
def test_forgetting(tmp_path, monkeypatch):
    done = run_notebook(FOLDER / "forgetting.ipynb", tmp_path, monkeypatch, EPISODES=2, STEPS=2, TRIALS=1)
    for run in (done.sequential, done.er):
        matrix = run.matrix
        assert list(matrix.columns) == ["stack_bowls", "press_button"]
        assert matrix.notna().sum().sum() == 3
        assert run.metrics.loc[2, "bwt"] == matrix.loc[2, "stack_bowls"] - matrix.loc[1, "stack_bowls"]
    same = [run.stage(1).folder / "model.safetensors" for run in (done.sequential, done.er)]
    assert same[0].read_bytes() == same[1].read_bytes()


@pytest.mark.slow
def test_your_dataset(tmp_path, monkeypatch, capsys):
    done = run_notebook(FOLDER / "your_dataset.ipynb", tmp_path, monkeypatch, EPISODES=3, STEPS=2)
    assert done.loaded.type == "act"
    assert done.run.tasks == ("left_cup", "right_cup")
    assert "nothing found in 2 datasets" in capsys.readouterr().out
    kept = json.loads((tmp_path / "cups" / "kept" / "meta" / "info.json").read_text())
    assert kept["total_episodes"] == 2
    assert (tmp_path / "cups" / "bundle" / "manifest.json").exists()


def test_a_command_that_fails_is_found(tmp_path, monkeypatch):
    cells = [{"cell_type": "code", "source": [line]} for line in ("x = 1", "!holdfast metrics gone.json", "x = 3")]
    (tmp_path / "some.ipynb").write_text(json.dumps({"cells": cells}))
    with pytest.raises(AssertionError, match=r"holdfast metrics gone\.json"):
        run_notebook(tmp_path / "some.ipynb", tmp_path, monkeypatch, x=2)
    with pytest.raises(AssertionError, match=r"does not set \{'y'\}"):
        run_notebook(tmp_path / "some.ipynb", tmp_path, monkeypatch, y=2)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_stored_without_output(path):
    assert path.read_bytes().endswith(b"}\n")
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code_cells(path))

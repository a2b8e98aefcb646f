"""The page on Python does what it says, with smaller numbers."""

from pathlib import Path

import numpy as np
import pytest
from blocks import run_blocks

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SMALLER = {
    "episodes=40)\n": "episodes=2)\n",
    "steps=400": "steps=2",
    "trials=10": "trials=1",
    "batch_size=16": "batch_size=4",
}


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.usefixtures("short_trials")
def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # a few trials need one process
    text = PAGE.read_text()
    for phrase, smaller in SMALLER.items():
        assert phrase in text
        text = text.replace(phrase, smaller)
    (tmp_path / "python.md").write_text(text)
    page = run_blocks(tmp_path / "python.md", tmp_path, monkeypatch)
    assert page.run.matrix.notna().sum().sum() == 3
    assert np.isnan(page.run.metrics.loc[2, "fwt"])
    assert (page.decayed.method, page.decayed.settings["method_options"]) == ("my_methods.py:Decay", {"strength": 0.01})
    assert "bwt" in capsys.readouterr().out

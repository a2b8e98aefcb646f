"""Two simulators, one in a Python of its own: recorded, learned by one policy, and evaluated with one command."""

import json
import sys
from pathlib import Path

import pytest
from toys import TINY

from holdfast.cli import main
from holdfast.runs.trials import Trials

FAKE = "fake_arena:FakeArena"
WORKER = Path(__file__).parent / "hostile_worker.py"
STREAM = """
name = "two"
[[task]]
name = "touch"
instruction = "Go to the mark."
arms = ["arm"]
dataset = "data/touch"
[[task]]
name = "mirror"
instruction = "Go to the other side."
arms = ["arm"]
dataset = "data/mirror"
"""


@pytest.mark.slow
def test_from_demonstrations_to_scores_with_one_simulator_that_dies(tmp_path, capsys):
    toy = tmp_path / "toy.toml"
    toy.write_text(f'python = {json.dumps(sys.executable)}\nworker = "{WORKER}"\n[options.faults]\n1 = "die"\n')
    for arena, task in ((str(toy), "touch"), (FAKE, "mirror")):
        record = ["record", "--arena", arena, "--tasks", task, "--episodes", "2", "--size", "32", "--processes", "1"]
        assert main([*record, "--output", str(tmp_path / "data")]) == 0
    (tmp_path / "stream.toml").write_text(STREAM)
    run = tmp_path / "run"
    train = ["train", f"--stream={tmp_path / 'stream.toml'}", f"--output={run}", "--device=cpu", *TINY]
    assert main([*train, "--steps=2", "--batch_size=4", "--norm.limit=100", "--policy.use_relative_actions=false"]) == 0

    evaluate = ["evaluate", str(run), "--device=cpu", "--processes=1", "--trials=3"]
    assert main([*evaluate, "--arena", str(toy)]) == 0
    assert "Left out: mirror" in capsys.readouterr().out
    both = [*evaluate, "--arena", str(toy), "--arena", FAKE]
    assert main(both) == 0
    assert "seed 1: not valid. The worker of the arena 'toy' failed in 'step': it was killed" in read(capsys, run)
    found = trials(run)
    assert {(trial.task, trial.source) for trial in found} == {("touch", "toy"), ("mirror", "fake")}
    assert [(t.stage, t.task, t.seed) for t in found if not t.valid] == [(1, "touch", 1), (2, "touch", 1)]
    assert sum(trial.valid for trial in found) == 2 + 2 + 3
    assert main(both) == 0
    assert trials(run) == found, "a trial that failed is not repeated"
    assert main([*evaluate, "--arena", FAKE, "--arena", str(toy), "--tasks", "push"]) == 2
    assert main([*evaluate, "--arena", FAKE, "--arena", "twin", "--tasks", "touch"]) == 0
    assert [t for t in trials(run) if (t.task, t.source) != ("touch", "fake")] == found, (
        "each arena has trials of its own"
    )
    assert main(["report", str(run)]) == 0


def read(capsys, run):
    """What was printed and stored about trials that are not valid."""
    notes = [f"seed {trial.seed}: not valid. {trial.notes}" for trial in trials(run) if not trial.valid]
    return " ".join([*capsys.readouterr().out.split(), *notes])


def trials(run):
    with Trials(run / "trials.sqlite") as file:
        return file.all()

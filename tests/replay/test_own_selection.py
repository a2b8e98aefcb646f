"""A selection of the user's own, in a file: by its name or as an object."""

import json
import sys

import pytest
from rich.console import Console
from toys import TINY, candidates

import holdfast
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.replay.buffer import Buffer
from holdfast.replay.selection import find_selection, hard, name_selection
from holdfast.runs.run import read_run

FILE = """
import numpy as np
from holdfast import Selection

def last_first(candidates):
    return np.arange(len(candidates.lengths))[::-1]

def easy(candidates):
    return np.argsort(candidates.scores)

def half(candidates):
    return [0]

def unfinished(candidates):
    return [0, 1][5]

easiest = Selection(easy, needs_scores=True)

class Thing:
    pass
"""


@pytest.fixture
def choosing(toy, monkeypatch):
    monkeypatch.chdir(toy)
    monkeypatch.syspath_prepend(str(toy))
    (toy / "choosing.py").write_text(FILE)
    import choosing

    yield choosing
    del sys.modules["choosing"]


def settings():
    policy = holdfast.PolicyChoice(options=dict(flag.removeprefix("--policy.").split("=") for flag in TINY))
    replay = holdfast.ReplayConfig(ratio=0.7)
    small = {"stream": "stream.toml", "tasks": ["reach", "lift"], "steps": 2, "batch_size": 4, "device": "cpu"}
    return holdfast.TrainConfig(policy=policy, replay=replay, output="run", **small)


def test_it_decides_what_is_kept_and_a_changed_file_is_noticed(toy, choosing, capsys):
    run = holdfast.train(settings(), selection=choosing.last_first, console=Console(quiet=True))
    assert run.settings["replay"]["selection"] == "choosing.py:last_first"
    assert json.loads((toy / "run" / "selection.json").read_text())["name"] == "choosing.py:last_first"
    first, second = (stage.checkpoint.buffer for stage in read_run(toy / "run").stages)
    assert first.of("reach").episodes == (5, 4, 3, 2)
    assert second.of("reach").episodes == second.of("lift").episodes == (5, 4)

    (toy / "choosing.py").write_text(FILE + "# another version\n")
    same = ["train", "--stream=stream.toml", "--tasks=[reach, lift]", "--output=run", "--device=cpu", *TINY]
    same += ["--steps=2", "--batch_size=4", "--replay.ratio=0.7", "--replay.selection=choosing.py:last_first"]
    assert main(same) == 2
    assert "was started with another version of choosing.py" in " ".join(capsys.readouterr().err.split())
    (toy / "choosing.py").write_text(FILE)
    assert main(same) == 0


def test_it_is_found_by_its_name(choosing):
    assert find_selection("choosing.py:last_first").rank is not choosing.last_first  # the file was run for it
    assert name_selection(choosing.easiest) == "choosing.py:easiest"
    assert find_selection("choosing.py:easiest") is choosing.easiest
    assert name_selection(hard) == "hard"


@pytest.mark.parametrize("name", ["Thing", "np", "nothing"])
def test_what_is_no_selection_is_refused(choosing, name):
    with pytest.raises(
        HoldfastError, match=rf"{name} is no selection in that file. It has last_first, easy, half, unfinished, T"
    ):
        holdfast.ReplayConfig(selection=f"choosing.py:{name}")


def test_every_episode_is_ranked_once(choosing):
    with pytest.raises(HoldfastError, match="must rank every episode"):
        Buffer(0.5).after_stage(candidates("reach", [3, 3]), "", "choosing.py:half")
    failed = r"choosing\.py:unfinished, ranking 'reach', failed in line 15 of choosing\.py: IndexError: l"
    with pytest.raises(HoldfastError, match=failed):
        Buffer(0.5).after_stage(candidates("reach", [3, 3]), "", "choosing.py:unfinished")
    with pytest.raises(HoldfastError, match=r"Unknown --replay.selection 'hardd'.*give file\.py:function"):
        holdfast.ReplayConfig(selection="hardd")
    with pytest.raises(HoldfastError, match="could not be found again"):
        name_selection(lambda episodes: range(len(episodes.lengths)))


def test_a_study_folder_does_not_run_it(choosing, tmp_path, capsys):
    study = 'name = "mine"\n[train]\nstream = "stream.toml"\n"replay.selection" = "choosing.py:last_first"\n'
    (tmp_path / "study.toml").write_text(study)
    from holdfast.commands.study_evidence import refuse_own_code
    from holdfast.studies import load_study

    with pytest.raises(HoldfastError, match=r"uses choosing\.py:last_first, which is loaded only"):
        refuse_own_code(load_study(str(tmp_path / "study.toml")), "folder")

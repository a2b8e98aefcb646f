"""`holdfast run metaworld-mini`: its plan, and all of it, tiny and in a toy of the same names."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from toys import TINY

from holdfast import catalog
from holdfast.cli import main
from holdfast.recipes import RECIPES
from holdfast.recipes.recipe import Evaluate
from holdfast.runs.trials import Trials

TOY = Path(__file__).parent / "toy_metaworld.py"


@pytest.fixture
def arenas_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "share"))
    folder = tmp_path / "share" / "arenas" / "metaworld"
    folder.mkdir(parents=True)
    return folder


def set_up(folder):
    """Leave what `holdfast arena setup metaworld` leaves, with the toy for a worker."""
    text = f'name = "metaworld"\npython = {json.dumps(sys.executable)}\nworker = {json.dumps(str(TOY))}\n'
    (folder / "arena.toml").write_text(text)


def test_it_records_and_tries_tasks_of_continual_world_in_metaworld():
    recipe = RECIPES["metaworld-mini"](Path("x"), 1)
    ten = catalog.load_stream("cw10", "data").names
    assert len(recipe.tasks) == 3
    assert recipe.tasks == tuple(name for name in ten if name in recipe.tasks), "in the order of the stream"
    for config in recipe.train:
        assert (config.stream, tuple(config.tasks), config.device) == ("cw10", recipe.tasks, "cpu")
        assert (config.policy.path, config.norm.stats) == (None, ""), "nano-base knows another robot"
    for phase in recipe.phases(cores=2):
        for command in (command for chain in phase for command in chain):
            chosen = command[command.index("--arena") + 1] if "--arena" in command else None
            assert chosen == ("metaworld" if command[0] in ("record", "evaluate") else None)


def test_the_twin_needs_no_flag():
    assert not any(
        "--arena" in command for (chain, *_) in RECIPES["quickstart"](Path("x"), 1).phases(2) for command in chain
    )


def test_metaworld_is_set_up_first_unless_it_is_there(arenas_folder, capsys):
    assert main(["run", "metaworld-mini", "--dry-run"]) == 0
    missing = capsys.readouterr().out.splitlines()
    assert missing[0] == "holdfast arena setup metaworld"
    set_up(arenas_folder)
    assert main(["run", "metaworld-mini", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == missing[1:]


def tiny(output, seed):
    """The recipe with the same commands and the smallest numbers."""
    recipe = RECIPES["metaworld-mini"](output, seed)

    def small(config):
        options = dict(flag.removeprefix("--policy.").split("=") for flag in TINY)
        return replace(config, steps=2, batch_size=2, policy=replace(config.policy, options=options))

    return replace(
        recipe,
        parts={name: tuple(map(small, part)) for name, part in recipe.parts.items()},
        record=replace(recipe.record, episodes=2, size=32),
        evaluate=Evaluate(trials=1, horizon=4, videos=0),
    )


def carry_out_here(phase, *rest):
    """Run the commands of a phase in this process: each one of its own would import LeRobot once more."""
    commands = [command for chain in phase for command in chain]
    for command in sorted(commands, key=lambda command: command[0] == "evaluate"):  # which waits for all trainings
        assert main([*command]) == 0, command


@pytest.mark.slow
def test_from_recording_to_report(arenas_folder, tmp_path, monkeypatch, capsys):
    set_up(arenas_folder)
    recipe = tiny(tmp_path / "mini", 1)
    monkeypatch.setitem(RECIPES, "metaworld-mini", lambda output, seed: recipe)
    monkeypatch.setattr("holdfast.commands.run.carry_out", carry_out_here)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert main(["run", "metaworld-mini", "--output", str(tmp_path / "mini")]) == 0
    finding = capsys.readouterr().out.rpartition("\nsequential ─")[2]  # printed last
    assert finding.count("Score of each task after each stage") == 2
    assert "not measured" not in finding
    for folder in recipe.runs:
        with Trials(folder / "trials.sqlite") as file:
            found = file.all()
        assert len(found) == 1 + 2 + 3
        assert all(trial.valid and trial.source == "metaworld" for trial in found)
    assert not (tmp_path / "mini" / "shared").exists()

"""`holdfast arena`: what is there, a simulator to start from, the tests that it must pass, and its environment."""

import json
import re
import sys
from pathlib import Path

import pytest

from holdfast import arenas
from holdfast.arenas import arena_file, setups
from holdfast.cli import main


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "share"))
    yield
    arenas.load.cache_clear()


def test_a_new_simulator_passes_the_check_as_it_is_written(capsys):
    assert main(["arena", "new", "table"]) == 0
    written = Path("table.py").read_text()
    code = [line for line in written.splitlines() if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) <= 35
    assert main(["arena", "check", "table.toml"]) == 0
    out = capsys.readouterr().out
    assert (out.count("  ok  "), out.count("failed")) == (15, 0)
    assert main(["arena", "new", "table"]) == 2
    assert "table.py exists" in capsys.readouterr().err
    assert Path("table.py").read_text() == written


def test_a_fault_is_named_by_the_check(capsys):
    main(["arena", "new", "table"])
    text = Path("table.py").read_text()
    Path("table.py").write_text(text.replace("np.random.default_rng(seed)", "np.random.default_rng(7)"))
    assert main(["arena", "check", "table.toml"]) == 2
    said = capsys.readouterr()
    assert "failed  a seed is a layout: another seed gives the same episode" in said.out
    assert "The arena 'table' fails 1 of the tests" in said.err
    assert main(["arena", "check", "table.toml", "--tasks", "tuch"]) == 2
    assert "Did you mean 'touch'" in capsys.readouterr().err


def test_the_expert_of_any_arena_is_scored(capsys):
    main(["arena", "new", "table"])
    text = Path("table.py").read_text()
    Path("table.py").write_text(text.replace("yield self.mark", "yield self.mark if self.mark[0] > 0 else self.at"))
    score = ["arena", "score", "table.toml", "--seeds", "0:6", "--processes", "1"]
    capsys.readouterr()
    assert main([*score, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["task"], found["seeds"]) == ("touch", list(range(6)))
    assert set(found["scores"]) == {0, 100}, "the expert leaves half of the table alone"
    assert main([*score, "--tasks", "touch"]) == 0
    assert f"full score in {found['full']} of 6 trials" in capsys.readouterr().out
    for wrong, said in (
        (["--tasks", "tuch"], "'touch'"),
        (["--as", "blind"], "Valid: expert"),
        (["--seeds", "x"], "A:B"),
        (["--seeds", "3:3"], "0 <= A < B"),
        (["--seeds", "-1"], "0 <= A < B"),
        (["--seeds", f"0:{10**30}"], "at most 100,000 seeds"),
    ):
        assert main([*score, *wrong]) == 2
        assert said in capsys.readouterr().err


def test_a_simulator_that_breaks_the_check_fails_it(capsys):
    main(["arena", "new", "table"])
    text = Path("table.py").read_text()
    Path("table.py").write_text(text.replace("return self.at", "return [1, 2, 3]"))
    assert main(["arena", "check", "table.toml"]) == 2
    assert "its state must be 2 numbers of type float64, got float64 (3,)" in " ".join(capsys.readouterr().out.split())


GYM = """
import gymnasium
import numpy as np


class Point(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    observation_space = gymnasium.spaces.Dict(
        agent_pos=gymnasium.spaces.Box(-9, 9, (2,)), pixels=gymnasium.spaces.Box(0, 255, (6, 9, 3), np.uint8)
    )

    def __init__(self, render_mode):
        self.render_mode = render_mode

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.mark = np.zeros(2), self.np_random.uniform(1, 2, 2)
        return self.seen(), {}

    def step(self, action):
        self.at = self.at + action
        done = bool((self.at > self.mark).all())
        return self.seen(), 0.0, done, False, {"is_success": done}

    def seen(self):
        return {"agent_pos": self.at.astype(np.float32), "pixels": self.render()}

    def render(self):
        image = np.zeros((6, 9, 3), np.uint8)
        image[:, :3], image[3:] = 100 * self.mark[0], 10
        return image


gymnasium.register("Point-v0", Point, max_episode_steps=30)
"""
POINT = {
    "id": "gym_point:Point-v0",
    "instruction": "Go to the mark.",
    "action": ["dx", "dy"],
    "state_key": "agent_pos",
    "cameras": {"top": "pixels", "side": ""},
    "success": "is_success",
}


asked: list[tuple[str, ...]] = []  # of uv


def fake_uv(*arguments):
    """Makes an environment of this Python, without the network; its packages are this folder."""
    asked.append(arguments)
    if arguments[0] == "venv":
        python = Path(arguments[-1]) / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{Path.cwd()}" exec "{sys.executable}" "$@"\n')
        python.chmod(0o755)


def test_an_arena_that_is_set_up_goes_by_its_name(monkeypatch, capsys):
    Path("gym_point.py").write_text(GYM)
    point = setups.ArenaSetup(("gymnasium",), "gymnasium", POINT, without=("heavy",), timeout=300)
    monkeypatch.setitem(setups.SETUPS, "point", point)
    monkeypatch.setattr(setups, "_uv", fake_uv)
    main(["arena", "ls"])
    assert "not set up: holdfast arena setup point" in capsys.readouterr().out
    assert main(["arena", "setup", "pont"]) == 2
    assert "Did you mean 'point'" in capsys.readouterr().err
    assert main(["arena", "setup", "point"]) == 0, capsys.readouterr()
    assert re.search(r"--exclude-newer 20\d\d-\d\d-\d\d gymnasium$", " ".join(asked[-1])), (
        "no package changes by itself"
    )
    assert capsys.readouterr().out.count("  ok  ") == 15
    main(["arena", "ls"])
    assert "share/arenas/point/env/bin/python" in capsys.readouterr().out
    file = arena_file.set_up_arenas()["point"]
    assert arena_file.read_arena_file(file).timeout == 300
    assert file.with_name("overrides.txt").read_text() == "heavy; python_version < '0'\n"
    arena = arenas.load("point")
    assert (arena.state, arena.action, arena.rate) == (("state_0", "state_1"), ("dx", "dy"), 10)
    assert (list(arena.tasks), arena.max_steps("point"), arena.policies) == (["point"], 30, ())
    environment = arena.open("point")
    environment.reset(3, "")
    image = environment.observe((2, 3), ("top",)).images["top"]
    assert (image[1] == 10).all(), "every pixel is the mean of its area"
    assert image[0, 0, 0] >= 100 > image[0, 1, 0] == 0
    while not environment.over:
        environment.step([5.0, 5.0])  # cut to 1
    assert environment.reached().final
    assert environment.observe().state.tolist() == [2.0, 2.0]
    free = Path("free.toml")
    text = file.read_text().replace("env/bin", str(file.parent.absolute() / "env/bin"))
    free.write_text(text.replace("[options]", "[options]\nclip = false"))
    environment = arenas.load(str(free)).open("point")
    environment.reset(3, "")
    environment.step([5.0, 5.0])
    assert environment.observe().state.tolist() == [5.0, 5.0], "not cut where it was not asked for"


def test_what_does_not_pass_the_check_is_not_set_up(monkeypatch, capsys):
    broken = setups.ArenaSetup((), "gymnasium", {"id": "NoSuchWorld-v0", "instruction": "Go."})
    monkeypatch.setitem(setups.SETUPS, "broken", broken)
    monkeypatch.setattr(setups, "_uv", fake_uv)
    assert main(["arena", "setup", "broken"]) == 2
    assert "NoSuchWorld" in capsys.readouterr().err
    main(["arena", "ls"])
    assert "not set up: holdfast arena setup broken" in capsys.readouterr().out
    assert main(["evaluate", "run", "--arena", "broken"]) == 2

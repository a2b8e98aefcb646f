"""A policy trained on recorded demonstrations, tried in the twin by LeRobot's own evaluator and by `holdfast watch`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toys import draw_quickly

from holdfast import arenas
from holdfast.arenas.demonstrate import RecordingOrder
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.cli import main
from holdfast.embodiments import EMBODIMENTS
from holdfast.twin.tasks import task_class

pytestmark = pytest.mark.slow
TASK = "press_button"
SIZES = {"image_size": 32, "width": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "chunk_size": 8}
TINY = [f"--policy.{name}={size}" for name, size in {**SIZES, "n_action_steps": 4}.items()]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """The checkpoint of a tiny nano after a few steps on two recorded demonstrations."""
    from holdfast.arenas.record import record

    folder = tmp_path_factory.mktemp("trained")
    record([RecordingOrder(TASK, 2, "standard", 32, 32, 60)], folder, processes=1)
    flags = ["--stream=single_arm", f"--data_root={folder}", f"--tasks=[{TASK}]", "--steps=3", "--batch_size=2"]
    assert main(["train", *flags, "--device=cpu", f"--output={folder / 'run'}", *TINY]) == 0
    return folder / "run" / "stages" / f"01-{TASK}" / "checkpoint"


def lerobot_eval(flags: list[str]) -> None:
    """The command in a process of its own, which has to find our plugins."""
    program = Path(sys.executable).parent / "lerobot-eval"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(program), *flags], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


def lerobot_eval_here(flags: list[str]) -> None:
    """The command in this process, where LeRobot is imported already."""
    from lerobot.scripts import lerobot_eval

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lerobot-eval", *flags])
        lerobot_eval.eval_main()


@pytest.mark.parametrize(("batch", "command"), [(1, lerobot_eval), (2, lerobot_eval_here)])
def test_lerobot_evaluates_it(checkpoint, tmp_path, batch, command):
    flags = [f"--policy.path={checkpoint / 'policy'}", "--env.type=holdfast_twin", f"--env.task={TASK}"]
    flags += ["--env.height=32", "--env.width=32", "--env.episode_length=20", "--policy.device=cpu"]
    flags += ["--eval.n_episodes=2", f"--eval.batch_size={batch}", f"--output_dir={tmp_path}"]
    command(flags)
    found = json.loads((tmp_path / "eval_info.json").read_text())
    assert found["overall"]["n_episodes"] == 2
    assert found["overall"]["avg_sum_reward"] <= 1
    assert len(list(tmp_path.rglob("*.mp4"))) == 2


@pytest.mark.parametrize("which", ["checkpoint", "policy"])
def test_watch_shows_it(checkpoint, tmp_path, monkeypatch, capsys, which):
    monkeypatch.setattr(task_class(TASK), "max_steps", 60)
    draw_quickly(monkeypatch)
    out = tmp_path / "policy.mp4"
    folder = checkpoint if which == "checkpoint" else checkpoint / "policy"
    assert main(["watch", "--task", TASK, "--policy", str(folder), "--out", str(out)]) == 0
    assert "of 100" in capsys.readouterr().out
    assert out.stat().st_size > 10_000


def test_it_acts_by_chunks_holds_the_idle_arm_and_repeats_itself(checkpoint):
    from holdfast.arenas.learned import LearnedPolicy
    from holdfast.policies.pilot import Pilot

    twin = arenas.load("twin")
    episode, pilot = ScoredEpisode(twin, twin.task(TASK)), Pilot(checkpoint, twin.action)
    looked: list[int] = []
    runs = []
    for _ in range(2):
        episode.begin(2, "standard")
        policy = LearnedPolicy(episode, pilot, seed=1)
        real = policy._question
        policy._question = lambda real=real: (looked.append(episode.steps), real())[1]
        actions = []
        for _ in range(10):
            actions.append(policy.act())
            episode.step(actions[-1])
        runs.append(np.array(actions))
    assert looked == [0, 4, 8, 0, 4, 8], "n_action_steps is 4"
    assert np.array_equal(*runs)
    idle = ~EMBODIMENTS["piper_x_pair"].active(["left"])
    assert np.allclose(runs[0][:, idle], episode.environment.world.home[idle], atol=1e-3)
    assert np.ptp(runs[0][:, ~idle], axis=0).max() > 0

"""Commands show a sign of life before they import what takes seconds: torch, LeRobot, MuJoCo."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import pytest

from holdfast import catalog
from holdfast.core.json_records import to_json

GUARDED = """
import builtins, os, sys
usual = builtins.__import__
def guarded(name, *rest, **named):
    if name.partition(".")[0] in ("torch", "lerobot", "mujoco"):
        os.write(1, b"HEAVY")
        os._exit(0)
    return usual(name, *rest, **named)
builtins.__import__ = guarded
from holdfast.cli import main
main(sys.argv[1:])
os.write(1, b"HEAVY")
"""


@pytest.fixture
def folder(tmp_path):
    """A run that looks like one until it is opened."""
    checkpoint = tmp_path / "run" / "stages" / "01-press_button" / "checkpoint"
    checkpoint.mkdir(parents=True)
    settings = {"config": {"method": "er"}, "tasks": [to_json(catalog.task("press_button"))]}
    (tmp_path / "run" / "run.yaml").write_text(json.dumps(settings))
    (checkpoint / "buffer.json").write_text("{}")
    (checkpoint / "config.json").write_text(json.dumps({"stream": "single_arm", "data_root": "data"}))
    return tmp_path


def said_first(words, folder):
    """What a command says at a terminal before the first such import, or before it ends."""
    ours, its = pty.openpty()
    command = [sys.executable, "-c", GUARDED, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=its, stdout=its, stderr=its)
    os.close(its)
    said = b""
    with contextlib.suppress(OSError):  # it has ended
        while more := os.read(ours, 65536):
            said += more
    process.wait()
    os.close(ours)
    return said.decode().partition("HEAVY")[0]


@pytest.mark.parametrize(
    ("words", "sign"),
    [
        (["evaluate", "run"], "starting"),
        (["export", "buffer", "run", "--output=kept"], "reading the kept episodes"),
        (["serve", "bundle"], "loading the policy"),
        (["rollout", "--task=press_button", "--policy=run/stages/01-press_button/checkpoint"], "loading the policy"),
        (["watch", "--task=press_button", "--out=watched.mp4"], "opening the task"),
    ],
)
def test_a_sign_comes_before_heavy_imports(words, sign, folder):
    assert sign in said_first(words, folder)

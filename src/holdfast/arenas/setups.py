"""Arenas that Holdfast can set up: the packages of each, in versions that were seen to work together."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.arenas.arena_file import data_folder
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.files import write_text

_NEWEST = "2026-11-15"  # packages that these ask for are taken as they were on this day
_COMMON = ("gymnasium==1.4.0", "msgpack==1.2.4", "numpy==2.5.4")


@dataclass(frozen=True)
class ArenaSetup:
    """What an arena's environment holds, and what its file says.

    `without` names packages that others ask for and the simulator does not use. `timeout` is for those that take long
    to start.
    """

    packages: tuple[str, ...]
    worker: str
    options: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    timeout: float = 120.0


_ALOHA_JOINTS = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
_ALOHA = [f"{side}_{joint}" for side in ("left", "right") for joint in _ALOHA_JOINTS]
_TRANSFER = "Pick up the cube with the right arm and hand it to the left arm."
_PUSH = "Push the T-shaped block onto the T-shaped target."
_SLOW = 600.0  # seconds; LeRobot and torch start slowly, and LIBERO loads its assets from the hub at first
SETUPS = {
    "metaworld": ArenaSetup(("metaworld==3.0.0", "mujoco==3.8.1", "packaging", *_COMMON), "metaworld"),
    "pusht": ArenaSetup(
        ("gym-pusht==0.1.8", "pymunk==6.11.1", *_COMMON),
        "gymnasium",
        {
            "id": "gym_pusht:gym_pusht/PushT-v0",
            "instruction": _PUSH,
            "state": ["x", "y"],
            "action": ["x", "y"],
            "state_key": "agent_pos",
            "success": "is_success",
            "cameras": {"image": "pixels"},
            "make": {"obs_type": "pixels_agent_pos"},
        },
    ),
    "aloha": ArenaSetup(("gym-aloha==0.1.5", "mujoco==3.8.1", "packaging", *_COMMON), "aloha"),
    "libero": ArenaSetup(
        ("hf-libero==0.1.4", "mujoco==3.8.1", "huggingface-hub==2.4.0", "termcolor", "torch==2.11.0", "tqdm", *_COMMON),
        "libero",
        # What its training scripts use; egl-probe, which robomimic asks for, does not build with today's CMake.
        without=("hf-egl-probe", "hydra-core", "jupytext", "robomimic", "thop", "transformers", "wandb"),
        timeout=_SLOW,
    ),
    "lerobot-pusht": ArenaSetup(
        ("lerobot[pusht]==0.6.1", "gym-pusht==0.1.8", "msgpack==1.2.4"),
        "lerobot",
        {"type": "pusht", "instruction": _PUSH, "state": ["x", "y"], "action": ["x", "y"]},
        timeout=_SLOW,
    ),
    "lerobot-aloha": ArenaSetup(
        ("lerobot[aloha]==0.6.1", "gym-aloha==0.1.5", "mujoco==3.8.1", "msgpack==1.2.4"),
        "lerobot",
        {
            "type": "aloha",
            "instruction": _TRANSFER,
            "state": _ALOHA,
            "action": _ALOHA,
            "config": {"task": "AlohaTransferCube-v0"},
        },
        timeout=_SLOW,
    ),
}


def set_up(name: str, say: Callable[[str], None], check: Callable[[Path], None]) -> Path:
    """Make an arena's environment and file. The arena has its name only once `check` accepts the file.

    Args:
        name: One of `SETUPS`.
        say: Called with each step.
        check: Raises an error if the arena does not work.
    """
    if name not in SETUPS:
        raise unknown("arena to set up", name, SETUPS)
    setup, folder = SETUPS[name], data_folder() / "arenas" / name
    file, trying = folder / "arena.toml", folder / "trying.toml"
    file.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "env" / "bin" / "python"
    say(f"making {python.parents[1]}")
    _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(python.parents[1]))
    say(f"installing {', '.join(setup.packages)}")
    overrides = folder / "overrides.txt"
    write_text(overrides, "".join(f"{package}; python_version < '0'\n" for package in setup.without))
    flags = ("--quiet", "--compile-bytecode", "--python", str(python), "--overrides", str(overrides))
    _uv("pip", "install", *flags, "--exclude-newer", _NEWEST, *setup.packages)
    write_text(trying, _toml(name, setup))
    say("checking")
    check(trying)
    trying.rename(file)
    return file


def _uv(*arguments: str) -> None:
    beside = Path(sys.executable).parent
    program = shutil.which("uv") or shutil.which("uv", path=str(beside))
    if program is None:
        raise HoldfastError("Setting up an arena needs uv. Install it with: pip install uv")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HoldfastError(f"uv {' '.join(arguments[:2])} failed: {done.stderr.strip()[-1000:]}")


def _toml(name: str, setup: ArenaSetup) -> str:
    """The text of an arena's file. Text and lists of JSON are also TOML."""
    lines = [f'name = "{name}"', 'python = "env/bin/python"', f'worker = "{setup.worker}"']
    lines += [f"timeout = {setup.timeout:g}"]
    if setup.options:
        lines += ["", "[options]"]
        tables = {key: value for key, value in setup.options.items() if isinstance(value, dict)}
        lines += [f"{key} = {json.dumps(value)}" for key, value in setup.options.items() if key not in tables]
        for key, table in tables.items():
            lines += ["", f"[options.{key}]", *(f"{word} = {json.dumps(value)}" for word, value in table.items())]
    return "\n".join(lines) + "\n"

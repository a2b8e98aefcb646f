"""Robots as data: names, kinds, arms and limits, known by name or from a file; and the kinematics of PiPER-X."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json
from holdfast.core.outside import read_toml
from holdfast.embodiments.embodiment import Embodiment
from holdfast.embodiments.piper_x import PIPER_X_PAIR
from holdfast.embodiments.simulators import ALOHA, LIBERO, METAWORLD

EMBODIMENTS = {robot.name: robot for robot in (PIPER_X_PAIR, METAWORLD, LIBERO, ALOHA)}
_KEYS = ("name", "dimension", "state")  # of a file


def load(name: str) -> Embodiment:
    """Return a known embodiment by name, or read one from a TOML file.

    The file has a table `[[dimension]]` for each dimension of the action and may have one `[[state]]` for each of the
    state.
    """
    if name in EMBODIMENTS:
        return EMBODIMENTS[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise HoldfastError(f"{unknown('embodiment', name, EMBODIMENTS)} Or give a .toml file.")
    if not os.path.exists(path):
        raise HoldfastError(f"Embodiment file {name} does not exist.")
    content = read_toml(path)
    for key in content:
        if key not in _KEYS:
            raise HoldfastError(f"Embodiment file {name}: {unknown('key', key, _KEYS)}")
    robot = {"name": content.get("name", path.stem), "dimensions": content.get("dimension")}
    robot["states"] = content.get("state", [])
    try:
        return from_json(Embodiment, robot, f"Embodiment file {name}")
    except HoldfastError as error:
        raise HoldfastError(
            f"{error} Each [[dimension]] needs name, arm, kind, lower, upper and step, and may have fastest. Each "
            "[[state]] needs name, lower and upper."
        ) from None

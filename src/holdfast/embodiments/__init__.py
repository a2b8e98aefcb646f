"""Robots as data: names, arms and limits, known by name or read from a file; and the kinematics of PiPER-X."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json
from holdfast.core.outside import read_toml
from holdfast.embodiments.embodiment import Embodiment
from holdfast.embodiments.piper_x import PIPER_X_PAIR

EMBODIMENTS = {PIPER_X_PAIR.name: PIPER_X_PAIR}


def load(name: str) -> Embodiment:
    """Return a known embodiment by name, or read one from a TOML file with one `[[dimension]]` table per dimension."""
    if name in EMBODIMENTS:
        return EMBODIMENTS[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise unknown("embodiment (give one of these or a .toml file)", name, EMBODIMENTS)
    if not os.path.exists(path):
        raise HoldfastError(f"Embodiment file {name} does not exist.")
    content = read_toml(path)
    robot = {"name": content.get("name", path.stem), "dimensions": content.get("dimension")}
    try:
        return from_json(Embodiment, robot, f"Embodiment file {name}")
    except HoldfastError as error:
        raise HoldfastError(
            f"{error} Each [[dimension]] needs name, arm, kind, lower, upper and step, and may have fastest."
        ) from None

"""Robots as data: names, arms and limits, known by name or read from a file; and the kinematics of PiPER-X."""

from __future__ import annotations

import tomllib
from pathlib import Path

from holdfast.core.errors import HoldfastError, unknown
from holdfast.embodiments.embodiment import Dimension, Embodiment
from holdfast.embodiments.piper_x import PIPER_X_PAIR

EMBODIMENTS = {PIPER_X_PAIR.name: PIPER_X_PAIR}


def load(name: str) -> Embodiment:
    """Return a known embodiment by name, or read one from a TOML file with one `[[dimension]]` table per dimension."""
    if name in EMBODIMENTS:
        return EMBODIMENTS[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise unknown("embodiment (give one of these or a .toml file)", name, EMBODIMENTS)
    try:
        content = tomllib.loads(path.read_text())
        rows = content["dimension"]
        return Embodiment(content.get("name", path.stem), tuple(Dimension(**row) for row in rows))
    except FileNotFoundError:
        raise HoldfastError(f"Embodiment file {name} does not exist.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HoldfastError(
            f"Embodiment file {name} cannot be read ({error}). Each [[dimension]] needs name, arm, kind, lower, "
            "upper and step, and may have fastest."
        ) from None

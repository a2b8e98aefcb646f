"""The robot a run is trained for, stored in the run: normalization and masks depend on it, and its file may change.

embodiment.json is `{"embodiment": {...} or null, "sha256": ...}`; null says that the stream names no robot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import from_json, read_content, to_json
from holdfast.embodiments.embodiment import Dimension, Embodiment

_KEYS = {"embodiment", "sha256"}


def settle_embodiment(file: Path, asked: Embodiment | None) -> None:
    """Store the robot if the run has none stored yet; otherwise check that it is the same.

    The name may change: it is a file's name, and no number depends on it.
    """
    if not file.exists():
        content = to_json(asked)
        write_text(file, json.dumps({"embodiment": content, "sha256": _hash(content)}, indent=1))
        return
    changed = list(_differences(read_embodiment(file), asked))
    if changed:
        more = f" (and {len(changed) - 3} more)" if len(changed) > 3 else ""
        raise HoldfastError(
            f"{file.parent} was started with another robot: {'; '.join(changed[:3])}{more}. Its normalization and "
            f"masks follow from the one in {file}. Undo the change in the robot's file (or in the stream's "
            "`embodiment`) to continue, or use another --output for a new run."
        )


def read_embodiment(file: Path) -> Embodiment | None:
    """The stored robot; None when the run's stream names none."""
    content = read_content(file)
    if not isinstance(content, dict) or set(content) != _KEYS:
        raise HoldfastError(f"{file} must have the keys {' and '.join(sorted(_KEYS))}. {_RESTORE}")
    stored = content["embodiment"]
    if _hash(stored) != content["sha256"]:
        raise HoldfastError(f"{file} does not match its SHA-256: it was edited or damaged. {_RESTORE}")
    return None if stored is None else from_json(Embodiment, stored, str(file))


def find_embodiment(file: Path, otherwise: Callable[[], Embodiment | None]) -> Embodiment | None:
    """The stored robot; `otherwise` finds it for runs of versions that did not store it."""
    return read_embodiment(file) if file.exists() else otherwise()


def _differences(begun: Embodiment | None, asked: Embodiment | None) -> Iterator[str]:
    if begun is None or asked is None:
        if begun != asked:
            yield f"it was {begun.name if begun else 'none'}, now {asked.name if asked else 'none'}"
        return
    if begun.names != asked.names:
        yield f"its dimensions were {', '.join(begun.names)}, now {', '.join(asked.names)}"
        return
    for before, after in zip(begun.dimensions, asked.dimensions, strict=True):
        for field in fields(Dimension):
            one, other = getattr(before, field.name), getattr(after, field.name)
            if one != other:
                yield f"{field.name} of {before.name!r} was {one!r}, now {other!r}"
    if begun.states != asked.states:
        yield "its states have changed"


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


_RESTORE = "Restore it from a backup, or start a new run with another --output."

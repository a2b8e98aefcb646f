"""What a run stores of the user's own code, so that a changed file is noticed and nothing but training needs it.

method.json is `{"name": "my_methods.py:Mine", "sha256": ..., "arrangement": "stream"}`, selection.json the same without
the arrangement. Runs of our own methods and selections have neither.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.files import write_text
from holdfast.core.json_records import read_json, to_json
from holdfast.core.own_code import is_own, own_hash
from holdfast.methods import METHODS, method_class
from holdfast.methods.method import Arrangement
from holdfast.runs.paths import RunPaths


@dataclass(frozen=True)
class SelectionFile:
    """A selection's name and the SHA-256 of its file."""

    name: str
    sha256: str


@dataclass(frozen=True)
class MethodFile:
    """A method's name, the SHA-256 of its file, and how its stages are arranged."""

    name: str
    sha256: str
    arrangement: Arrangement


def settle_method(paths: RunPaths, name: str) -> None:
    """Store the method if it is the user's own, or check that its file is the one that the run was started with."""
    if is_own(name):
        _settle(paths.method, MethodFile(name, own_hash(name), method_class(name).arrangement))


def settle_selection(paths: RunPaths, name: str) -> None:
    """Store the selection if it is the user's own, or check that its file is the one that the run was started with."""
    if is_own(name):
        _settle(paths.selection, SelectionFile(name, own_hash(name)))


def _settle(file: Path, asked: MethodFile | SelectionFile) -> None:
    if not file.exists():
        write_text(file, json.dumps(to_json(asked), indent=1))
        return
    begun = read_json(type(asked), file)
    if begun.sha256 != asked.sha256:
        raise HoldfastError(
            f"{file.parent} was started with another version of {asked.name.rpartition(':')[0]}: its SHA-256 was "
            f"{begun.sha256[:12]}, now {asked.sha256[:12]}. Undo the change to continue, or use another --output."
        )


def arrangement_of(paths: RunPaths, name: str) -> Arrangement:
    """How the stages of a run are arranged. Only stored values are read: a folder may come from anywhere."""
    if name in METHODS:
        return METHODS[name].arrangement
    if not is_own(name):
        raise HoldfastError(f"{paths.settings}: {unknown('method', name, METHODS)}")
    return read_json(MethodFile, paths.method).arrangement

"""data_files.json: the dataset of every task as the run trained on it, with a hash of every file.

A stage that was interrupted goes on with the same bytes only, and the error names the files that differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import read_json, to_json

_NAMED = 3  # files that a message names; of the others it gives the number


@dataclass(frozen=True)
class DataFiles:
    """A task's dataset: its fingerprint, and the hashes of its files by their paths in it."""

    fingerprint: str
    files: dict[str, str]

    def differences(self, now: Mapping[str, str]) -> str:
        """The files that are not as they were, as text: `meta/info.json differs`."""
        names = sorted(name for name in {*self.files, *now} if self.files.get(name) != now.get(name))
        if not names:
            return "the mapping differs"
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{', '.join(names[:_NAMED])}{more} {'differs' if len(names) == 1 else 'differ'}"


@dataclass(frozen=True)
class _AllData:
    tasks: dict[str, DataFiles]


def read_data_files(file: Path) -> dict[str, DataFiles]:
    """Every task's dataset; none for a run of a version that did not store them."""
    try:
        return read_json(_AllData, file).tasks if file.exists() else {}
    except HoldfastError as error:
        raise HoldfastError(f"{error} Restore it, or delete it to go on with the data as it is.") from None


def keep_data_files(file: Path, task: str, data: DataFiles) -> None:
    """Store a task's dataset."""
    known = read_data_files(file)
    if known.get(task) != data:
        write_text(file, json.dumps(to_json(_AllData({**known, task: data})), indent=1))

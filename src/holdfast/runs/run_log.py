"""A run's log: every dataset it opened and when (proof that no later task's data was read), and every check."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.files import open_log
from holdfast.core.outside import parse_json, read_text

_LARGEST = 2**30  # bytes; a log grows with the training
RANGE_CHECK = "audit"  # the event's name in the file is older than the check's name


class RunLog:
    """Appends one JSON line per event, each under the stage that was running.

    Without a path nothing is written: of several ranks only the first writes.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.stage = 0

    def opened(self, dataset: str, root: Path) -> None:
        """Log that a dataset's files are about to be read."""
        self.write("open", dataset=dataset, root=str(root))

    def write(self, event: str, **fields: Any) -> None:
        """Append one event."""
        if self._path is None:
            return
        line = json.dumps({"time": round(time.time(), 3), "stage": self.stage, "event": event, **fields})
        with open_log(self._path) as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a log, but for those that are no objects: a kill leaves one half-written. Empty without a file."""
    lines = []
    for text in read_text(file, _LARGEST).splitlines() if file.exists() else []:
        with suppress(HoldfastError):
            line = parse_json(text, file, finite=False)
            if isinstance(line, dict):
                lines.append(line)
    return lines

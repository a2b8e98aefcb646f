"""A log of every dataset that a run opened and when: the proof that no later task was looked at."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class RunLog:
    """Appends one JSON line per event to `audit.jsonl`, each under the stage that was running.

    Without a path nothing is written: of several processes that train together one writes for all.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.stage = 0

    def opened(self, dataset: str, root: Path) -> None:
        """A dataset's files are about to be read."""
        self.write("open", dataset=dataset, root=str(root))

    def write(self, event: str, **fields: Any) -> None:
        """Append one event."""
        if self._path is None:
            return
        line = json.dumps({"time": round(time.time(), 3), "stage": self.stage, "event": event, **fields})
        with self._path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

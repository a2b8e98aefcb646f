"""Training beside a recording: a stage waits for the datasets it learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.core.clock import STEADY, Clock
from holdfast.core.records import StreamTask

_TICK = 0.2  # seconds


def wait_for_datasets(entries: Sequence[StreamTask], say: Callable[[str], None], clock: Clock = STEADY) -> None:
    """Wait until all datasets are there. A recording has its name only once it is complete, so none is read early."""
    for place in (Path(entry.dataset) for entry in entries):
        if not place.exists():
            say(f"Waiting for dataset {place}, a folder that `holdfast record` should be making. Ctrl-C stops.")
        while not place.exists():
            clock.sleep(_TICK)

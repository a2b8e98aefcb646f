"""Videos of trials: embedded in the page up to a budget, linked beyond it."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from holdfast.core.records import Trial
from holdfast.report.gather import RunResults
from holdfast.runs.paths import RunPaths

BUDGET = 20_000_000  # bytes of video in one page
_KINDS = {".mp4": "video/mp4", ".webm": "video/webm"}


@dataclass(frozen=True)
class Clip:
    """One video and what it shows. `source` is a data URI, or a path relative to the page if not `inside`."""

    run: str
    trial: Trial
    title: str
    source: str
    inside: bool


def clips(runs: Sequence[RunResults], page: Path, budget: int = BUDGET) -> list[Clip]:
    """The videos of all runs in reading order. The first of every cell are embedded first, then the second ones."""
    found: list[tuple[int, int, RunResults, Trial, Path]] = []
    for run in runs:
        seen: Counter[tuple[str, int]] = Counter()
        for trial in run.trials:
            file = RunPaths(run.path).find_video(trial.video, _KINDS) if trial.video else None
            if file:
                seen[trial.task, trial.stage] += 1
                found.append((seen[trial.task, trial.stage], len(found), run, trial, file))
    made: dict[int, Clip] = {}
    for _, position, run, trial, file in sorted(found, key=lambda entry: entry[:2]):
        size = file.stat().st_size
        inside = size <= budget
        budget -= size if inside else 0
        source = _inside(file) if inside else quote(os.path.relpath(file, page.resolve().parent))
        title = run.tasks[run.names.index(trial.task)].title
        made[position] = Clip(run.name, trial, title, source, inside)
    return [made[position] for position in sorted(made)]


def _inside(file: Path) -> str:
    return f"data:{_KINDS[file.suffix.lower()]};base64,{base64.b64encode(file.read_bytes()).decode()}"

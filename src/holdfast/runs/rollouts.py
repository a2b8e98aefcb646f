"""rollout.json: what is written down of an attempt on a robot, beside its video."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.errors import HoldfastError, say_once
from holdfast.core.files import write_text
from holdfast.core.json_records import from_json, read_content, to_json
from holdfast.core.records import OPERATOR, Trial, TrialProtocol
from holdfast.runs.paths import RolloutPaths, RunPaths
from holdfast.runs.trials import trial_from_row

_NEEDED = ("task", "stage", "seconds", "when", "policy", "normalization")  # by a trial that has no score yet


@dataclass(frozen=True)
class Rollout:
    """One attempt. Other programs that film attempts may leave out what has a default, and say more.

    `policy` is the SHA-256 of the weights, as in files of trials. `limited` counts the control steps that each rule of
    the limits changed; `episode` is that of the dataset, if there is one; `seed` and `milestones` are a simulator's.
    """

    task: str
    stage: int
    policy: str = ""
    normalization: str = ""
    operator: str = ""
    seconds: float = 0.0
    when: float = 0.0
    source: str = ""
    valid: bool = True
    why: str = ""
    protocol: TrialProtocol | None = None
    limited: dict[str, int] = field(default_factory=dict)
    slow: int = 0
    stopped_after: float = 0.0
    episode: int | None = None
    seed: int | None = None
    milestones: tuple[str, ...] | None = None


def write_rollout(files: RolloutPaths, rollout: Rollout) -> None:
    """Write the record, which ends the attempt."""
    write_text(files.record, json.dumps(to_json(rollout), indent=1))


def read_rollout(files: RolloutPaths, run: RunPaths) -> Trial | None:
    """A rollout as a trial without a score; None if it is not valid, or cannot be used, which is said once.

    Its source is the arena that has judged it, or people, who may do so later.
    """
    record, video = (run.relative(file) for file in (files.record, files.video))
    file = run.find_file(record)
    if not file or not run.find_video(video):
        return None
    try:
        content = read_content(file)
        if not isinstance(content, dict):
            raise HoldfastError(f"It must be an object with a task and a stage, got {content!r:.80}.")
        valid = content.get("valid", True)
        if valid not in (True, False, None):  # like 1 and 0
            raise HoldfastError(f"Its valid must be true or false, got {valid!r:.80}.")
        return _unscored(content, video) if valid in (True, None) else None
    except HoldfastError as error:
        say_once(f"holdfast: {file} cannot be used, so nobody can score its attempt. {error}")
        return None


def _unscored(content: dict[str, Any], video: str) -> Trial:
    """The trial, from what it needs; whatever else a file says may have any form."""
    row = {name: content[name] for name in _NEEDED if content.get(name) is not None}
    source = OPERATOR if content.get("milestones") is None else content.get("source", "")
    return trial_from_row({**row, "source": source, "protocol": _protocol(content), "milestones": [], "video": video})


def _protocol(content: dict[str, Any]) -> str:
    """The protocol, empty where it is not known. Before it had a key of its own it was in the notes, among others."""
    said = content.get("protocol")
    if isinstance(said, dict):
        return str(from_json(TrialProtocol, said, "Its protocol"))
    notes = "" if "protocol" in content else content.get("notes")
    return said or str(TrialProtocol.parse(str(notes)) or "")

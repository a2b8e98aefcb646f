"""rollout.json: what is written down of an attempt on a robot, beside its video."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import from_json, read_content, to_json
from holdfast.core.records import OPERATOR, Trial, TrialProtocol
from holdfast.runs.paths import RolloutPaths, RunPaths
from holdfast.runs.trials import trial_from_row


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
    """A rollout as a trial without a score; None if it is not valid, not readable or still being written.

    Its source is the arena that has judged it, or people, who may do so later.
    """
    record, video = (run.relative(file) for file in (files.record, files.video))
    file = run.find_file(record)
    if not file or not run.find_video(video):
        return None
    try:
        found = from_json(Rollout, _said(read_content(file)), record)
        return _unscored(found, video) if found.valid else None
    except HoldfastError:
        return None


def _said(content: Any) -> Any:
    """What a file says of the record; before the protocol had a key of its own, it was in the notes, in words."""
    if not isinstance(content, dict):
        return content
    protocol = TrialProtocol.parse(str(content.get("notes")))
    content = {"protocol": protocol and to_json(protocol), **content}
    known = {one.name for one in fields(Rollout)}
    return {key: value for key, value in content.items() if key in known and value is not None}


def _unscored(rollout: Rollout, video: str) -> Trial:
    row = {name: getattr(rollout, name) for name in ("task", "stage", "seconds", "when", "policy", "normalization")}
    source = OPERATOR if rollout.milestones is None else rollout.source
    protocol = str(rollout.protocol or "")
    return trial_from_row({**row, "source": source, "protocol": protocol, "milestones": [], "video": video})

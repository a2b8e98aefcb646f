"""Statistics of a task as its samples enter normalization, measured once and stored beside the frame cache.

LeRobot's stored quantiles are means of the episodes' quantiles and may be far from the dataset's; these come from the
values themselves. The file's key covers everything they depend on, and a digest detects damage: a flipped bit would
change the meaning of every action.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import from_json, read_content, to_json
from holdfast.data.cache.listing import QUANTILES
from holdfast.data.lerobot.source import ACTION, STATE
from holdfast.data.lesson import Layout, Lesson
from holdfast.norm.stats import CAPACITY, RunningStats
from holdfast.norm.strategies import Space

VERSION = 1  # raise it when the same numbers would be measured differently


def measure(lesson: Lesson, layout: Layout) -> Space:
    """Statistics of one task, in one pass over its values."""
    running = {STATE: RunningStats(), ACTION: RunningStats()}
    for feature, values in lesson.blocks(layout):
        running[feature].update(values)
    return Space(running[STATE].finish(), running[ACTION].finish())


def recall(lesson: Lesson, layout: Layout, root: Path) -> Space:
    """The same, read from an earlier run's file below `root` if there is an intact one."""
    file = root / QUANTILES / f"{_key(lesson, layout)}.json"
    try:
        stored = read_content(file)
        if stored["digest"] == _digest(stored["space"]):
            return from_json(Space, stored["space"], str(file))
    except (HoldfastError, KeyError, TypeError):
        pass  # not measured yet, or damaged
    space = measure(lesson, layout)
    content = to_json(space)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"dataset": lesson.source.dataset, "digest": _digest(content), "space": content}))
    return space


def _key(lesson: Lesson, layout: Layout) -> str:
    source = lesson.source
    arrays = (source.state, source.action, source.starts, source.ends)
    values = [xxhash.xxh3_128_hexdigest(np.ascontiguousarray(array)) for array in arrays]
    pairing = lesson.pairing
    pairs = [pairing.places.tolist(), pairing.of_kind("delta", "velocity").tolist()]
    pairs += [pairing.of_kind("binary").tolist()] if "binary" in pairing.kinds else []
    relative = [layout.relative.tolist(), layout.relative_to]
    view = [layout.action, relative, lesson.active.tolist(), lesson.hold, pairs]
    return _digest([VERSION, CAPACITY, source.action_names, values, view])[:20]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()

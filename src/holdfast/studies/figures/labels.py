"""What differs between the runs of a study, in readable words: "er, f_r 0.5" instead of a folder's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from holdfast.studies.telling import FIRST, telling_flags
from holdfast.train.config_flags import flag_text

# Flags with a word of their own; other flags go by the last part of their name.
WORDS = {
    "replay.frequency": "f_r",
    "replay.ratio": "ρ",
    "optim.lr": "learning rate",
    "optim.ema": "EMA",
    "policy.type": "policy",
    "policy.path": "policy",
    "norm.strategy": "normalization",
}
# Of the words that are symbols: the name, and what it means.
MEANINGS = {
    "replay.frequency": ("replay frequency", "share of the training that replays old episodes"),
    "replay.ratio": ("replay ratio", "episodes kept of all tasks together, as a share of the episodes of one task"),
}
STREAM = ("stream", "tasks")  # flags that decide which tasks are learned
_NEEDS_NO_NAME = ("stream", "method", "norm.strategy", "policy.type", "policy.path")
_MOST = 60  # characters of a label


def flag_words(flag: str) -> str:
    """A flag of `holdfast train` in words."""
    return WORDS.get(flag) or flag.rpartition(".")[2].replace("_", " ")


def value_words(value: Any) -> str:
    """A flag's value in words."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return flag_text(value)


def setting_words(flag: str, value: Any) -> str:
    """A flag with its value, or only the value where it speaks for itself."""
    if flag == "stream":
        return PurePath(str(value)).stem.replace("_", "-")
    return value_words(value) if flag in _NEEDS_NO_NAME else f"{flag_words(flag)} {value_words(value)}"


def label(settings: dict[str, Any], otherwise: str) -> str:
    """All settings in words, the stream and the method first; `otherwise` if there are none."""
    given = [flag for flag in settings if settings[flag] is not None]
    flags = sorted(given, key=lambda flag: FIRST.index(flag) if flag in FIRST else len(FIRST))
    text = ", ".join(setting_words(flag, settings[flag]) for flag in flags) or otherwise
    return _shortened(text)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def stream_names(streams: Sequence[dict[str, Any]], groups: Sequence[dict[str, Any]]) -> list[str]:
    """What to call the streams of a study: by their names and, where several have one name, by their tasks."""
    flags = [next((g["settings"].get("stream") for g in groups if g["stream"] == n), None) for n in range(len(streams))]
    names = []
    for flag, stream in zip(flags, streams, strict=True):
        tasks = " → ".join(task["title"] for task in stream["tasks"]) if flags.count(flag) > 1 else ""
        name = setting_words("stream", flag) if flag else ""
        names.append(_shortened(", ".join(filter(None, (name, tasks))) or "stream"))
    return names


def labels(groups: Sequence[dict[str, Any]], without: Sequence[str] = ()) -> list[str]:
    """The labels of a study's groups, no two alike; settings `without` are left out.

    Settings are those that differ in the whole study. So stream and method are told even if only one was measured.
    """
    settings = [{k: v for k, v in group["settings"].items() if k not in without} for group in groups]
    found: list[str] = []
    for group, own_settings, told in zip(groups, settings, telling_flags(settings), strict=True):
        own = label({key: own_settings[key] for key in own_settings if key in (*FIRST, *told)}, group["method"])
        same = sum(text == own or text.startswith(f"{own} (") for text in found)
        found.append(f"{own} ({same + 1})" if same else own)
    return found

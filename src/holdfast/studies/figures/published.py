"""The paper's values for what a study varies. They were measured on a real robot."""

from __future__ import annotations

from holdfast import catalog
from holdfast.methods import METHODS
from holdfast.studies.figures.labels import STREAM
from holdfast.studies.figures.plot import ShownGroup, ShownStream

_RATIO, _FREQUENCY = "replay.ratio", "replay.frequency"
# What the paper varied; a group that sets anything else has no published counterpart.
_VARIED = {*STREAM, "method", _RATIO, _FREQUENCY, "replay.share", "replay.weights", "norm.strategy"}
_STRATEGY = "frozen-first"  # of all published tables


def published_score(stream: ShownStream, group: ShownGroup, metric: str) -> float | None:
    """The published value of a metric for a group's method and settings on the same stream."""
    table, method = stream.numbers["published"], group.numbers["method"]
    if not table or not _VARIED.issuperset(group.numbers["settings"]):
        return None
    if group.setting("norm.strategy") not in (None, _STRATEGY):
        return None
    rows = [row for row in table["rows"] if row["method"] == method]
    if method in METHODS and METHODS[method].replays:
        rows = [row for row in rows if _replays(group, row["schedule"])]
    varied = table["stream"], method, group.setting(_RATIO), group.setting(_FREQUENCY)
    ablations = [
        one.bwt
        for one in catalog.paper()["ablations"]
        if metric == "bwt" and (one.stream, one.method, one.ratio, one.frequency) == varied
    ]
    return next(iter([*(row[metric] for row in rows), *ablations]), None)


def _replays(group: ShownGroup, schedule: str) -> bool:
    """Whether a group replays as a published row does: by a named schedule, or with the settings that all share."""
    paper = catalog.paper()
    shared = paper["hyperparameters"]
    ratio, frequency, weighted = shared.replay_ratio, shared.replay_frequency, False
    if schedule:
        named = paper["schedules"][schedule]
        ratio, frequency, weighted = named.ratio, named.frequency, bool(named.weights)
    same = group.setting(_RATIO) == ratio and group.setting(_FREQUENCY) == frequency
    return same and (group.setting("replay.share") == "group") == weighted


def published_sweep(flag: str, metric: str) -> tuple[str, list[tuple[float, float]]]:
    """The stream on which a replay flag was varied, and the published values of a metric by the flag's value."""
    paper = catalog.paper()
    shared = paper["hyperparameters"]
    if metric != "bwt" or flag not in (_RATIO, _FREQUENCY):
        return "", []
    if flag == _RATIO:
        points = [(one.ratio, one.bwt) for one in paper["ablations"] if one.frequency == shared.replay_frequency]
    else:
        points = [(one.frequency, one.bwt) for one in paper["ablations"] if one.ratio == shared.replay_ratio]
    return ", ".join(paper["sweeps"].streams).replace("_", "-"), sorted(points)

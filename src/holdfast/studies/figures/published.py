"""The paper's values for what a study varies. They were measured on a real robot."""

from __future__ import annotations

from holdfast import catalog
from holdfast.studies.figures.plot import ShownGroup, ShownStream

_RATIO, _FREQUENCY = "replay.ratio", "replay.frequency"


def published_score(stream: ShownStream, group: ShownGroup, metric: str) -> float | None:
    """The published value of a metric for the method and the settings of a group on the same stream."""
    table = stream.numbers["published"]
    shared = catalog.paper()["hyperparameters"]
    replays = {_RATIO: shared.replay_ratio, _FREQUENCY: shared.replay_frequency}
    if not table or (group.numbers["method"] == "er" and any(group.setting(k) != v for k, v in replays.items())):
        return None
    rows = [row for row in table["rows"] if row["method"] == group.numbers["method"] and not row["schedule"]]
    found: float | None = rows[0][metric] if rows else None
    return found


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

"""What a report has found, in one sentence for every source of trials, and the title of its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

type Plain = dict[str, Any]

_MOST = 3  # runs in the title


def findings(runs: Sequence[Plain], differences: Sequence[Plain]) -> list[str]:
    """A sentence with its interval for every source: how two runs differ, or how well one run does."""
    found = []
    for source in dict.fromkeys(run["source"] for run in runs):
        own = [run for run in runs if run["source"] == source and run["trials"]]
        pairs = [d for d in differences if d["source"] == source and _value(d["average_score"]) is not None]
        found.append(_difference(runs, pairs) if pairs else _single(own) if own else "No trial was made yet.")
    return found


def title(runs: Sequence[Plain]) -> str:
    """What the page shows: the average score of every run."""
    named = [f"{run['label']}{_after(run)}" for run in runs]
    names = ", ".join(named[:_MOST]) + (f" and {len(named) - _MOST} more" if len(named) > _MOST else "")
    counts = sorted({len(run["tasks"]) for run in runs})
    tasks = f"{' or '.join(map(str, counts))} task{'s' if counts != [1] else ''}"
    measured = any(_value(run["final"]["average_score"]) is not None for run in runs)
    return f"{names}: {'average score over' if measured else 'training on'} {tasks}"


def _after(run: Plain) -> str:
    value = _value(run["final"]["average_score"])
    return "" if value is None else f" {value:.1f}"


def _difference(runs: Sequence[Plain], pairs: Sequence[Plain]) -> str:
    """The largest difference of two runs; of runs that learn in stages, if there are such."""

    def weight(pair: Plain) -> tuple[bool, float]:
        alike = runs[pair["position"]]["continual"] == runs[pair["less_position"]]["continual"]
        return alike, abs(pair["average_score"]["value"])

    pair = max(pairs, key=weight)
    run, less, figure = runs[pair["position"]], runs[pair["less_position"]], pair["average_score"]
    where = f"on average over {_tasks(run)}"
    basis = f"{pair['seeds']} shared layout{'s' if pair['seeds'] != 1 else ''} a cell, {_judged(run)}"
    points = f"{abs(figure['value']):.1f} points"
    if figure["low"] is None:
        more = "more" if figure["value"] >= 0 else "less"
        return f"{run['name']} scores {points} {more} than {less['name']} {where}, without an interval ({basis})."
    interval = f"95 % interval {figure['low']:+.1f} to {figure['high']:+.1f}".replace("-", "−")
    if figure["low"] <= 0 <= figure["high"]:
        return (
            f"{run['name']} and {less['name']} do not differ beyond chance {where}: "
            f"{figure['value']:+.1f} points ({interval}; {basis})."
        ).replace(": -", ": −")
    more = "more" if figure["value"] > 0 else "less"
    return f"{run['name']} scores {points} {more} than {less['name']} {where} ({interval}; {basis})."


def _single(runs: Sequence[Plain]) -> str:
    run = max(runs, key=lambda run: (_value(run["final"]["average_score"]) is not None, _score(run)))
    average, bwt = run["final"]["average_score"], run["final"]["bwt"]
    if average["value"] is None:
        missing = ", ".join(average["missing"][:3])
        return f"{run['name']} has no average score yet: {missing} was not measured ({_judged(run)})."
    said = f"{run['name']} scores {_figure(average)} on average over {_tasks(run)}"
    if bwt["value"] is not None:
        said += f"; earlier tasks changed by {_figure(bwt, '+')} points since they were learned"
    return f"{said} ({_judged(run)})."


def _figure(figure: Plain, sign: str = "") -> str:
    text = f"{figure['value']:{sign}.1f}"
    if figure["low"] is not None:
        text += f" (95 % interval {figure['low']:{sign}.1f} to {figure['high']:{sign}.1f})"
    return text.replace("-", "−")


def _tasks(run: Plain) -> str:
    count = len(run["tasks"])
    how = " learned one after another" if run["continual"] and count > 1 else ""
    return f"{count} task{'s' if count != 1 else ''}{how}"


def _judged(run: Plain) -> str:
    return f"judged by {run['source']}"


def _score(run: Plain) -> float:
    return _value(run["final"]["average_score"]) or 0.0


def _value(figure: Plain | None) -> float | None:
    return figure["value"] if figure else None

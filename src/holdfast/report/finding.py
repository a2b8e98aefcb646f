"""What a report has found, in one sentence for every source of trials, and the title of its page."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.json_records import Plain

_MOST = 3  # runs in the title


def findings(runs: Sequence[Plain], differences: Sequence[Plain]) -> list[str]:
    """A sentence with its interval for every source: how two runs differ, or how well they do."""
    found = []
    for source in dict.fromkeys(run["source"] for run in runs):
        own = [run for run in runs if run["source"] == source and run["trials"]]
        pairs = [d for d in differences if d["source"] == source and _value(d["average_score"]) is not None]
        found.append(_difference(runs, pairs) if pairs else _scores(own) if own else "No trial was made yet.")
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
    where, low, high = f"on average over {_tasks(run)}", figure["low"], figure["high"]
    basis = f"{pair['seeds']} shared layout{'s' if pair['seeds'] != 1 else ''} a cell, {_judged(run)}"
    if low is not None and low <= 0 <= high:
        said = (
            f"{run['name']} and {less['name']} do not differ beyond chance {where}: {_signed(figure['value'])} points"
        )
    else:
        more = "more" if figure["value"] >= 0 else "less"
        said = f"{run['name']} scores {abs(figure['value']):.1f} points {more} than {less['name']} {where}"
    interval = "no interval" if low is None else f"95 % interval {_signed(low)} to {_signed(high)}"
    return f"{said} ({interval}; {basis})."


def _scores(runs: Sequence[Plain]) -> str:
    """The best run, and how far the others are behind, where no layouts are shared."""
    measured = [run for run in runs if _value(run["final"]["average_score"]) is not None]
    if not measured:
        missing = ", ".join(runs[0]["final"]["average_score"]["missing"][:3])
        return f"{runs[0]['name']} has no average score yet: {missing} was not measured ({_judged(runs[0])})."
    best, *others = sorted(measured, key=lambda run: -run["final"]["average_score"]["value"])
    said = f"{best['name']} scores {_figure(best['final']['average_score'])} on average over {_tasks(best)}"
    if others:
        named = (f"{run['name']} {_figure(run['final']['average_score'])}" for run in others[:_MOST])
        said += f", {', '.join(named)}, at layouts that they do not share"
    elif (bwt := best["final"]["bwt"])["value"] is not None:
        said += f"; earlier tasks changed by {_figure(bwt, signed=True)} points since they were learned"
    return f"{said} ({_judged(best)})."


def _figure(figure: Plain, signed: bool = False) -> str:
    value, low, high = (_signed(n) if signed else _plain(n) for n in (figure["value"], figure["low"], figure["high"]))
    return value if figure["low"] is None else f"{value} (95 % interval {low} to {high})"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")


def _tasks(run: Plain) -> str:
    count = len(run["tasks"])
    how = " learned one after another" if run["continual"] and count > 1 else ""
    return f"{count} task{'s' if count != 1 else ''}{how}"


def _judged(run: Plain) -> str:
    return f"judged by {run['source']}"


def _value(figure: Plain | None) -> float | None:
    return figure["value"] if figure else None

"""The numbers of the report as plain values: computed once, written to metrics.json and shown by the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from holdfast import __version__, catalog
from holdfast.core.json_records import Plain
from holdfast.core.records import Matrix, Task
from holdfast.metrics import Figure, mean_of_means, summarize
from holdfast.report.compare import correlation, difference
from holdfast.report.finding import findings, title
from holdfast.report.gather import WITHOUT_STAGES, RunResults

_NOTABLE = 0.05  # a smaller share of trials shows neither that a task was learned nor that it broke


def summary(runs: Sequence[RunResults]) -> Plain:
    """All numbers of the page. A run that several sources have judged stands there once for each of them."""
    several = len({run.source for run in runs}) > 1
    shown = [_run(run, f"{run.name} ({run.source})" if several else run.name) for run in runs]
    differences = list(_differences(runs))
    tables = dict.fromkeys((run.names, run.source) for run in runs)
    return {
        "holdfast": __version__,
        "title": title(shown),
        "findings": findings(shown, differences),
        "runs": shown,
        "training": [_training(runs, position) for position in _first_of_each(runs)],
        "differences": differences,
        "streams": [_stream(runs, *table) for table in tables],
    }


def _stream(runs: Sequence[RunResults], names: tuple[str, ...], source: str) -> Plain:
    """Runs on the same tasks in the same order by the same source, for one table."""
    mine = [position for position, run in enumerate(runs) if (run.names, run.source) == (names, source)]
    trials = sum(len(runs[position].trials) for position in mine)
    return {"tasks": names, "source": source, "runs": mine, "trials": trials, "published": published(names)}


def _first_of_each(runs: Sequence[RunResults]) -> list[int]:
    """Positions of the runs, each folder once, whatever the number of its sources."""
    paths = [run.path for run in runs]
    return [position for position, path in enumerate(paths) if path not in paths[:position]]


def published(names: tuple[str, ...]) -> Plain | None:
    """The real-robot figures of the stream of these tasks; None if it was not published."""
    for stream in catalog.streams():
        if catalog.load_stream(stream, data_root=".").names == names:
            paper = catalog.paper()
            rows = [asdict(row) for row in paper["rows"] if row.stream == stream]
            return {"title": paper["title"], "code": paper["code"], "stream": stream, "rows": rows} if rows else None
    return None


def _differences(runs: Sequence[RunResults]) -> Iterator[Plain]:
    """Every run less the first one of the same source."""
    sources = [run.source for run in runs]
    for position, run in enumerate(runs):
        first = sources.index(run.source)
        if first < position:
            found = difference(run, runs[first])
            none = {"run": run.name, "less": runs[first].name, "seeds": 0, "average_score": None}
            yield (asdict(found) if found else none) | {
                "source": run.source, "position": position, "less_position": first
            }  # fmt: skip


def _training(runs: Sequence[RunResults], position: int) -> Plain:
    """What the training of a run has logged; `position` is that of its results."""
    run = runs[position]
    return {
        "name": run.name,
        "position": position,
        "tasks": [{"name": task.name, "title": task.title} for task in run.tasks],
        "replay": _replay(run),
        "replayed": sum(line.get("replay_steps", 0) for stage in run.stages for line in stage.lines),
        "range_checks": _range_checks(run),
    }


def _run(run: RunResults, label: str) -> Plain:
    stages = summarize(run.matrix)
    final: Plain = asdict(stages[-1])
    if not run.continual:  # without stages there is no transfer
        final |= {"bwt": asdict(Figure(None)), "fwt": asdict(Figure(None))}
    return {
        "name": run.name,
        "source": run.source,
        "label": label,
        "method": run.method,
        "continual": run.continual,
        "seed": run.config.get("seed"),
        "tasks": [{"name": task.name, "title": task.title, "instruction": task.instruction} for task in run.tasks],
        "trials": len(run.trials),
        "scores": _scores(run.matrix) if run.trials else None,
        "matrix": matrix_rows(run, run.matrix, with_milestones=True),
        "baseline": [_cell(run.matrix.baseline.get(i)) for i in range(1, len(run.tasks) + 1)],
        "stages": [asdict(stage) for stage in stages] if run.continual else [],
        "final": final,
        "milestones": [_milestones(run, i) for i, task in enumerate(run.tasks, 1) if task.milestones and run.trials],
        "penalties": _penalties(run),
        "heldout": _heldout(run),
    }


def _scores(matrix: Matrix) -> Plain:
    """The scores of all trials in the form that `holdfast metrics` reads."""
    size, stages = len(matrix.tasks), len(matrix.learned)
    rows = [[matrix.cells.get((i, j)) for i in range(1, size + 1)] for j in range(1, stages + 1)]
    return {
        "tasks": list(matrix.tasks),
        "cells": rows,
        "baseline": [matrix.baseline.get(i) for i in range(1, size + 1)],
    }


def matrix_rows(run: RunResults, matrix: Matrix, with_milestones: bool = False) -> list[Plain]:
    """A matrix in the paper's layout: a row per stage, a column per task; None where nothing was measured."""
    rows = []
    for stage in run.rows:
        cells = []
        for i, task in enumerate(run.tasks, 1):
            cell = _cell(matrix.cells.get((i, stage)))
            if cell and with_milestones:
                cell |= {"milestones": _shares(run, task, i, stage)}
            cells.append(cell)
        learned = run.matrix.learned[stage - 1]
        label = run.tasks[learned - 1].title if run.continual else WITHOUT_STAGES[run.arrangement]
        rows.append({"stage": stage, "learned": learned, "label": label, "cells": cells})
    return rows


def _cell(scores: Sequence[float] | None) -> Plain | None:
    if not scores:
        return None
    figure = mean_of_means([scores])
    return {"mean": figure.value, "low": figure.low, "high": figure.high, "trials": len(scores)}


def _shares(run: RunResults, task: Task, i: int, stage: int) -> dict[str, float]:
    """Share of a cell's trials that reached each milestone; empty without trials."""
    trials = run.of(i, stage)
    if not trials:
        return {}
    return {m.name: sum(m.name in t.milestones for t in trials) / len(trials) for m in task.milestones}


def _milestones(run: RunResults, i: int) -> Plain:
    """How far trials of one task got after each stage, and the milestone that lost most since its own stage."""
    task = run.tasks[i - 1]
    learned, last = run.matrix.learned, run.rows[-1]
    first, own = learned.index(i) + 1, len(learned) - learned[::-1].index(i)  # of its visits, the last counts
    stages = [stage for stage in run.rows if stage >= first]
    shares = {stage: found for stage in stages if (found := _shares(run, task, i, stage))}
    rows = [
        {"name": m.name, "text": m.text, "shares": [shares[s][m.name] if s in shares else None for s in stages]}
        for m in task.milestones
    ]
    kept: Plain = {"state": "just learned" if own == last else "not measured"}
    if own < last and own in shares and last in shares:
        kept = _breaks(shares[own], shares[last])
    return {"task": task.name, "title": task.title, "stages": stages, "rows": rows, "kept": kept}


def _breaks(then: dict[str, float], now: dict[str, float]) -> Plain:
    """The milestone with the largest loss beyond that of the milestone before it, if there is a loss."""
    if max(then.values()) <= _NOTABLE:
        return {"state": "never learned"}
    fallen = {name: then[name] - now[name] for name in then}
    before = dict(zip(fallen, [0.0, *fallen.values()], strict=False))
    worst = max(fallen, key=lambda name: fallen[name] - before[name])
    if fallen[worst] <= _NOTABLE:
        return {"state": "holds"}
    return {"state": "breaks", "milestone": worst, "before": then[worst], "after": now[worst]}


def _penalties(run: RunResults) -> list[Plain]:
    """Penalties given at least once: how often, and in how many trials of the cell."""
    rows = []
    for i, task in enumerate(run.tasks, 1):
        for penalty in task.penalties:
            given = []
            for stage in run.rows:
                trials = run.of(i, stage)
                counts = [trial.penalties.get(penalty.name, 0) for trial in trials]
                given.append({"count": sum(counts), "trials": len(trials)} if trials else None)
            if any(cell and cell["count"] for cell in given):
                entry = {"task": task.name, "title": task.title, "name": penalty.name, "text": penalty.text}
                rows.append(entry | {"value": penalty.value, "given": given})
    return rows


def _heldout(run: RunResults) -> Plain | None:
    if run.heldout is None:
        return None
    return {"matrix": matrix_rows(run, run.heldout), "correlation": asdict(correlation(run.heldout, run.matrix))}


def _replay(run: RunResults) -> list[Plain]:
    """Per stage: samples drawn of every task, how many steps replayed, and the episodes kept at its end."""
    rows = []
    for stage in run.stages:
        drawn: Counter[str] = Counter()
        for line in stage.lines:
            drawn.update(line.get("samples", {}))
        total = sum(drawn.values())
        if total:
            rows.append(
                {
                    "stage": stage.number,
                    "label": stage.name,
                    "steps": sum(line.get("steps", 0) for line in stage.lines),
                    "replay_steps": sum(line.get("replay_steps", 0) for line in stage.lines),
                    "samples": [drawn.get(name, 0) for name in run.names],
                    "shares": [drawn.get(name, 0) / total for name in run.names],
                    "kept": [list(stage.kept[name]) if name in stage.kept else None for name in run.names],
                }
            )
    return rows


def _range_checks(run: RunResults) -> list[Plain]:
    """Per task: the dimension that leaves [-1, 1] furthest, and all dimensions."""
    match run.config:
        case {"norm": {"limit": int() | float() as limit}}:
            pass
        case _:
            limit = 10.0
    tasks = []
    for check in run.range_checks:
        rows = check["rows"]
        worst = max(rows, key=lambda row: math.inf if math.isnan(row["largest"]) else row["largest"])
        tasks.append(
            {
                "stage": check["stage"],
                "task": check["task"],
                "space": check.get("space", ""),
                "limit": limit,
                "beyond": [row["name"] for row in rows if not row["largest"] <= limit],
                "worst": worst,
                "outside": max(row["outside"] for row in rows),
                "widened": sum(row["widened"] for row in rows),
                "rows": rows,
            }
        )
    return tasks

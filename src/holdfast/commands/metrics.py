"""`holdfast metrics FILE`: average score, backward and forward transfer of a run or of a matrix of scores."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError, printable, unknown
from holdfast.core.outside import LARGEST, decode, parse_json, read_text
from holdfast.core.records import Matrix
from holdfast.core.tables import without_empty_columns
from holdfast.matrix_files import matrix_from_csv, matrix_from_json
from holdfast.metrics import Figure, StageMetrics, summarize

_WIDEST = 50  # tasks in a table
_MOST_TASKS, _MOST_TRIALS = 2000, 200_000  # of all runs of a report
_HELP = """\
Compute, after every stage of a stream of tasks:

  as    average score of the tasks learned so far
  bwt   backward transfer: how much earlier tasks changed since they were learned (negative: forgetting)
  fwt   forward transfer: how much better a task is learned than when trained on its own (needs the baseline)

FILE is a run's folder, the metrics.json of its report, or a file of scores. Trials of different sources, as of the twin
and of operators, are never averaged: each source of a run has a matrix of its own; --source shows one.

A file of scores (0 to 100 in the benchmark) may be JSON, where row j lists the scores of tasks 1..j after stage j:

  {"tasks": ["stack_bowls", "hang_cup", "press_button"],
   "cells": [[100], [80, 95], [75, 90, 100]],
   "baseline": [100, 97.5, 100]}

An entry is a score, a list of the scores of single trials ([100, 75, 50]), or null where nothing was measured.
With at least two trials behind every score used, a 95 % bootstrap interval over trials is added.
A row may also list tasks not yet learned; the metrics ignore them. "baseline", the score of each task
trained on its own, may be left out.

As CSV, an empty field is a score that was not measured, and the last row may give the baseline:

  stage,stack_bowls,hang_cup,press_button
  1,100,,
  2,80,95,
  3,75,90,100
  baseline,100,97.5,100

A metric that needs an unmeasured score stays empty, and the missing score is named.
"""
_EXAMPLES = """\
examples:
  holdfast metrics runs/single_arm-er
  holdfast metrics runs/single_arm-er --source operator
  holdfast metrics runs/single_arm-er --baseline runs/single_arm-finetune    with fwt
  holdfast metrics runs/single_arm-er/report/metrics.json --json
  holdfast metrics scores.csv
  holdfast metrics scores.json --json
  echo '{"tasks": ["a", "b"], "cells": [[90], [60, 80]]}' | holdfast metrics -
"""


def main(argv: list[str]) -> int:
    """Run `holdfast metrics`."""
    parser = Parser(
        prog="holdfast metrics",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "file", metavar="FILE", help="a run's folder, a .json or .csv file, or - to read JSON from standard input"
    )
    parser.add_argument("--source", help="of a run: only the trials of this source, as twin or operator")
    parser.add_argument("--baseline", type=Path, metavar="RUN", help="of a run: one of method finetune, for fwt")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables; of runs, a list")
    args = parser.parse_args(argv)

    is_run = os.path.isdir(args.file)
    if args.baseline is not None and not is_run:
        raise HoldfastError(f"--baseline is for a run's folder; in a file like {args.file}, give a row 'baseline'.")
    found = _read_run(Path(args.file), args.baseline) if is_run else _load(args.file)
    if isinstance(found, list):
        _print_runs(_of_source(found, args.source, args.file), args.json)
    elif args.source is not None:
        raise HoldfastError(f"{args.file} holds scores of no source. Leave --source away, or name a run's folder.")
    elif args.json:
        print(json.dumps(_as_json(found, summarize(found))))
    else:
        print_metrics(found)
    return 0


@dataclass(frozen=True)
class _JudgedRun:
    """The scores of a run by one source. A run is not `continual` if it learned its tasks together, or each alone."""

    name: str
    source: str
    continual: bool
    matrix: Matrix


def _load(name: str) -> Matrix | list[_JudgedRun]:
    what = "standard input" if name == "-" else name
    text = decode(sys.stdin.buffer.read(LARGEST + 1), what) if name == "-" else _read(name)
    try:
        if name.lower().endswith(".csv"):
            return matrix_from_csv(text)
        content = parse_json(text, "The matrix")
        is_report = isinstance(content, dict) and "runs" in content
        return _reported(content["runs"]) if is_report else matrix_from_json(content)
    except HoldfastError as error:
        raise HoldfastError(f"{what}: {error}") from None


def _read_run(folder: Path, baseline: Path | None) -> list[_JudgedRun]:
    from holdfast.report.gather import gather
    from holdfast.runs.run import read_baseline

    found = gather([folder, *([read_baseline(baseline).path] if baseline else [])])
    own = [run for run in found if run.path == folder and run.trials]
    return [_JudgedRun(run.name, run.source, run.continual, run.matrix) for run in own]


def _reported(runs: Any) -> list[_JudgedRun]:
    """The runs in the metrics.json of a report."""
    found = []
    for number, run in enumerate(runs if isinstance(runs, list) else [runs], 1):
        match run:
            case {"name": str() as name, "source": str() as source, "continual": bool() as continual, "scores": scores}:
                if scores is not None:
                    found.append(_JudgedRun(name, source, continual, matrix_from_json(scores)))
            case _:
                raise HoldfastError(f"run {number} has no scores. Make the report again with `holdfast report`.")
    tasks = sum(len(run.matrix.tasks) for run in found)
    trials = sum(len(cell) for run in found for cell in run.matrix.cells.values())
    if tasks > _MOST_TASKS or trials > _MOST_TRIALS:
        most = f"{_MOST_TASKS} tasks and {_MOST_TRIALS} trials in all"
        raise HoldfastError(f"a report has at most {most}, got {tasks} and {trials}. Name a run's folder instead.")
    return found


def _of_source(runs: list[_JudgedRun], source: str | None, what: str) -> list[_JudgedRun]:
    if not runs:
        raise HoldfastError(f"{what} has no trials yet. Run `holdfast evaluate` or `holdfast score` first.")
    sources = dict.fromkeys(run.source for run in runs)
    if source is not None and source not in sources:
        raise unknown(f"source of the trials in {what}", source, sources)
    return [run for run in runs if source in (None, run.source)]


def _print_runs(runs: list[_JudgedRun], as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"run": r.name, "source": r.source} | _as_json(r.matrix, summarize(r.matrix)) for r in runs]))
        return
    console = Console(highlight=False)
    for run in runs:
        console.rule(escape(printable(f"{run.name}, judged by {run.source}")), align="left")
        print_metrics(run.matrix, run.continual)


def _read(name: str) -> str:
    if not os.path.exists(name):
        raise HoldfastError(f"There is no file {name}. `holdfast metrics --help` shows what it should hold.")
    if not name.lower().endswith((".json", ".csv")):
        raise HoldfastError(f"{name} must end in .json or .csv, so that it is clear how to read it.")
    return read_text(Path(name))


def _figures(stages: list[StageMetrics]) -> dict[str, list[Figure]]:
    return {
        "as": [stage.average_score for stage in stages],
        "bwt": [stage.bwt for stage in stages],
        "fwt": [stage.fwt for stage in stages],
    }


def _as_json(matrix: Matrix, stages: list[StageMetrics]) -> dict[str, object]:
    figures = _figures(stages)
    return {
        "tasks": list(matrix.tasks),
        "stages": [stage.stage for stage in stages],
        **{name: [figure.value for figure in column] for name, column in figures.items()},
        "intervals": {
            name: [None if figure.low is None else [figure.low, figure.high] for figure in column]
            for name, column in figures.items()
        },
        "missing": {name: [list(figure.missing) for figure in column] for name, column in figures.items()},
    }


def print_metrics(matrix: Matrix, continual: bool = True) -> None:
    """Print a matrix and its metrics after every stage, and name what is missing; without stages, every task's mean."""
    if not continual:
        _print_means(matrix)
        return
    stages = summarize(matrix)
    # A pipe has no width; ten stages need about 100 columns, and numbers must not be folded.
    console = Console(width=max(120, Console().width), highlight=False)
    intervals = any(figure.low is not None for column in _figures(stages).values() for figure in column)
    if len(matrix.learned) <= _WIDEST:
        console.print("[bold]Score of each task after each stage[/]", _matrix_table(matrix), sep="\n")
    else:
        console.print(f"The scores of {len(matrix.tasks)} tasks are too wide for a table.")
    title = "Metrics after each stage" + (", with 95 % intervals over trials" if intervals else "")
    console.print(f"\n[bold]{title}[/]", _metrics_table(stages), sep="\n")
    for line in _missing(matrix, stages):
        console.print(escape(line), soft_wrap=True)


def _print_means(matrix: Matrix) -> None:
    console, last = Console(highlight=False), len(matrix.tasks)
    scores = matrix.baseline or {i: cell for (i, _), cell in matrix.cells.items()}
    for i, task in enumerate(matrix.tasks, 1):
        if i in scores:
            mean = f"{_mean(scores[i]):>6}  of {len(scores[i])} trials"
            console.print(f"{escape(task):>16} {mean}")
    average = summarize(Matrix(matrix.tasks, {(i, last): cell for i, cell in scores.items()}))[-1].average_score
    if average.value is not None:
        console.print(f"{'mean':>16} {_text(average, ''):>6}")


def _missing(matrix: Matrix, stages: list[StageMetrics]) -> Iterator[str]:
    """One line for every missing score; a missing stage or baseline is named once."""
    measured = {j for _, j in matrix.cells}
    if not matrix.baseline:
        yield "No baseline was given, so there is no fwt."
    for stage in stages:
        if stage.stage not in measured:
            yield f"Stage {stage.stage} was not measured."
            continue
        for name, figure in (("as", stage.average_score), ("bwt", stage.bwt), ("fwt", stage.fwt)):
            if figure.missing and (name != "fwt" or matrix.baseline):
                yield f"Stage {stage.stage}: no {name}, not measured: {', '.join(figure.missing)}."


def _matrix_table(matrix: Matrix) -> Table:
    table = Table("task", box=SIMPLE_HEAD, show_edge=False)
    stages = range(1, len(matrix.learned) + 1)
    for stage in stages:
        table.add_column(str(stage), justify="right", no_wrap=True)
    if matrix.baseline:
        table.add_column("alone", justify="right", no_wrap=True)
    for i, name in enumerate(matrix.tasks, 1):
        alone = [_mean(matrix.baseline.get(i))] if matrix.baseline else []
        table.add_row(escape(name), *(_mean(matrix.cells.get((i, stage))) for stage in stages), *alone)
    return table


def _metrics_table(stages: list[StageMetrics]) -> Table:
    figures = _figures(stages)
    table = Table("stage", box=SIMPLE_HEAD, show_edge=False)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    for stage, *row in zip(stages, *figures.values(), strict=True):
        table.add_row(str(stage.stage), _text(row[0], ""), *(_text(figure, "+") for figure in row[1:]))
    return without_empty_columns(table)


def _mean(scores: tuple[float, ...] | None) -> str:
    return f"{sum(scores) / len(scores):.1f}" if scores else "-"


def _text(figure: Figure, sign: str) -> str:
    if figure.value is None:
        return "-"
    value, low, high = (f"{round(n or 0.0, 1) + 0.0:{sign}.1f}" for n in (figure.value, figure.low, figure.high))
    return value if figure.low is None else f"{value} [{low}, {high}]"

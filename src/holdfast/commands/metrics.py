"""`holdfast metrics FILE`: average score, backward and forward transfer of a matrix of scores."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError
from holdfast.core.outside import LARGEST, decode, parse_json, read_text
from holdfast.core.records import Matrix
from holdfast.core.tables import without_empty_columns
from holdfast.metrics import Figure, StageMetrics, matrix_from_csv, matrix_from_json, summarize

_WIDEST = 50  # tasks in a table
_HELP = """\
Compute, after every stage of a stream of tasks:

  as    average score of the tasks learned so far
  bwt   backward transfer: how much earlier tasks changed since they were learned (negative: forgetting)
  fwt   forward transfer: how much better a task is learned than when trained on its own (needs the baseline)

FILE holds scores (0 to 100 in the benchmark). As JSON, row j lists the scores of tasks 1..j after stage j:

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
    parser.add_argument("file", metavar="FILE", help="a .json or .csv file, or - to read JSON from standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    args = parser.parse_args(argv)

    matrix = _load(args.file)
    if args.json:
        print(json.dumps(_as_json(matrix, summarize(matrix))))
    else:
        print_metrics(matrix)
    return 0


def _load(name: str) -> Matrix:
    what = "standard input" if name == "-" else name
    text = decode(sys.stdin.buffer.read(LARGEST + 1), what) if name == "-" else _read(name)
    try:
        is_csv = name.lower().endswith(".csv")
        return matrix_from_csv(text) if is_csv else matrix_from_json(parse_json(text, "The matrix"))
    except HoldfastError as error:
        raise HoldfastError(f"{what}: {error}") from None


def _read(name: str) -> str:
    if os.path.isdir(name):
        raise HoldfastError(f"{name} is a folder. Give a .json or .csv file with scores.")
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


def print_metrics(matrix: Matrix) -> None:
    """Print a matrix and its metrics after every stage, and name what is missing."""
    stages = summarize(matrix)
    # A pipe has no width; ten stages need about 100 columns, and numbers must not be folded.
    console = Console(width=max(120, Console().width), highlight=False)
    intervals = any(figure.low is not None for column in _figures(stages).values() for figure in column)
    if len(matrix.tasks) <= _WIDEST:
        console.print("[bold]Score of each task after each stage[/]", _matrix_table(matrix), sep="\n")
    else:
        console.print(f"The scores of {len(matrix.tasks)} tasks are too wide for a table.")
    title = "Metrics after each stage" + (", with 95 % intervals over trials" if intervals else "")
    console.print(f"\n[bold]{title}[/]", _metrics_table(stages), sep="\n")
    for line in _missing(matrix, stages):
        console.print(escape(line), soft_wrap=True)


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
    stages = range(1, len(matrix.tasks) + 1)
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
    value = f"{figure.value:{sign}.1f}"
    return value if figure.low is None else f"{value} [{figure.low:{sign}.1f}, {figure.high:{sign}.1f}]"

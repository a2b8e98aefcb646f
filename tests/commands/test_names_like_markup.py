"""Names of folders, tasks and milestones are printed as they are, also where they look like markup of rich."""

import argparse

from rich.console import Console

from holdfast.arenas.scripted import Tally
from holdfast.commands.scripted_scores import _print
from holdfast.norm.range_check import DimensionRange, RangeCheck
from holdfast.norm.range_check import table as range_table
from holdfast.train.plan import PlannedStage, TrainingPlan, table

ODD = "a[red]b[/x]"  # the first part would vanish, the second is an error


def shown(content):
    console = Console(width=200)
    with console.capture() as caught:
        console.print(content)
    return caught.get()


def test_a_plan():
    stage = PlannedStage(1, f"{ODD}1", 10, 1, 1, "base", 0.5, 2, 2, {f"{ODD}2": 1.0}, {f"{ODD}3": 4})
    plan = TrainingPlan(f"{ODD}4", "s", f"{ODD}5", "nano", "mixed", 10, {}, (stage,), (), 1, 1, "replicas")
    said = shown(table(plan))
    assert [f"{ODD}{number}" in said for number in range(1, 6)] == [True] * 5


def test_a_range_check():
    row = DimensionRange("action", ODD, -1.0, 1.0, 0.0, 1.0, False)
    assert ODD in shown(range_table(RangeCheck("t", (row,)), 10.0))


def test_scores_of_a_scripted_policy(capsys):
    tally = Tally((), (50.0,), {f"{ODD}1": 1}, {f"{ODD}2": 1})
    _print(f"{ODD}3", argparse.Namespace(level=f"{ODD}4", policy="expert", seeds="0"), tally)
    said = capsys.readouterr().out
    assert [f"{ODD}{number}" in said for number in range(1, 5)] == [True] * 4

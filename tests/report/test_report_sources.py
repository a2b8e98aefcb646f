"""Trials of operators stand beside those of the twin and change none of their figures."""

import json

import pytest
from synthetic import NAMES, judge_by_hand, write_run

from holdfast.core.errors import HoldfastError
from holdfast.report.gather import gather
from holdfast.report.page import write
from holdfast.report.summary import summary

TWO = NAMES[:2]


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "er", names=TWO, trials=4, heldout=False)


def by_source(numbers):
    return {(run["name"], run["source"]): run for run in numbers["runs"]}


def test_an_operators_trial_changes_no_figure_of_the_twin(folder):
    (before,) = gather([folder])
    judge_by_hand(folder, {(1, 1): [0.0], (1, 2): [0.0, 50.0]})
    twin, operator = gather([folder])
    assert twin == before
    assert (twin.source, operator.source) == ("twin", "operator")
    assert operator.matrix.cells == {(1, 1): (0.0,), (1, 2): (0.0, 50.0)}
    assert {trial.source for trial in operator.trials} == {"operator"}


def test_figures_are_compared_within_a_source_only(tmp_path):
    folders = [write_run(tmp_path / m, m, names=TWO, trials=4) for m in ("sequential", "er", "finetune")]
    everything = {(1, 1): [100.0, 50.0], (1, 2): [75.0, 50.0], (2, 2): [25.0, 0.0]}
    for folder in folders[:2]:
        judge_by_hand(folder, everything)
    numbers = summary(gather(folders))
    runs = by_source(numbers)
    assert len(runs) == 5
    assert runs["er", "twin"]["final"]["fwt"]["value"] is not None
    assert runs["er", "operator"]["final"]["fwt"]["value"] is None, "nobody has judged the tasks alone"
    compared = [(numbers["runs"][d["position"]], numbers["runs"][d["less_position"]]) for d in numbers["differences"]]
    assert {run["source"] == less["source"] for run, less in compared} == {True}
    assert [(run["name"], run["source"]) for run, _ in compared] == [
        ("er", "twin"), ("er", "operator"), ("finetune", "twin")
    ]  # fmt: skip
    assert [(table["source"], len(table["runs"])) for table in numbers["streams"]] == [("twin", 3), ("operator", 2)]
    assert [training["name"] for training in numbers["training"]] == ["sequential", "er", "finetune"]


def test_the_page_shows_the_sources_side_by_side(folder):
    judge_by_hand(folder, {(1, 1): [0.0]})
    text = write([folder]).read_text()
    for source, trials in (("twin", 12), ("operator", 1)):
        assert f"<h3>Judged by {source}</h3>" in text
        assert f'aria-label="Scores of er ({source})"' in text
        assert f"{trials} trials, judged by {source}." in text
    assert text.count("Training loss") == 1
    assert len(json.loads((folder / "report" / "metrics.json").read_text())["findings"]) == 2


def test_one_source_can_be_chosen(tmp_path, folder):
    judge_by_hand(folder, {(1, 1): [25.0]})
    other = write_run(tmp_path / "sequential", "sequential", names=TWO, trials=4)
    first, second = gather([other, folder], "operator")
    assert (first.name, first.source, first.trials, first.matrix.cells) == ("sequential", "operator", (), {})
    assert (second.name, second.source, second.matrix.cells) == ("er", "operator", {(1, 1): (25.0,)})
    text = write([other, folder], source="operator").read_text()
    assert f"holdfast score {other}" in text
    assert "judged by twin" not in text
    with pytest.raises(HoldfastError, match=r"source 'operators' of the trials in .*er\..*Valid: twin, operator"):
        gather([folder], "operators")


def test_a_run_without_trials_stands_beside_those_of_the_first_source(tmp_path, folder):
    waiting = write_run(tmp_path / "waiting", names=TWO, evaluated=False)
    first, second = gather([waiting, folder])
    assert (first.source, first.trials) == ("twin", ())
    assert [len(table["runs"]) for table in summary((first, second))["streams"]] == [2]
    (alone,) = gather([waiting])
    assert alone.source == ""

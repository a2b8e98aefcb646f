"""The sentence with which a report starts, and the title of its page."""

import re

import pytest
from synthetic import NAMES, judge_by_hand, write_run

from holdfast.core.records import Trial
from holdfast.report.gather import gather
from holdfast.report.page import write
from holdfast.report.summary import summary
from holdfast.runs.trials import Trials

TWO = NAMES[:2]
KEEPS = {(1, 1): 70.0, (1, 2): 50.0, (2, 2): 40.0}
FORGETS = {(1, 1): 50.0, (1, 2): 10.0, (2, 2): 40.0}


def run_of(folder, cells, seeds=5, spread=3.0, method="er"):
    """A run whose score in a cell is what `cells` says, more with every seed."""
    write_run(folder, method, names=TWO, evaluated=False, heldout=False)
    with Trials(folder / "trials.sqlite") as stored:
        for (i, j), base in cells.items():
            for seed in range(seeds):
                score = base + spread * seed
                stored.add(Trial(TWO[i - 1], j, (), source="twin", seed=seed, level="standard", score=score))
    return folder


def finding(*folders):
    (found,) = summary(gather(folders))["findings"]
    return found


def test_two_runs_are_compared_with_an_interval(tmp_path):
    one, other = run_of(tmp_path / "forgets", FORGETS), run_of(tmp_path / "keeps", KEEPS)
    assert finding(one, other) == (
        "keeps scores 20.0 points more than forgets on average over 2 tasks learned one after another "
        "(95 % interval +20.0 to +20.0; 5 shared layouts a cell, judged by twin)."
    )
    assert finding(other, one).startswith("forgets scores 20.0 points less than keeps")


def test_a_difference_within_chance_is_called_that(tmp_path):
    one = run_of(tmp_path / "one", dict.fromkeys(KEEPS, 40.0), spread=5.0)
    other = run_of(tmp_path / "other", dict.fromkeys(KEEPS, 50.0), spread=-1.0)
    found = finding(one, other)
    assert found.startswith("other and one do not differ beyond chance on average over 2 tasks")
    low, high = (float(n.replace("−", "-")) for n in re.search(r"interval (\S+) to (\S+);", found).groups())
    assert low <= 0 <= high


def test_one_trial_a_cell_gives_no_interval(tmp_path):
    folders = [run_of(tmp_path / name, cells, seeds=1) for name, cells in (("a", FORGETS), ("b", KEEPS))]
    found = finding(*folders)
    assert "b scores 20.0 points more than a" in found
    assert "(no interval; 1 shared layout a cell" in found


def test_one_run_says_its_score_and_its_forgetting(tmp_path):
    found = finding(run_of(tmp_path / "er", KEEPS))
    assert re.match(r"er scores 51\.0 \(95 % interval \d\d\.\d to \d\d\.\d\) on average over 2 tasks learned", found)
    assert "; earlier tasks changed by −20.0 (95 % interval −" in found
    assert found.endswith("points since they were learned (judged by twin).")


def test_runs_that_share_no_layout_are_not_subtracted(tmp_path):
    folders = [write_run(tmp_path / name, names=TWO, evaluated=False) for name in ("a", "b")]
    for folder, score in zip(folders, (20.0, 60.0), strict=True):
        judge_by_hand(folder, {cell: [score, score] for cell in KEEPS})
    assert finding(*folders) == (
        "b scores 60.0 (95 % interval 60.0 to 60.0) on average over 2 tasks learned one after another, "
        "a 20.0 (95 % interval 20.0 to 20.0), at layouts that they do not share (judged by operator)."
    )


def test_what_was_not_measured_is_not_claimed(tmp_path):
    waiting = write_run(tmp_path / "waiting", names=TWO, evaluated=False)
    assert finding(waiting) == "No trial was made yet."
    part = run_of(tmp_path / "part", {(1, 1): 50.0, (2, 2): 10.0})
    assert (
        finding(part) == "part has no average score yet: stack_bowls after stage 2 was not measured (judged by twin)."
    )


def test_runs_that_learn_in_stages_are_compared_before_others(tmp_path):
    one, other = run_of(tmp_path / "forgets", FORGETS), run_of(tmp_path / "keeps", KEEPS)
    joint = run_of(tmp_path / "joint", {(1, 1): 80.0, (2, 1): 80.0}, method="joint")
    assert finding(one, other, joint).startswith("keeps scores 20.0 points more than forgets")


@pytest.mark.parametrize(
    ("runs", "title"),
    [
        (("forgets", "keeps"), "forgets 31.0, keeps 51.0: average score over 2 tasks · Holdfast report"),
        (("waiting",), "waiting: training on 2 tasks · Holdfast report"),
    ],
)
def test_the_title_says_what_the_page_shows(tmp_path, runs, title):
    cells = {"forgets": FORGETS, "keeps": KEEPS, "waiting": {}}
    page = write([run_of(tmp_path / name, cells[name]) for name in runs])
    assert f"<title>{title}</title>" in page.read_text()

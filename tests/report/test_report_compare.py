import pytest
from synthetic import NAMES, write_run

from holdfast.core.records import Matrix, Trial
from holdfast.report.compare import correlation, difference
from holdfast.report.gather import gather
from holdfast.runs.trials import Trials

TWO = NAMES[:2]


def run_of(folder, cells, method="er", seeds=range(5)):
    """A run whose score in a cell is what `cells` says, plus three points per seed."""
    write_run(folder, method, names=TWO, evaluated=False, heldout=False)
    stored = Trials(folder / "trials.sqlite")
    for (i, j), base in cells.items():
        for seed in seeds:
            stored.add(Trial(TWO[i - 1], j, (), source="twin", seed=seed, level="standard", score=base + 3.0 * seed))
    return gather([folder])[0]


KEEPS = {(1, 1): 70.0, (1, 2): 50.0, (2, 2): 40.0}
FORGETS = {(1, 1): 50.0, (1, 2): 10.0, (2, 2): 40.0}


def test_shared_seeds_cancel_what_scenes_have_in_common(tmp_path):
    found = difference(run_of(tmp_path / "a", KEEPS), run_of(tmp_path / "b", FORGETS))
    # Seeds spread the scores over 12 points; seed by seed the difference is the same, so its interval is a point.
    assert (found.average_score.value, found.average_score.low, found.average_score.high) == (20.0, 20.0, 20.0)
    assert (found.bwt.value, found.bwt.low, found.bwt.high) == (20.0, 20.0, 20.0)  # -20 against -40
    assert (found.fwt.value, found.seeds) == (0.0, 5)


def test_only_shared_seeds_are_compared(tmp_path):
    found = difference(run_of(tmp_path / "a", KEEPS), run_of(tmp_path / "b", FORGETS, seeds=range(3, 9)))
    assert (found.average_score.value, found.seeds) == (20.0, 2)


def test_without_shared_seeds_or_tasks_there_is_no_difference(tmp_path):
    one = run_of(tmp_path / "a", KEEPS)
    found = difference(one, run_of(tmp_path / "b", FORGETS, seeds=range(5, 9)))
    assert (found.average_score.value, found.seeds) == (None, 0)
    (other,) = gather([write_run(tmp_path / "c", names=NAMES[1:3], trials=1)])
    assert difference(one, other) is None


def test_methods_without_stages_are_compared_by_average_score_alone(tmp_path):
    found = difference(run_of(tmp_path / "a", {(1, 1): 60.0, (2, 1): 60.0}, "joint"), run_of(tmp_path / "b", FORGETS))
    assert found.average_score.value == 35.0
    assert found.bwt.value is None
    assert found.fwt.value is None


def matrix(*values):
    return Matrix(("a", "b", "c", "d"), {(i, 4): (value, value) for i, value in enumerate(values, 1)})


def test_correlation_of_cells():
    found = correlation(matrix(1.0, 2.0, 3.0, 10.0), matrix(1.0, 2.0, 2.0, 3.0))
    # By hand: 9 / sqrt(50 * 2); with ranks 0 1 2 3 against 0 1.5 1.5 3 it is 4.5 / sqrt(5 * 4.5).
    assert found.pearson == pytest.approx(0.9)
    assert found.spearman == pytest.approx(4.5 / (5 * 4.5) ** 0.5)
    assert found.cells == 4


def test_correlation_needs_three_cells_that_vary():
    assert correlation(matrix(1.0, 2.0), matrix(1.0, 2.0)).pearson is None
    flat = correlation(matrix(1.0, 2.0, 3.0), matrix(5.0, 5.0, 5.0))
    assert (flat.pearson, flat.spearman, flat.cells) == (None, None, 3)

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import catalog
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix
from holdfast.matrix_files import matrix_from_json
from holdfast.metrics import Figure, mean_of_means, summarize

TASKS = ["stack_bowls", "hang_cup", "press_button"]
ROWS = [[100], [80, 90], [50, 85, 70]]
MATRIX = matrix_from_json({"tasks": TASKS, "cells": ROWS, "baseline": [95, 80, 75]})


def published(stream: str) -> dict:
    return {row.method: row for row in catalog.paper()["rows"] if row.stream == stream}


def values(matrix: Matrix) -> list[tuple]:
    return [(stage.average_score.value, stage.bwt.value, stage.fwt.value) for stage in summarize(matrix)]


def test_metrics_of_a_matrix_worked_by_hand():
    assert values(MATRIX) == [
        (100, None, None),
        (85, -20, 10),
        (pytest.approx(205 / 3), pytest.approx((-50 - 5) / 2), pytest.approx((10 - 5) / 2)),
    ]
    assert [stage.stage for stage in summarize(MATRIX)] == [1, 2, 3]


@pytest.mark.parametrize("stream", ["single_arm", "bimanual"])
@pytest.mark.parametrize("method", ["finetune", "joint", "sequential", "er"])
def test_published_final_rows_give_the_published_average_score(stream, method):
    row = published(stream)[method]
    names = list(catalog.load_stream(stream, "data").names)
    matrix = Matrix(tuple(names), {(i, 5): (score,) for i, score in enumerate(row.scores, 1)})
    assert summarize(matrix)[-1].average_score.value == pytest.approx(row.average_score, abs=0.06)


@pytest.mark.parametrize("stream", ["single_arm", "bimanual"])
@pytest.mark.parametrize("method", ["sequential", "er"])
def test_published_transfer_comes_back_from_the_diagonal_it_implies(stream, method):
    row, alone = published(stream)[method], published(stream)["finetune"].scores
    # FWT fixes the sum of c(2,2)..c(5,5), BWT that of c(1,1)..c(4,4); c(5,5) is printed, so c(1,1) follows.
    middle = 4 * row.fwt + sum(alone[1:]) - row.scores[4]
    first = sum(row.scores[:4]) - 4 * row.bwt - middle
    diagonal = [min(first, 100), middle / 3, middle / 3, middle / 3, row.scores[4]]
    cells = {(j, j): (score,) for j, score in enumerate(diagonal, 1)}
    cells |= {(i, 5): (score,) for i, score in enumerate(row.scores, 1)}
    names = catalog.load_stream(stream, "data").names
    final = summarize(Matrix(names, cells, {i: (score,) for i, score in enumerate(alone, 1)}))[-1]
    assert final.average_score.value == pytest.approx(row.average_score, abs=0.06)
    assert final.bwt.value == pytest.approx(row.bwt, abs=0.06)
    assert final.fwt.value == pytest.approx(row.fwt, abs=0.06)


def test_published_four_task_matrices():
    bwt = [summarize(published.matrix)[-1].bwt.value for published in catalog.paper()["matrices"]]
    expected = [
        (15 + 25 + 13.3 - 300) / 3,
        (96.3 + 97.5 + 90 - 295) / 3,
        (100 + 80 + 80 - 213.3) / 3,
        (95 + 75 + 93.3 - 273) / 3,
        (96.3 + 80 + 86.7 - 290) / 3,
    ]
    assert bwt == pytest.approx(expected)


def test_absent_scores_are_named_and_never_zero():
    matrix = matrix_from_json(
        {"tasks": TASKS, "cells": [[100], [80, None], [50, 85, 70]], "baseline": [None, 80, None]}
    )
    first, second, third = summarize(matrix)
    assert first.bwt == first.fwt == Figure(None)
    assert second.average_score == Figure(None, missing=("hang_cup after stage 2",))
    assert second.bwt.value == -20
    assert second.fwt.missing == ("hang_cup after stage 2",)
    assert third.average_score.value == pytest.approx(205 / 3)
    assert third.bwt == Figure(None, missing=("hang_cup after stage 2",))
    assert third.fwt == Figure(None, missing=("hang_cup after stage 2", "baseline of press_button"))


def test_stages_not_reached_yet_have_no_value():
    stages = summarize(matrix_from_json({"tasks": TASKS, "cells": ROWS[:2]}))
    assert [stage.average_score.value for stage in stages] == [100, 85, None]
    assert stages[2].average_score.missing == tuple(f"{task} after stage 3" for task in TASKS)
    assert stages[1].fwt.missing == ("baseline of hang_cup",)


def test_scores_of_unseen_tasks_are_kept_but_play_no_part():
    seen = matrix_from_json({"tasks": TASKS, "cells": ROWS})
    unseen = matrix_from_json({"tasks": TASKS, "cells": [[100, 3, 4], [80, 90, 5], [50, 85, 70]]})
    assert unseen.cells[3, 1] == (4,)
    assert summarize(unseen) == summarize(seen)


def test_one_value_per_cell_has_no_interval():
    assert all(f.low is f.high is None for s in summarize(MATRIX) for f in (s.average_score, s.bwt, s.fwt))


def test_interval_needs_trials_behind_every_score():
    matrix = matrix_from_json({"tasks": ["a", "b"], "cells": [[100], [[50, 100], [75, 100]]]})
    assert summarize(matrix)[1].average_score.low is not None
    assert (summarize(matrix)[1].bwt.value, summarize(matrix)[1].bwt.low) == (-25, None)


def test_interval_has_the_width_theory_predicts():
    trials = (0.0, 100.0) * 50
    first, second = summarize(Matrix(("a", "b"), {(1, 1): trials, (1, 2): trials, (2, 2): trials}, {2: trials}))
    half = 1.96 * 50 / math.sqrt(len(trials))
    # AS_1 is one mean; AS_2 the mean of two; BWT and FWT differences of two, resampled independently of each other.
    for figure, value, width in [
        (first.average_score, 50, half),
        (second.average_score, 50, half / math.sqrt(2)),
        (second.bwt, 0, half * math.sqrt(2)),
        (second.fwt, 0, half * math.sqrt(2)),
    ]:
        assert figure.value == pytest.approx(value)
        assert figure.low == pytest.approx(value - width, abs=0.12 * width)
        assert figure.high == pytest.approx(value + width, abs=0.12 * width)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        trials = tuple(rng.choice([0.0, 50.0, 100.0], size=30))
        figure = summarize(Matrix(("a",), {(1, 1): trials}), draws=300)[0].average_score
        covered += figure.low <= 50 <= figure.high
    assert 0.88 <= covered / 200 <= 0.99


def test_intervals_are_reproducible_follow_the_seed_and_outlive_later_stages():
    rng = np.random.default_rng(0)
    cells = {(i, j): tuple(rng.uniform(0, 100, 10)) for j in (1, 2, 3) for i in range(1, j + 1)}
    matrix = Matrix(tuple(TASKS), cells)
    early = Matrix(tuple(TASKS), {key: scores for key, scores in cells.items() if key[1] < 3})
    assert summarize(matrix) == summarize(matrix)
    assert summarize(matrix)[2].bwt.low != summarize(matrix, seed=1)[2].bwt.low
    assert summarize(early)[1].bwt == summarize(matrix)[1].bwt


@given(st.floats(0, 100), st.integers(1, 6))
def test_constant_matrix_neither_forgets_nor_transfers(score, size):
    cells = {(i, j): (score,) for j in range(1, size + 1) for i in range(1, j + 1)}
    matrix = Matrix(tuple(f"t{i}" for i in range(size)), cells, dict.fromkeys(range(1, size + 1), (score,)))
    for average, bwt, fwt in values(matrix)[1:]:
        assert average == pytest.approx(score)
        assert bwt == fwt == 0


@given(st.lists(st.floats(0, 100), min_size=2, max_size=12))
def test_interval_stays_within_the_scores(trials):
    figure = summarize(Matrix(("a",), {(1, 1): tuple(trials)}), draws=50)[0].average_score
    assert min(trials) - 1e-9 <= figure.low <= figure.high <= max(trials) + 1e-9


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_names_its_cell(score):
    with pytest.raises(HoldfastError, match="hang_cup after stage 2"):
        summarize(Matrix(tuple(TASKS), {(2, 2): (50.0, score)}))
    with pytest.raises(HoldfastError, match="baseline of press_button"):
        summarize(Matrix(tuple(TASKS), {}, {3: (score,)}))


@pytest.mark.parametrize("matrix", [Matrix(("a",), {(1, 2): (1.0,)}), Matrix(("a",), {}, {0: (1.0,)})])
def test_cell_outside_the_matrix_is_refused(matrix):
    with pytest.raises(HoldfastError, match="outside"):
        summarize(matrix)


def test_mean_of_means_weighs_groups_alike_and_needs_two_values_for_an_interval():
    figure = mean_of_means([[100.0, 0.0, 50.0, 50.0], [10.0, 10.0]])
    assert figure.value == 30.0
    assert figure.low < 30.0 < figure.high
    assert mean_of_means([[1.0, 2.0], [3.0]]).low is None
    assert mean_of_means([[1.0], []]).value is None
    assert mean_of_means([]).value is None

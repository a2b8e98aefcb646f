"""Intervals over seeds and layouts, against closed forms and by simulation; paired differences; baselines by name."""

import json
from dataclasses import replace
from io import StringIO
from zlib import crc32

import numpy as np
import pytest
from made_up_study import NAMES, results, study
from rich.console import Console

from holdfast.core.records import Matrix, Trial
from holdfast.metrics import summarize
from holdfast.report.gather import StageLog
from holdfast.studies.results import RunGroup, StudyResults
from holdfast.studies.statistics import StudyScores, student_t
from holdfast.studies.summary import summary
from holdfast.studies.summary_table import summary_tables

T_2 = 4.302653  # Student's 97.5 % quantile for 2 degrees of freedom, as printed in every table
METRICS = ("average_score", "bwt", "fwt")


def groups(made):
    return {group["label"]: group for group in summary(made)["groups"]}


def noise(*key):
    """A normal number that depends on the key only."""
    return np.random.default_rng(crc32(repr(key).encode())).normal()


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423), (100, 1.9840)],
)
def test_students_quantile_is_that_of_printed_tables(degrees, quantile):
    assert student_t(degrees) == pytest.approx(quantile, abs=5e-5)


def test_without_noise_of_trials_the_interval_is_that_of_a_t_test():
    made = results(study("er"), lambda flags, seed, i, j, layout: 40 + 10 * seed)
    score = groups(made)["er"]["average_score"]
    assert score["value"] == pytest.approx(60)  # 50, 60, 70 have a standard deviation of 10
    assert [score["low"], score["high"]] == pytest.approx([60 - T_2 * 10 / 3**0.5, 60 + T_2 * 10 / 3**0.5], abs=1e-4)


def test_one_seed_has_an_interval_over_trials_only_and_says_so():
    def score(flags, seed, i, j, layout):
        return 50 + 10 * noise(i, layout)

    made = results(study("er", seeds=[4]), score, trials=200, names=NAMES[:1])
    scores = [score(None, 4, 1, 1, layout) for layout in range(200)]
    found = groups(made)["er"]["average_score"]
    assert (found["seeds"], found["trials"]) == (1, 200)
    assert found["value"] == pytest.approx(np.mean(scores))
    half = 1.96 * np.std(scores, ddof=1) / 200**0.5
    assert [found["low"], found["high"]] == pytest.approx([np.mean(scores) - half, np.mean(scores) + half], abs=0.15)


def test_two_trials_spread_as_two_new_ones_would():
    """Their weights are uniform; as the spread of n is estimated by n - 1, it is wider by the root of 3."""
    found = groups(results(study("er", seeds=[1]), lambda f, s, i, j, n: 40 + 20 * n, trials=2, names=NAMES[:1]))["er"]
    half = (0.975 - 0.5) * 20 * 3**0.5
    assert found["average_score"]["low"] == pytest.approx(50 - half, abs=0.4)
    assert found["average_score"]["high"] == pytest.approx(50 + half, abs=0.4)


def test_an_interval_over_seeds_is_never_narrower_than_that_over_trials():
    """Three seeds that happen to agree do not make 24 trials certain."""
    several, single = (
        groups(results(study("er", seeds=seeds), lambda flags, seed, i, j, layout: 50 + 10 * noise(i, layout)))["er"]
        for seeds in ([1, 2, 3], [1])
    )
    assert several["average_score"]["low"] == pytest.approx(single["average_score"]["low"])
    assert several["average_score"]["seeds"] == 3


def test_intervals_end_where_scores_must():
    def score(flags, seed, i, j, layout):
        return (100 if seed > 1 else 40) if flags["method"] == "er" and j == i else 50

    made = summary(results(study("sequential", "er"), score))
    found = made["groups"][1]
    assert found["tasks"][0]["after_own"]["high"] == found["matrix"][0]["cells"][0]["high"] == 100
    assert found["tasks"][0]["after_own"]["low"] == 0
    assert (found["bwt"]["value"], found["bwt"]["low"]) == (-30, -100)
    wild = summary(results(study("sequential", "er"), lambda f, s, i, j, n: 100 * (f["method"] == "er") * (s % 2)))
    assert wild["differences"][0]["average_score"]["high"] == 100
    assert wild["groups"][1]["average_score"]["low"] == 0
    assert wild["differences"][0]["average_score"]["low"] < 0


def test_values_are_the_means_over_seeds_of_what_each_run_has():
    def score(flags, seed, i, j, layout):
        return 50 + 20 * noise(flags["method"], seed, i, j, layout)

    made = results(study("er", "finetune"), score)
    runs, alone = (group.runs for group in made.groups)
    found = groups(made)["er"]
    each = {
        seed: summarize(Matrix(NAMES, cells(runs[seed]), {i: s for (i, _), s in cells(alone[seed]).items()}))
        for seed in runs
    }
    for metric in METRICS:
        for stage in range(3):
            values = [getattr(stages[stage], metric).value for stages in each.values()]
            wanted = None if values[0] is None else pytest.approx(np.mean(values), abs=1e-5)
            assert found["stages"][stage][metric]["value"] == wanted
        assert found[metric] == found["stages"][-1][metric]
        for seed, stages in each.items():
            assert found["by_seed"][str(seed)][metric] == pytest.approx(getattr(stages[-1], metric).value, abs=1e-5)
    by_task = [task["fwt"]["value"] for task in found["tasks"]]
    assert np.mean(by_task[1:]) == pytest.approx(found["fwt"]["value"], abs=1e-5)


def cells(run):
    """The scores of a run by task and stage, as the report reads them."""
    keys = {(run.names.index(trial.task) + 1, trial.stage) for trial in run.trials}
    return {(i, j): tuple(trial.score for trial in run.of(i, j)) for i, j in keys}


def test_a_group_that_is_another_plus_a_constant_differs_by_it_without_doubt():
    def score(flags, seed, i, j, layout):
        better = 7 if flags["method"] == "er" and j > i else 0
        return 50 + 10 * noise(seed) + 10 * noise(i, layout) + 5 * noise(seed, i, j, layout) + better

    made = summary(results(study("sequential", "er"), score))
    (found,) = made["differences"]
    assert (found["label"], found["less"]) == ("er", "sequential")
    for metric, constant in (("bwt", 7), ("average_score", 7 * 2 / 3)):
        assert list(found[metric].values())[:3] == pytest.approx([constant] * 3, abs=1e-5)
        assert found[metric]["seeds"] == 3
    scores = [group["average_score"] for group in made["groups"]]
    assert all(score["high"] - score["low"] > 10 for score in scores), "by themselves both are uncertain"


def test_differences_use_the_seeds_and_layouts_that_both_have():
    def score(flags, seed, i, j, layout):
        if flags["method"] == "er":
            return 90 if seed == 3 or layout > 3 else 60 + layout
        return None if seed == 3 or layout > 3 else 50 + layout

    (found,) = summary(results(study("sequential", "er"), score))["differences"]
    assert found["average_score"] == {"value": 10, "low": 10, "high": 10, "seeds": 2, "trials": 2 * 2 * 3 * 4}


def test_trials_without_layouts_are_compared_without_pairing():
    made = results(study("sequential", "er"), lambda f, s, i, j, n: 50 + (5 if f["method"] == "er" else 0) + n % 2)
    for group in made.groups:
        for seed, run in group.runs.items():
            group.runs[seed] = replace(run, trials=tuple(replace(trial, seed=None) for trial in run.trials))
    (found,) = summary(made)["differences"]
    assert found["average_score"]["value"] == pytest.approx(5)
    assert found["average_score"]["high"] - found["average_score"]["low"] > 0.1


def test_a_seed_that_lacks_a_cell_is_left_out_of_what_needs_it():
    def score(flags, seed, i, j, layout):
        return None if (seed, i, j) == (2, 1, 3) else 10 * seed

    found = groups(results(study("er"), score))["er"]
    assert found["seeds"] == [1, 2, 3]
    assert (found["average_score"]["value"], found["average_score"]["seeds"]) == (20, 2)
    assert found["stages"][1]["average_score"]["seeds"] == 3
    assert found["by_seed"]["2"]["average_score"] is None
    assert found["fwt"] == {"value": None, "low": None, "high": None, "seeds": 0, "trials": 0}


def test_one_trial_has_no_interval():
    found = groups(results(study("er"), lambda f, s, i, j, n: 50 + s, trials=1))["er"]["average_score"]
    assert found == {"value": 52, "low": None, "high": None, "seeds": 3, "trials": 9}


def test_the_baseline_is_taken_by_name_from_another_stream_and_order():
    other = ("push_box", "press_button", "hang_cup")

    def score(flags, seed, i, j, layout):
        if flags["method"] == "er":
            return 80
        return {"push_box": 1, "press_button": 20 + seed, "hang_cup": 50 + seed}[other[i - 1]]

    made = results(study("er", "finetune"), score, names=lambda flags: NAMES if flags["method"] == "er" else other)
    found = groups(made)["er"]
    assert [task["alone"]["value"] for task in found["tasks"]] == [None, 52, 22]
    assert [task["fwt"]["value"] for task in found["tasks"]] == [None, 28, 58]
    assert found["fwt"]["value"] == pytest.approx((28 + 58) / 2)
    assert found["by_seed"]["3"]["fwt"] == pytest.approx((80 - 53 + 80 - 23) / 2), "of the same seed"
    assert len(summary(made)["streams"]) == 2
    assert summary(made)["differences"] == []


def test_the_baseline_of_another_seed_is_the_mean_over_all():
    def score(flags, seed, i, j, layout):
        return 80 if flags["method"] == "er" else None if seed == 3 else 10 * seed

    made = results(study("er", "finetune"), score)
    alone = made.groups[1]
    made = StudyResults(made.study, (made.groups[0], replace(alone, runs={s: alone.runs[s] for s in (1, 2)})))
    assert {seed: one["fwt"] for seed, one in groups(made)["er"]["by_seed"].items()} == {"1": 70, "2": 60, "3": 65}


def test_the_baseline_has_the_settings_of_the_run_where_there_are_several():
    made = results(
        study("er", "finetune", steps=[100, 200]),
        lambda flags, seed, i, j, layout: 90 if flags["method"] == "er" else flags["steps"] / 10,
    )
    found = groups(made)
    assert found["er-steps=100"]["fwt"]["value"] == 80
    assert found["er-steps=200"]["fwt"]["value"] == 70


def test_the_order_of_runs_and_trials_does_not_matter():
    grids = {"method": ["sequential", "er"]}, {"method": "finetune", "steps": [1, 2]}  # both baselines fit equally well
    asked = replace(study("er"), grids=grids)
    made = results(asked, lambda flags, *key: 50 + 20 * noise(flags.get("steps"), flags["method"], *key))
    turned = StudyResults(made.study, tuple(RunGroup(g.label, g.flags, _turned(g.runs)) for g in made.groups[::-1]))
    assert json.dumps(summary(made)) == json.dumps(summary(turned))
    assert "NaN" not in json.dumps(summary(made))


def _turned(runs):
    return {seed: replace(runs[seed], trials=runs[seed].trials[::-1]) for seed in sorted(runs, reverse=True)}


def test_settings_are_the_flags_that_differ():
    found = groups(results(study("er", "joint", steps=[1, 2]), lambda *key: 50))
    assert found["joint-steps=2"]["settings"] == {"method": "joint", "steps": 2}
    assert (found["joint-steps=2"]["continual"], found["joint-steps=2"]["stages"]) == (False, [])
    assert found["joint-steps=2"]["matrix"][0]["label"] == "all at once"


# Standard deviations of seeds, of layouts that all seeds share, and of single trials.
@pytest.mark.parametrize("spread", [(5, 0, 30), (5, 25, 25), (0, 30, 10), (10, 10, 30)])
def test_an_interval_of_three_seeds_covers_the_truth(spread):
    rng, times = np.random.default_rng(7), 200
    found = [_figure(_simulated(rng, *spread)) for _ in range(times)]
    assert sum(figure.low <= 50 <= figure.high for figure in found) >= 0.92 * times


def test_a_bootstrap_that_resamples_three_seeds_does_not():
    """Why there is Student's quantile in our interval."""
    rng, times = np.random.default_rng(7), 200
    ends = [_hierarchical_bootstrap(_simulated(rng, 0, 30, 10), rng) for _ in range(times)]
    assert sum(low <= 50 <= high for low, high in ends) < 0.9 * times


def _simulated(rng, seeds, layouts, trials, size=(3, 2, 20)):
    """Scores by seed, task and layout, in quarters as with four milestones; their mean is 50 by symmetry."""
    scores = 50 + seeds * rng.normal(size=(size[0], 1, 1)) + layouts * rng.normal(size=(1, *size[1:]))
    return np.clip(25 * np.round((scores + trials * rng.normal(size=size)) / 25), 0, 100)


def _figure(scores):
    keys = [("g", seed, f"task {task}", 2) for seed in range(3) for task in range(2)]
    made = {
        key: [Trial("t", 2, (), seed=n, score=float(score)) for n, score in enumerate(scores[key[1], int(key[2][-1])])]
        for key in keys
    }
    sums = {seed: tuple((0.5, key) for key in keys if key[1] == seed) for seed in range(3)}
    return StudyScores(made).figure(sums)


def _hierarchical_bootstrap(scores, rng, draws=400):
    """Seeds are drawn with replacement, then trials within each cell."""
    means = np.zeros(draws)
    for _ in range(len(scores)):
        chosen = scores[rng.integers(len(scores), size=draws)]
        picks = rng.integers(scores.shape[2], size=chosen.shape)
        means += np.take_along_axis(chosen, picks, 2).mean(axis=(1, 2)) / len(scores)
    return np.quantile(means, (0.025, 0.975))


def test_what_is_kept_after_the_last_stage_is_beside_the_scores():
    made = results(study("er", "sequential", seeds=[1]), lambda *_: 50.0, names=NAMES[:2])
    stages = (
        StageLog(2, "b", (), {"a": (3, 9), "b": (4, 9)}, 2_500_000),
        StageLog(1, "a", (), {"a": (9, 9)}, 1_000_000),
    )
    known, unknown = made.groups
    known = replace(known, runs={1: replace(known.runs[1], stages=stages)})
    found = summary(replace(made, groups=(known, unknown)))
    assert [(g["kept_episodes"], g["weights_bytes"]) for g in found["groups"]] == [(7, 2_500_000), (None, None)]
    console = Console(width=120, record=True, file=StringIO())
    console.print(summary_tables(found))
    (line,) = (line for line in console.export_text().splitlines() if " er " in line)
    assert line.split()[-4:-2] == ["7", "2.5"], "before seeds and trials"

import json
import statistics
from dataclasses import asdict

import pytest
from synthetic import NAMES, write_run

from holdfast import catalog
from holdfast.core.records import Trial
from holdfast.metrics import summarize
from holdfast.report.gather import gather
from holdfast.report.page import _score
from holdfast.report.summary import summary
from holdfast.runs.trials import Trials


@pytest.fixture(scope="session")
def numbers(page):
    return json.loads((page.parent / "metrics.json").read_text())


def test_metrics_are_those_of_the_matrix(numbers, folders):
    for entry, run in zip(numbers["runs"], gather(list(folders.values())), strict=True):
        if run.continual:
            assert entry["stages"] == json.loads(json.dumps([asdict(stage) for stage in summarize(run.matrix)]))
            assert entry["final"]["average_score"]["value"] == pytest.approx(
                statistics.mean(statistics.mean(run.matrix.cells[i, 5]) for i in range(1, 6))
            )


def test_forgetting_and_its_cure_are_in_the_numbers(numbers):
    sequential, er, finetune = (run["final"] for run in numbers["runs"])
    assert sequential["bwt"]["value"] < -30
    assert er["average_score"]["value"] - sequential["average_score"]["value"] > 25
    assert finetune["bwt"]["value"] is None
    assert numbers["differences"][0]["average_score"]["low"] > 25


def test_cells_not_measured_are_absent(numbers):
    first = numbers["runs"][0]["matrix"][0]["cells"]
    assert first[0]["trials"] == 8
    assert first[1:] == [None] * 4


@pytest.mark.parametrize(
    "row", [r for r in catalog.paper()["rows"] if r.scores], ids=lambda r: f"{r.stream}-{r.method}"
)
def test_published_average_recomputed_agrees_to_the_printed_digit(row):
    assert _score(statistics.mean(row.scores)) == _score(row.average_score)


def test_published_figures_stand_beside_runs_on_their_stream_only(numbers, tmp_path):
    (stream,) = numbers["streams"]
    assert stream["published"]["stream"] == "single_arm"
    assert {row["method"] for row in stream["published"]["rows"]} == {"finetune", "joint", "sequential", "er"}
    other = gather([write_run(tmp_path / "er", names=NAMES[:3], trials=1)])
    assert summary(other)["streams"][0]["published"] is None


def test_a_task_breaks_where_most_is_lost(tmp_path):
    folder = write_run(tmp_path / "er", names=NAMES[:2], evaluated=False)
    stored = Trials(folder / "trials.sqlite")
    for seed in range(4):
        stored.add(Trial(NAMES[0], 1, ("reached", "lifted", "above", "stacked"), source="twin", seed=seed, score=100.0))
        reached = ("reached", "lifted") if seed else ("reached", "lifted", "above")
        stored.add(Trial(NAMES[0], 2, reached, source="twin", seed=seed, score=50.0))
    old, new = summary(gather([folder]))["runs"][0]["milestones"]
    assert {row["name"]: row["shares"] for row in old["rows"]} == {
        "reached": [1.0, 1.0],
        "lifted": [1.0, 1.0],
        "above": [1.0, 0.25],
        "stacked": [1.0, 0.0],
    }
    assert old["kept"] == {"state": "breaks", "milestone": "above", "before": 1.0, "after": 0.25}
    assert new["kept"] == {"state": "just learned"}
    assert new["rows"][0]["shares"] == [None]


def test_a_task_that_was_never_learned_does_not_hold(tmp_path):
    folder = write_run(tmp_path / "er", names=NAMES[:2], evaluated=False)
    stored = Trials(folder / "trials.sqlite")
    for stage in (1, 2):
        stored.add(Trial(NAMES[0], stage, (), source="twin", seed=0, score=0.0))
    assert summary(gather([folder]))["runs"][0]["milestones"][0]["kept"] == {"state": "never learned"}


def test_replay_is_accounted_per_task_and_stage(numbers):
    last = numbers["training"][1]["replay"][-1]
    assert (last["steps"], last["replay_steps"]) == (400, 80)
    assert last["samples"] == [320, 320, 320, 320, 5120]
    assert last["kept"] == [[4, 100]] * 5
    assert numbers["training"][0]["replayed"] == 0


def test_penalties_are_counted_in_their_cells(numbers, folders):
    entry = numbers["runs"][0]["penalties"][0]
    trials = Trials(folders["sequential"] / "trials.sqlite").all(entry["task"], 1)
    assert entry["given"][0] == {"count": sum(t.penalties.get(entry["name"], 0) for t in trials), "trials": 8}
    assert entry["given"][0]["count"] > 0


def test_a_range_check_names_the_worst_dimension_and_a_number_that_is_none(tmp_path):
    folder = write_run(tmp_path / "er", names=NAMES[:1], trials=1)
    line = json.loads((folder / "audit.jsonl").read_text().splitlines()[1])
    line["rows"][2]["largest"] = float("nan")
    (folder / "audit.jsonl").write_text(json.dumps(line))
    (check,) = summary(gather([folder]))["training"][0]["range_checks"]
    assert check["worst"]["name"] == "left_joint_3.pos"
    assert check["beyond"] == ["left_joint_3.pos"]


def test_heldout_goes_with_the_scores(numbers):
    found = numbers["runs"][0]["heldout"]["correlation"]
    assert found["cells"] == 15
    assert found["pearson"] > 0.9

import pytest

from holdfast import catalog


@pytest.mark.parametrize("stream", ["single_arm", "bimanual"])
def test_published_rows_cover_every_task_and_average_to_the_printed_score(stream):
    rows = {row.method: row for row in catalog.paper()["rows"] if row.stream == stream}
    printed = {
        "single_arm": {"finetune": 86.9, "joint": 82.6, "sequential": 31.4, "er": 97.2},
        "bimanual": {"finetune": 88.0, "joint": 83.2, "sequential": 38.3, "er": 97.2},
    }
    assert {method: row.average_score for method, row in rows.items()} == printed[stream]
    for row in rows.values():
        assert len(row.scores) == 5
        assert sum(row.scores) / len(row.scores) == pytest.approx(row.average_score, abs=0.06)


def test_published_transfer():
    figures = {(row.stream, row.method): (row.bwt, row.fwt) for row in catalog.paper()["rows"] if row.bwt is not None}
    assert figures == {
        ("single_arm", "sequential"): (-81.0, 11.6),
        ("single_arm", "er"): (1.5, 11.4),
        ("bimanual", "sequential"): (-68.6, 6.4),
        ("bimanual", "er"): (1.9, 9.6),
        ("heterogeneous", "er"): (-2.7, 8.7),
    }


def test_published_ablations():
    assert {(a.ratio, a.frequency): a.bwt for a in catalog.paper()["ablations"]} == {
        (0.002, 0.2): -8.95,
        (0.02, 0.2): 0.25,
        (0.2, 0.05): -21.1,
        (0.2, 0.1): -8.75,
        (0.2, 0.2): 1.5,
        (0.2, 0.5): 8.68,
    }


def test_published_matrices_are_lower_triangles_of_known_tasks():
    matrices = catalog.paper()["matrices"]
    assert len(matrices) == 5
    for published in matrices:
        assert [len(row) for row in published.rows] == [1, 2, 3, 4]
        assert set(published.tasks) <= set(catalog.tasks())
        assert published.matrix.cells[3, 4] == (published.rows[3][2],)


def test_every_published_figure_says_it_is_of_a_real_robot():
    figures = catalog.paper()
    for record in (*figures["rows"], *figures["ablations"], *figures["matrices"], *figures["schedules"].values()):
        assert record.source.startswith("real robot, ")


def test_joint_training_has_the_budget_of_replay():
    shared = catalog.paper()["hyperparameters"]
    replay_steps = int(shared.steps_per_task / (1 - shared.replay_frequency))
    assert shared.joint_steps == shared.steps_per_task + 4 * replay_steps


def test_the_schedules_of_the_ten_task_stream_are_data():
    schedules = catalog.paper()["schedules"]
    figures = {name: (s.stream, s.ratio, s.frequency, s.weights) for name, s in schedules.items()}
    assert figures == {
        "uniform": ("heterogeneous", 0.2, 0.2, {}),
        "asymmetric": ("heterogeneous", 0.2, 0.3, {"bimanual": 2.0, "single": 1.0}),
    }
    (row,) = (row for row in catalog.paper()["rows"] if row.stream == "heterogeneous")
    assert row.schedule == "asymmetric"
    assert all(row.schedule in {"", *schedules} for row in catalog.paper()["rows"])


def test_the_dataset_totals_are_those_of_the_tasks():
    published = catalog.paper()["dataset"]
    assert (published.demonstrations, published.gigabytes) == (4000, 35)
    assert sum(task.demonstrations for task in catalog.tasks().values()) == published.demonstrations
    groups = {"single": published.demonstrations_single, "bimanual": published.demonstrations_bimanual}
    assert all(task.demonstrations == groups[task.group] for task in catalog.tasks().values())
    assert {camera.fps for camera in catalog.cameras()} == {published.fps}


def test_the_sweeps_vary_what_the_ablations_measured():
    sweeps, shared = catalog.paper()["sweeps"], catalog.paper()["hyperparameters"]
    pairs = {(ratio, shared.replay_frequency) for ratio in sweeps.ratios}
    pairs |= {(shared.replay_ratio, frequency) for frequency in sweeps.frequencies}
    assert {(a.ratio, a.frequency) for a in catalog.paper()["ablations"]} == pairs
    assert {a.stream for a in catalog.paper()["ablations"]} == set(sweeps.streams)
    assert sweeps.normalizations == ("per-task", "frozen-first", "mixed")
    assert set(sweeps.normalization_streams) <= set(catalog.streams())

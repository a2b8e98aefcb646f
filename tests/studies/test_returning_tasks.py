"""Studies of streams whose tasks come back: their metrics, figures, plan and evidence."""

from dataclasses import replace

import pytest
from made_up_study import NAMES, results, study
from point_study import ARENAS, edited, write_study
from report.synthetic import write_run

from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix, Trial
from holdfast.metrics import summarize
from holdfast.runs.trials import Trials
from holdfast.studies.evidence import gather_evidence
from holdfast.studies.evidence_file import SUFFIX, read_evidence, write_evidence
from holdfast.studies.figures import draw
from holdfast.studies.figures.plot import shown_streams
from holdfast.studies.jobs import StudyFolder
from holdfast.studies.results import evidence_results
from holdfast.studies.summary import summary

VISITS = (1, 2, 1, 3, 2)


def score(flags, seed, task, stage, layout):
    return (31 * task + 17 * stage * task + 7 * layout + seed) % 101


def judged(cells="all"):
    return results(study("er", "finetune", seeds=(1,)), score, trials=3, cells=cells, visits=VISITS)


def matrix():
    """The same scores, as the metrics of a single run read them."""
    cells = [(i, j) for j in range(1, 6) for i in set(VISITS[:j])]
    scores = {(i, j): tuple(score({}, 1, i, j, n) for n in range(3)) for i, j in cells}
    alone = {i: tuple(score({}, 1, i, 0, n) for n in range(3)) for i in (1, 2, 3)}
    return Matrix(NAMES, scores, alone, VISITS)


def test_metrics_are_those_of_a_single_run():
    group = summary(judged())["groups"][0]
    for stage, expected in zip(group["stages"], summarize(matrix()), strict=True):
        for metric in ("average_score", "bwt", "fwt"):
            assert stage[metric]["value"] == pytest.approx(getattr(expected, metric).value), (stage["stage"], metric)
    assert group["bwt"]["value"] == pytest.approx(summarize(matrix())[-1].bwt.value)


def test_the_needed_cells_are_all_that_the_last_metrics_need():
    few, many = (summary(judged(cells))["groups"][0] for cells in ("needed", "all"))
    for metric in ("average_score", "bwt", "fwt"):
        assert few[metric]["value"] == many[metric]["value"]


def test_a_task_is_compared_with_its_last_visit():
    tasks = {task["task"]: task for task in summary(judged())["groups"][0]["tasks"]}
    means = {key: sum(scores) / 3 for key, scores in matrix().cells.items()}
    assert [tasks[name]["after_own"]["value"] for name in NAMES] == pytest.approx(
        [means[1, 3], means[2, 5], means[3, 4]]
    )
    assert [tasks[name]["final"]["value"] for name in NAMES] == pytest.approx([means[1, 5], means[2, 5], means[3, 5]])


def test_figures_have_a_place_for_every_stage():
    found = judged()
    plots = {plot.drawing.name: plot for plot in draw(shown_streams(found, summary(found)))}
    rows = [row for row in plots["matrices"].rows if row["group"] == "er"]
    assert {row["stage"]: row["after"] for row in rows} == dict(
        enumerate(["Stack bowls", "Hang cup", "Stack bowls", "Press button", "Hang cup"], 1)
    )
    transfer = plots["transfer-er"]
    assert [(row["stage"], row["task"]) for row in transfer.rows if row["metric"] == "fwt"] == [
        (2, "hang_cup"),
        (4, "press_button"),
    ]
    assert [row["stage"] for row in transfer.rows if row["metric"] == "bwt"] == [2, 3, 4, 5]
    assert transfer.drawing.svg.count("Hang") == 2  # a label for each visit


@pytest.fixture
def evidence(tmp_path):
    """The evidence of a run that learned bowls, cup, bowls, button and cup, read from its folder."""
    made, folder = study("er", seeds=(42,)), StudyFolder(tmp_path / "study")
    run = write_run(
        folder.run(made.runs()[0]).root, "er", [NAMES[i - 1] for i in VISITS], evaluated=False, heldout=False
    )
    with Trials(run / "trials.sqlite") as stored:
        for (i, j), scores in matrix().cells.items():
            for seed, value in enumerate(scores):
                stored.add(Trial(NAMES[i - 1], j, (), source="twin", seed=seed, level="standard", score=float(value)))
    return gather_evidence(made, folder)


def test_evidence_keeps_the_visits(evidence, tmp_path):
    file = write_evidence(evidence, tmp_path / f"half{SUFFIX}")
    (group,) = summary(evidence_results(read_evidence(file), tmp_path))["groups"]
    assert [row["learned"] for row in group["matrix"]] == list(VISITS)
    assert group["bwt"]["value"] == pytest.approx(summarize(matrix())[-1].bwt.value)


@pytest.mark.parametrize("visits", [(1, 2, 1), (2, 1, 3), (1, 2, 4), (1, 2, 3) * 4000])
def test_evidence_with_visits_of_other_tasks_is_refused(evidence, tmp_path, visits):
    ((name, run),) = evidence.runs.items()
    with pytest.raises(HoldfastError, match="was not written: run 'er-42': it"):
        write_evidence(replace(evidence, runs={name: replace(run, visits=visits)}), tmp_path / f"half{SUFFIX}")


def test_a_plan_counts_the_cells_of_every_visit(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ARENAS)
    file = write_study(tmp_path)
    stream = tmp_path / "points.toml"
    stream.write_text(stream.read_text() + '[[task]]\nname = "touch"\n')
    counts = []
    for cells in ("needed", "all"):
        assert main(["study", "plan", str(edited(file, "trials = 2", f'trials = 2\ncells = "{cells}"'))]) == 0
        counts.append(capsys.readouterr().out)
        edited(file, f'\ncells = "{cells}"', "")
    # 2 trials of (touch), (mirror), (touch, mirror); and of (touch), (touch, mirror), (touch, mirror), by 8 runs.
    assert "64 trials" in counts[0]
    assert "80 trials" in counts[1]

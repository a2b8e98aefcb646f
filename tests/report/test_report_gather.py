import json
from dataclasses import replace

import pytest
from synthetic import write_run

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.metrics import summarize
from holdfast.report.gather import gather
from holdfast.runs.trials import Trials

TWO = ("stack_bowls", "hang_cup")
TRIAL = Trial("stack_bowls", 2, ("reached",), source="twin", seed=100, score=25.0, weights="old")


def test_runs_without_stages_have_one_row_of_all_tasks(tmp_path):
    joint, alone = gather([write_run(tmp_path / m, m, names=TWO, trials=3) for m in ("joint", "finetune")])
    for run in (joint, alone):
        assert run.rows == (2,)
        assert set(run.matrix.cells) == {(1, 2), (2, 2)}
        assert len(run.of(1, 2)) == len(run.matrix.cells[1, 2]) == 3


def test_a_lone_task_is_not_credited_with_what_other_tasks_weights_score_on_it(tmp_path):
    folder = write_run(tmp_path / "finetune", "finetune", names=TWO, trials=3)
    Trials(folder / "trials.sqlite").add(replace(TRIAL, score=0.0))  # the first task by the second one's weights
    (run,) = gather([folder])
    assert len(run.of(1, 2)) == len(run.matrix.cells[1, 2]) == 3


def test_finetune_gives_the_others_their_forward_transfer(tmp_path):
    folders = [write_run(tmp_path / m, m, names=TWO) for m in ("er", "finetune")]
    (er,) = gather(folders[:1])
    assert summarize(er.matrix)[-1].fwt.value is None
    er, alone = gather(folders)
    own = sum(er.matrix.cells[2, 2]) / 8 - sum(alone.matrix.cells[2, 2]) / 8
    assert summarize(er.matrix)[-1].fwt.value == pytest.approx(own)


def test_trials_are_those_the_matrix_counts(tmp_path):
    folder = write_run(tmp_path / "er", names=TWO, trials=2)
    stored = Trials(folder / "trials.sqlite")
    stored.add(replace(TRIAL, valid=False, weights=""))
    (run,) = gather([folder])
    assert [t.seed for t in run.of(1, 2)] == [0, 1]
    assert len(run.matrix.cells[1, 2]) == 2


def test_trials_of_weights_that_were_trained_anew_no_longer_count(tmp_path):
    folder = write_run(tmp_path / "er", names=TWO, evaluated=False)
    stored = Trials(folder / "trials.sqlite")
    stored.add(TRIAL)
    stored.add(replace(TRIAL, weights="new", seed=101))
    (run,) = gather([folder])
    assert [t.seed for t in run.of(1, 2)] == [101]


def test_what_is_not_there_yet_stays_empty(tmp_path):
    (run,) = gather([write_run(tmp_path / "er", names=TWO, evaluated=False, heldout=False)])
    assert run.matrix.cells == {}
    assert run.trials == ()
    assert run.heldout is None


def test_a_log_that_is_being_written_may_end_in_half_a_line(tmp_path):
    folder = write_run(tmp_path / "er", names=TWO)
    with (folder / "stages" / "01-stack_bowls" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 42')
    (run,) = gather([folder])
    assert len(run.stages[0].lines) == 20


def test_a_stage_started_again_is_checked_once(tmp_path):
    folder = write_run(tmp_path / "er", names=TWO)
    lines = (folder / "audit.jsonl").read_text()
    (folder / "audit.jsonl").write_text(lines + lines)
    (run,) = gather([folder])
    assert [check["task"] for check in run.range_checks] == list(TWO)


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    first, second = gather([write_run(tmp_path / k / "er", names=TWO, trials=1) for k in ("one", "two")])
    assert (first.name, second.name) == ("one/er", "two/er")


def test_wrong_folders_are_explained(tmp_path):
    with pytest.raises(HoldfastError, match=r"no run\.yaml.*holdfast train"):
        gather([tmp_path])
    folder = write_run(tmp_path / "er", names=TWO, trials=1)
    with pytest.raises(HoldfastError, match="given twice"):
        gather([folder, folder])
    (folder / "heldout.json").write_text(json.dumps({"tasks": ["other"], "cells": {}}))
    with pytest.raises(HoldfastError, match=r"heldout\.json has the tasks \['other'\]"):
        gather([folder])
    (folder / "run.yaml").write_text("config: {}")
    with pytest.raises(HoldfastError, match=r"run\.yaml is not as"):
        gather([folder])


def test_the_baseline_may_come_from_several_runs_of_tasks_alone(tmp_path):
    er = write_run(tmp_path / "er", "er", names=("stack_bowls", "place_cola", "hang_cup"))
    single = write_run(tmp_path / "single", "finetune", names=TWO)
    bimanual = write_run(tmp_path / "bimanual", "finetune", names=("cook_bread", "place_cola"))
    (part, _) = gather([er, single])
    assert set(part.matrix.baseline) == {1, 3}
    assert summarize(part.matrix)[-1].fwt.value is None  # place_cola was not trained alone
    run, alone, other = gather([er, single, bimanual])
    assert run.matrix.baseline == {
        1: alone.matrix.cells[1, 2], 2: other.matrix.cells[2, 2], 3: alone.matrix.cells[2, 2]
    }  # fmt: skip
    assert summarize(run.matrix)[-1].fwt.value is not None


def test_the_order_of_the_tasks_that_were_learned_alone_does_not_matter(tmp_path):
    names = ("stack_bowls", "hang_cup", "press_button")
    er = write_run(tmp_path / "er", "er", names=names)
    turned = write_run(tmp_path / "turned", "finetune", names=(*names[::-1], "push_box"))
    run, alone = gather([er, turned])
    baseline = {name: alone.matrix.cells[i, 4] for i, name in enumerate(alone.names, 1)}
    assert run.matrix.baseline == {i: baseline[name] for i, name in enumerate(names, 1)}
    assert summarize(run.matrix)[-1].fwt.value is not None

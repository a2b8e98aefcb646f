"""A stream whose first task comes back: its own stage, one buffer, one row of the matrix."""

import json
import shutil

import pytest
from toys import TINY

from holdfast.cli import main
from holdfast.core.records import Matrix, Trial
from holdfast.metrics import summarize
from holdfast.report.gather import gather
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

SMALL = ("--device=cpu", "--steps=4", "--batch_size=4", "--replay.frequency=0.5", "--replay.ratio=0.5")
STAGES = ["01-reach", "02-lift", "03-reach"]


def train(toy, method, *more):
    stream = f"--stream={toy}/stream.toml"
    words = ["train", stream, "--tasks=[reach, lift, reach]", f"--output={toy}/{method}", f"--method={method}"]
    assert main([*words, *SMALL, *TINY, *more]) == 0
    return toy / method


def lines(run, stage):
    return [json.loads(line) for line in (run / "stages" / stage / "metrics.jsonl").read_text().splitlines()]


def test_a_second_visit_is_a_stage_of_its_own_and_replays_the_others(toy):
    run = train(toy, "er", "--log.every=1")
    assert sorted(path.name for path in (run / "stages").iterdir()) == STAGES
    kept = [json.loads((run / "stages" / s / "checkpoint/buffer.json").read_text())["tasks"] for s in STAGES]
    assert [[(k["task"], len(k["episodes"])) for k in tasks] for tasks in kept] == [
        [("reach", 3)],
        [("reach", 1), ("lift", 1)],  # 6 episodes, rho 0.5, two tasks
        [("reach", 1), ("lift", 1)],  # two tasks still
    ]
    assert kept[2] == kept[1]
    samples = [line["samples"] for line in lines(run, "03-reach")]
    assert {name for line in samples for name, n in line.items() if n} == {"reach", "lift"}
    assert len(lines(run, "03-reach")) == 8  # 4 / (1 - 0.5)
    read = read_run(run)
    assert (read.names, read.visits, read.planned) == (("reach", "lift"), ("reach", "lift", "reach"), 3)
    assert [stage.seen for stage in read.stages] == [("reach",), ("reach", "lift"), ("reach", "lift")]


def test_copies_and_a_restart_agree(toy):
    run = train(toy, "er")
    copies = train(toy, "er", f"--output={toy}/copies", "--replay.store=copy")
    weights = [folder / "stages/03-reach/checkpoint/policy/model.safetensors" for folder in (run, copies)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    train(toy, "er")  # nothing left to do


def test_a_dataset_that_changed_between_two_visits_is_refused(toy, capsys):
    run = train(toy, "sequential")
    shutil.rmtree(run / "stages/03-reach")
    info = toy / "reach/meta/info.json"
    info.write_text(info.read_text() + " ")
    words = ["train", f"--stream={toy}/stream.toml", "--tasks=[reach, lift, reach]", f"--output={run}"]
    assert main([*words, "--method=sequential", *SMALL, *TINY]) == 2
    assert "has changed since its stage: meta/info.json differs" in capsys.readouterr().err


@pytest.mark.parametrize(("method", "stages"), [("joint", ["01-joint"]), ("finetune", ["01-reach", "02-lift"])])
def test_methods_without_a_sequence_learn_every_task_once(toy, method, stages):
    run = train(toy, method)
    assert sorted(path.name for path in (run / "stages").iterdir()) == stages
    read = read_run(run)
    assert (read.names, read.planned) == (("reach", "lift"), len(stages))


def test_a_dry_run_plans_it(toy, capsys):
    words = ["train", f"--stream={toy}/stream.toml", "--tasks=[reach, lift, reach]", f"--output={toy}/plan"]
    assert main([*words, *SMALL, "--dry-run", "--json"]) == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    assert [stage["name"] for stage in stages] == ["reach", "lift", "reach"]
    assert [stage["kept"] for stage in stages] == [{"reach": 3}, {"reach": 1, "lift": 1}, {"reach": 1, "lift": 1}]
    assert [stage["replay_share"] for stage in stages] == [{}, {"reach": 1.0}, {"lift": 1.0}]


def test_the_metrics_count_a_task_once():
    cells = {(1, 1): (80.0,), (1, 2): (20.0,), (2, 2): (60.0,), (1, 3): (90.0,), (2, 3): (30.0,)}
    cells |= {(1, 4): (70.0,), (2, 4): (50.0,)}
    matrix = Matrix(("reach", "lift"), cells, {1: (50.0,), 2: (40.0,)}, visits=(1, 2, 1, 2))
    found = summarize(matrix)
    assert [stage.average_score.value for stage in found] == [80, 40, 60, 60]
    assert [stage.bwt.value for stage in found] == [None, 20 - 80, 30 - 60, 70 - 90]  # against the last visit
    assert [stage.fwt.value for stage in found] == [None, 60 - 40, 60 - 40, 60 - 40]  # of the first visit


def test_a_task_twice_in_a_row_has_nothing_to_replay(toy):
    words = ["train", f"--stream={toy}/stream.toml", "--tasks=[reach, reach]", f"--output={toy}/same"]
    assert main([*words, *SMALL, *TINY, "--log.every=1"]) == 0
    assert len(lines(toy / "same", "02-reach")) == 4


def test_trials_after_every_stage_reach_the_report(toy):
    run = train(toy, "er")
    judged = (("reach", 1, 80.0), ("reach", 2, 20.0), ("lift", 2, 60.0), ("reach", 3, 90.0), ("lift", 3, 30.0))
    with Trials(run / "trials.sqlite") as trials:
        for task, stage, score in judged:
            trials.add(Trial(task, stage, (), source="elsewhere", seed=0, score=score))
    found = gather([run])[0]
    assert (found.names, found.rows, found.matrix.learned) == (("reach", "lift"), (1, 2, 3), (1, 2, 1))
    assert summarize(found.matrix)[-1].bwt.value == -30
    assert main(["report", str(run)]) == 0

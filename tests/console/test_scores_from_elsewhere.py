"""Results of lerobot-eval and plain tables become trials of a source of their own, all or none."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from scoring_runs import make_run

from holdfast import catalog
from holdfast.cli import main
from holdfast.console.elsewhere import Origin, read_scores
from holdfast.console.exchange import export
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.core.records import Trial, TrialProtocol
from holdfast.metrics import summarize
from holdfast.report.gather import gather
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

GOAL = catalog.load_stream("libero_goal", ".")


def stream_run(folder, stream):
    """A run on the first two tasks of a stream."""
    make_run(folder)
    settings = yaml.safe_load((folder / "run.yaml").read_text())
    settings["tasks"] = json.loads(json.dumps([to_json(entry.task) for entry in stream.tasks[:2]]))
    (folder / "run.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    for stage, entry in enumerate(stream.tasks[:2], 1):
        (old,) = (folder / "stages").glob(f"{stage:02d}-*")
        old.rename(old.with_name(f"{stage:02d}-{entry.task.name}"))
    return folder


@pytest.fixture
def folder(tmp_path):
    """A run on tasks of libero_goal, which have no milestones."""
    return stream_run(tmp_path / "er", GOAL)


def stored(folder):
    with Trials(folder / "trials.sqlite") as file:
        return file.all()


def table(folder, text, origin=Origin()):  # noqa: B008
    file = folder.parent / "table.csv"
    file.write_text(text)
    return read_scores([read_run(folder)], file, origin)


def eval_info(folder, *tasks, name="eval_info.json", **more):
    """What lerobot-eval 0.6.1 writes: (group, id, successes) by task."""
    per_task = [
        {
            "task_group": group,
            "task_id": number,
            "metrics": {
                "sum_rewards": [0.0] * len(done),
                "max_rewards": [0.0] * len(done),
                "successes": done,
                "video_paths": ["videos/0.mp4"],
                "predicted_video_paths": [],
            },
        }
        for group, number, done in tasks
    ]
    file = folder.parent / name
    file.write_text(json.dumps({"per_task": per_task, "per_group": {}, "overall": {"pc_success": float("nan")}} | more))
    return file


ONE, TWO = GOAL.names[:2]


def test_a_table_of_success_needs_no_rubric(folder, tmp_path, capsys):
    rows = (f"{ONE},1,0,yes", f"{ONE},1,1,no", f"{ONE},2,0,no", f"{TWO},2,0,1")
    (tmp_path / "t.csv").write_text("\n".join(("task,stage,seed,success", *rows)))
    words = ["score", str(folder), "--import", str(tmp_path / "t.csv"), "--source", "lab2"]
    assert main(words) == 0
    assert "4 trials" in capsys.readouterr().out
    trials = stored(folder)
    assert {(t.source, t.milestones, t.valid) for t in trials} == {("lab2", (), True)}
    assert [t.score for t in trials] == [100, 0, 0, 100]
    found = summarize(gather([folder])[0].matrix)[-1]
    assert (found.average_score.value, found.bwt.value) == (50, -50)
    assert main(words) == 0  # a second time nothing is added
    assert len(stored(folder)) == 4


def test_a_table_of_scores_keeps_them(folder):
    assert table(folder, f"task,stage,seed,score\n{ONE},1,7,62.5\n") == (1, 1)
    (trial,) = stored(folder)
    assert (trial.score, trial.seed, trial.source, trial.final) == (62.5, 7, "imported", False)
    for seed, (text, score) in enumerate({"1e1": 10, ".5": 0.5, "100.": 100}.items()):
        table(folder, f"task,stage,seed,score\n{ONE},2,{seed},{text}\n")
        assert stored(folder)[-1].score == score


def test_plain_scores_go_out_and_in_again(folder, tmp_path):
    table(folder, f"task,stage,seed,score\n{ONE},1,7,62.5\n{ONE},2,7,100\n")
    export([read_run(folder)], tmp_path / "out.csv")
    before = stored(folder)
    (folder / "trials.sqlite").unlink()
    assert read_scores([read_run(folder)], tmp_path / "out.csv", Origin()) == (2, 2)
    assert stored(folder) == before


def test_lerobot_eval_of_a_suite_finds_its_tasks(folder):
    file = eval_info(folder, ("libero_goal", 1, [True, False, True]), ("libero_goal", 0, [False]))
    assert main(["score", str(folder), "--import", str(file), "--stage", "2"]) == 0
    found = {(t.task, t.stage, t.seed, t.score, t.source) for t in stored(folder)}
    assert found == {
        (TWO, 2, 0, 100, "lerobot-eval"),
        (TWO, 2, 1, 0, "lerobot-eval"),
        (TWO, 2, 2, 100, "lerobot-eval"),
        (ONE, 2, 0, 0, "lerobot-eval"),
    }


def test_lerobot_eval_of_one_task_may_be_named(folder):
    run, file = read_run(folder), eval_info(folder, ("pusht", 0, [True]))
    with pytest.raises(HoldfastError, match=rf"'pusht' and task_id '0' name no task of the run.*--task {ONE}"):
        read_scores([run], file, Origin(stage=1))
    assert read_scores([run], file, Origin(stage=1, task=ONE, source="mine")) == (1, 1)
    assert read_scores([run], eval_info(folder, (TWO, 0, [True])), Origin(stage=2)) == (1, 1)  # a task's own name


def test_lerobot_eval_of_metaworld_finds_its_tasks(tmp_path):
    folder = stream_run(tmp_path / "er", catalog.load_stream("cw10", ".").only(["hammer-v3", "push-v3"]))
    run = read_run(folder)
    file = eval_info(folder, ("medium", 5, [True]), ("hard", 4, [False, True]))
    assert read_scores([run], file, Origin(stage=2)) == (3, 3)
    assert {(t.task, t.seed, t.score) for t in stored(folder)} == {
        ("hammer-v3", 0, 100), ("push-v3", 0, 0), ("push-v3", 1, 100),
    }  # fmt: skip
    file = eval_info(folder, ("metaworld-push-v3", 0, [True]), ("hammer-v3", 0, [True]))
    assert read_scores([run], file, Origin(stage=1)) == (2, 2)
    for group, number, says in (
        ("easy", 0, r"'easy' and task_id '0', button-press-v3, name no task .* alone: hammer-v3, push-v3\."),
        ("medium", 99, r"'medium' and task_id '99' name no task"),
        ("medium", True, r"'medium' and task_id 'True' name no task"),
        ("metaworld-push-v2", 0, r"'metaworld-push-v2' and task_id '0' name no task"),
    ):
        with pytest.raises(HoldfastError, match=says):
            read_scores([run], eval_info(folder, (group, number, [True])), Origin(stage=1))


def test_metaworlds_groups_are_those_of_lerobot():
    file = Path(find_spec("lerobot").submodule_search_locations[0]) / "envs" / "metaworld_config.json"
    groups = json.loads(file.read_text())["DIFFICULTY_TO_TASKS"]
    assert {name: list(catalog.metaworld_group(name)) for name in groups} == groups
    assert catalog.metaworld_group("libero_goal") == ()


@pytest.mark.parametrize(
    ("tasks", "origin", "says"),
    [
        ([("libero_goal", 0, [True])], Origin(), "which checkpoint.*--stage"),
        ([("libero_goal", 0, [True])], Origin(stage=9), "finished stage"),
        ([("libero_goal", 0, [True])], Origin(stage=1, source="twin"), "ours"),
        ([("libero_goal", 0, [True])], Origin(stage=1, source="operator"), "ours"),
        ([("libero_goal", 0, [True])], Origin(stage=1, source="metaworld"), "like 'imported' or 'metaworld-elsewhere'"),
        ([("libero_goal", 0, [True])], Origin(stage=1, source="here"), "ours"),
        ([("libero_goal", 0, [True])], Origin(stage=1, source="../x"), "must be letters"),
        ([("libero_goal", 0, [True])], Origin(stage=1, task="no"), f"about the task '{ONE}', not --task no"),
        ([("libero_goal", 0, [True])], Origin(stage=1, task=TWO), f"about the task '{ONE}', not --task {TWO}"),
        ([("pusht", 0, [True])], Origin(stage=1, task="no"), "task 'no' of the run"),
        ([("libero_goal", 0, [True]), (ONE, 0, [True])], Origin(stage=1), rf"per_task\[1\].*{ONE}' is in .*task\[0\]"),
        ([("libero_goal", 0, [True]), ("libero_goal", 1, [True])], Origin(stage=1, task=ONE), "Leave it out"),
        ([("libero_goal", 0, [True]), ("libero_goal", 7, [True])], Origin(stage=1), "name no task"),
        ([("libero_goal", -1, [True])], Origin(stage=1), "name no task"),
        ([("libero_goal", "0", [True])], Origin(stage=1), "name no task"),
        ([(["x"], 0, [True])], Origin(stage=1), "name no task"),
        ([("libero_goal", 0, [1.0])], Origin(stage=1), r"successes\[0\]"),
        ([("libero_goal", 0, "yes")], Origin(stage=1), "successes"),
        ([], Origin(stage=1), "no list `per_task`"),
    ],
)
def test_results_that_do_not_fit_are_refused_whole(folder, tasks, origin, says, monkeypatch):
    here = folder.parent / "share/arenas/here"  # an arena that is set up
    here.mkdir(parents=True)
    (here / "arena.toml").touch()
    monkeypatch.setenv("HOLDFAST_DATA", str(folder.parent / "share"))
    with pytest.raises(HoldfastError, match=f"(?i){says}"):
        read_scores([read_run(folder)], eval_info(folder, *tasks), origin)
    assert not (folder / "trials.sqlite").exists() or stored(folder) == []


@pytest.mark.parametrize(
    "made", [{"protocol": TrialProtocol(8)}, {"level": "wide"}, {"seconds": 2.0}, {"video": "v.mp4"}]
)
def test_imports_stay_apart_from_trials_that_their_source_has_made(folder, made):
    rows = f"task,stage,seed,success\n{ONE},1,0,yes\n"
    assert table(folder, rows, Origin("lab")) == (1, 1)
    with Trials(folder / "trials.sqlite") as file:
        file.add(Trial(TWO, 2, (), source="mine", run="er", seed=0, score=0.0, **made))
    before = stored(folder)
    with pytest.raises(HoldfastError, match=r"'mine' itself.*like 'mine-elsewhere'"):
        table(folder, rows, Origin("mine"))
    assert stored(folder) == before
    assert table(folder, rows.replace(",0,", ",1,"), Origin("lab")) == (1, 1)  # its trials are all imported


GOOD = f"task,stage,seed,success\n{ONE},1,0,yes\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD + f"{ONE},1,1,maybe\n", "row 3, column 'success': must be yes or no, got 'maybe'"),
        (GOOD + f"{ONE},1,-1,yes\n", "row 3, column 'seed': must be a whole number"),
        (GOOD + f"{ONE},1,²,yes\n", "row 3, column 'seed'"),
        (GOOD + f"{ONE},4,1,yes\n", "row 3: .*finished stage"),
        (GOOD + "wash,1,1,yes\n", "row 3: .*task 'wash' of the run"),
        (GOOD + f"{ONE},1,0,no\n", "same task, stage, seed"),
        (GOOD + f"{ONE},1\n", "row 3: 2 fields for 4 columns"),
        (f"task,stage,seed,score\n{ONE},1,0,nan\n", "from 0 to 100, got 'nan'"),
        (f"task,stage,seed,score\n{ONE},1,0,100.5\n", "from 0 to 100"),
        (f"task,stage,seed,score\n{ONE},1,0,1_0\n", "from 0 to 100, got '1_0'"),
        (f"task,stage,seed,score\n{ONE},1,0,٩٩\n", "from 0 to 100, got '٩٩'"),
        (f"task,stage,success\n{ONE},1,yes\n", "has the columns task, stage, seed and either"),
        (f"task,stage,seed,success,score\n{ONE},1,0,yes,100\n", "has the columns"),
        (f"task,stage,seed,success,colour\n{ONE},1,0,yes,red\n", "column 'colour' in line 1"),
        ("task,stage,seed\n", "column 'seed'|'when' is missing|'milestones' is missing"),
    ],
)
def test_a_table_with_a_mistake_is_refused_whole(folder, text, says):
    with pytest.raises(HoldfastError, match=f"(?i){says}"):
        table(folder, text)
    assert not (folder / "trials.sqlite").exists() or stored(folder) == []


def test_flags_of_an_import_are_for_imports_only(folder, tmp_path, capsys):
    assert main(["score", str(folder), "--agreement", "--source", "lab2"]) == 2
    assert "add --import FILE" in capsys.readouterr().err
    (tmp_path / "paper.csv").write_text("task,stage,when,operator,milestones\n")
    assert main(["score", str(folder), "--import", str(tmp_path / "paper.csv"), "--source", "lab2"]) == 2
    assert "are not for" in capsys.readouterr().err

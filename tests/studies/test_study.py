"""A study's file: which runs it makes, what they are called, what it refuses, what is planned."""

from dataclasses import replace
from pathlib import Path

import pytest
from point_study import edited, write_study

from holdfast.catalog import load_stream
from holdfast.cli import main
from holdfast.commands.flags import parse
from holdfast.core.errors import HoldfastError
from holdfast.methods import METHODS, build_method
from holdfast.recipes import RECIPES
from holdfast.replay.buffer import quota
from holdfast.studies import Study, load_study, shipped
from holdfast.studies.jobs import StudyFolder, make_jobs, train_flags
from holdfast.studies.study import StudyRecord
from holdfast.train.config import TrainConfig


@pytest.fixture
def file(tmp_path):
    return write_study(tmp_path)


def test_a_run_for_each_combination_and_seed_named_by_what_differs(file):
    names = [run.name for run in load_study(str(file)).runs()]
    assert names == [
        f"{name}-{seed}"
        for seed in (1, 2)
        for name in ("sequential", "er", "er-replay.frequency=0.2", "er-replay.frequency=0.5")
    ]


def test_a_combination_that_two_grids_name_is_one_run(file):
    edited(file, 'method = "er"\nreplay.frequency = [0.2, 0.5]', 'method = ["er", "joint"]')
    assert [run.name for run in load_study(str(file)).runs()][:3] == ["sequential-1", "er-1", "joint-1"]


def test_the_plan_counts_shared_stages_once_and_only_needed_trials(file, capsys):
    assert main(["study", "plan", str(file)]) == 0
    out = capsys.readouterr().out
    # Per seed a first stage that all four have in common, and a second stage each; f_r 0.2 is er's default.
    assert "8 runs, 8 different stages" in out
    assert "48 trials" in out  # three cells of two trials


def test_a_question_is_printed_as_it_is(file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    file.write_text(f'question = "does [red] or [/b] help?"\n{file.read_text()}')
    assert main(["study", "plan", str(file)]) == 0
    assert "does [red] or [/b] help?" in capsys.readouterr().out


def test_the_plan_shows_runs_that_differ_in_their_seed_once_and_breaks_names_at_dashes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["study", "plan", "findings-mini"]) == 0
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert rows[:5] == [
        ["finetune", "5", "3", "", "1,800", "60"],
        ["sequential", "5", "3", "1", "1,000", "100"],
        ["joint", "5", "1", "", "2,050", "60"],
        ["er-replay.frequency=0.05-", "5", "3", "1", "1,052", "100"],
        ["replay.ratio=0.2", "", "", "", "", ""],
    ]
    assert "40 runs" in out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("batch_size = 4", "batchsize = 4", "batchsize"),
        ('["sequential", "er"]', '["sequentiel"]', "Unknown --method 'sequentiel'"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "'seeds' must be different"),
        ("seeds = [1, 2]", 'seeds = ["1"]', "'seeds'"),
        ("trials = 2", "trials = 0", "'trials' must be at least 1"),
        ("trials = 2", 'cells = "some"', "Unknown 'cells' 'some'"),
        ("episodes = 4", "episode = 4", "Unknown key 'episode'"),
        ("steps = 4", "seed = 4", "set by the study itself"),
        ("[evaluate]", "[evaluation]", "Unknown key 'evaluation'"),
        ("points.toml", "point.toml", "point.toml"),
        ("[0.2, 0.5]", "[0.2, 1.5]", "replay.frequency"),
        ("[0.2, 0.5]", "[0.2]\n'replay.frequency' = 0.5", "'replay.frequency' must be given once, got two values"),
        ("[0.2, 0.5]", "[]", "'replay.frequency' must be one value or more in grid 2"),
        ("trials = 2", "trials = 2\nhorizon = 0", "'horizon' must be at least 1"),
        ("size = 32", "size = 33", "'size' must be an even number"),
        ("seed = 7", "seed = -7", "'seed' must be at least 0"),
        ("seeds = [1, 2]", r'question = "\u001b[31mWhy?"', "'question' must be one line of text"),
        ("trials = 2", "trials = 2\nfirst_seed = 6", "layouts 6 to 7 are among the 10,000 from 7 on"),
        ('device = "cpu"', 'device = "gpu"', "Unknown device 'gpu'"),
        ('device = "cpu"', 'device = "cpu"\npolicy.widht = 8', "has no option --policy.widht"),
        ('device = "cpu"', 'device = "cpu"\ntask_steps = { tuch = 8 }', "Unknown task 'tuch' in --task_steps"),
        ('"fake_arena:FakeArena"', '"twinn"', "Unknown arena 'twinn' of study points. Did you mean 'twin'?"),
    ],
)
@pytest.mark.parametrize("action", ["plan", "run"])
def test_a_mistake_is_said_in_one_line_before_any_work(file, tmp_path, capsys, action, old, new, said):
    edited(file, old, new)
    assert main(["study", action, str(file), f"--output={tmp_path}/out"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_every_shipped_study_can_be_planned(capsys):
    for name in shipped():
        assert main(["study", "plan", name]) == 0
        assert "different stages" in capsys.readouterr().out


def test_an_unknown_study_names_the_shipped_ones():
    with pytest.raises(HoldfastError, match="replay-frequency"):
        load_study("replay-frequenzy")


def test_a_study_of_several_streams_records_the_tasks_of_all_once_for_every_seed():
    study = replace(load_study("paper-twin"), record=StudyRecord(episodes=100))
    jobs = {job.name: job for job in make_jobs(study, StudyFolder(Path("here")))}
    for seed in (1, 2, 3):
        words = jobs[f"record-seed-{seed}"].command
        tasks = words[words.index("--tasks") + 1 : words.index("--episodes")]
        assert sorted(tasks) == sorted(load_stream("heterogeneous", "data").names)  # all ten
        training = jobs[f"train-bimanual-er-{seed}"]
        assert {"--stream=bimanual", f"--data_root=here/data/seed-{seed}"} <= set(training.command)
        assert training.needs == (f"record-seed-{seed}",)
    assert len(jobs) == 3 + 2 * 3 * 9 + 1


@pytest.mark.parametrize("name", ["single_arm", "bimanual", "heterogeneous"])
def test_the_study_of_recipes_trains_and_tries_as_the_recipes_do(name):
    study, recipe = load_study("recipes"), RECIPES[name](Path("here"), seed=4)
    made = [config for runs in recipe.parts.values() for config in runs]
    groups = {flags["method"]: run for run in study.runs() if (flags := run.flags)["stream"] == name and run.seed == 4}
    for config in made:
        studied = parse(TrainConfig, "train", train_flags(study, StudyFolder(Path("here")), groups[config.method]), "")
        own = {key: getattr(config, key) for key in ("output", "data_root", "share")}
        assert replace(studied, **own) == config
    assert len(made) == 2
    assert (study.record.episodes, study.record.size) == (recipe.record.episodes, recipe.record.size)
    assert (study.evaluate.trials, study.evaluate.horizon) == (recipe.evaluate.trials, recipe.evaluate.horizon)


def test_names_tell_what_differs_between_runs_of_one_stream_and_method():
    grids = (
        {"stream": ["single_arm", "bimanual"], "method": "sequential", "steps": 960},
        {"stream": "single_arm", "method": "er", "steps": 800, "replay.frequency": [0.2, 0.5]},
        {"stream": "single_arm", "method": "er", "steps": 800, "optim.lr": 1e-3},
    )
    assert [label for label, _ in Study("s", {}, grids=grids).groups] == [
        "single_arm-sequential",
        "bimanual-sequential",
        "single_arm-er-replay.frequency=0.2",
        "single_arm-er-replay.frequency=0.5",
        "single_arm-er-optim.lr=0.001",
    ]


@pytest.mark.parametrize(("stream", "steps", "kept"), [("single_arm", 4800, 20), ("heterogeneous", 9800, 10)])
def test_the_study_of_methods_has_all_of_them_with_equal_steps(stream, steps, kept):
    study, tasks = load_study("methods"), load_stream(stream, "data")
    groups = [flags for _, flags in study.groups if flags["stream"] == stream]
    assert {flags["method"] for flags in groups} == METHODS.keys()
    for flags in groups:
        method, count = build_method(flags["method"], {}), len(tasks.tasks)
        if flags["method"] not in ("finetune", "joint-cumulative"):
            assert sum(stage.steps for stage in method.stages(tasks, [flags["steps"]] * count, 0.2)) == steps
        assert ("replay.ratio" in flags) == method.replays
    ratios = {flags["replay.ratio"] for flags in groups if "replay.ratio" in flags}
    assert {quota(study.record.episodes, ratio, len(tasks.tasks)) for ratio in ratios} == {1, kept}

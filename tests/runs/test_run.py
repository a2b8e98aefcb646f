"""One reading of a run for all who need it: settings, stages, checkpoints, paths."""

import hashlib
import json
import shutil

import pytest
import yaml

from holdfast import catalog
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.core.records import Stage
from holdfast.report.gather import read_results
from holdfast.runs.paths import RunPaths, is_evaluation_video
from holdfast.runs.run import read_run, started_stages

TASKS = ("press_button", "push_box")


def finish(path, number, name):
    folder = RunPaths(path).stage(Stage(number, name, (number - 1,), 1)).checkpoint.folder
    (folder / "policy").mkdir(parents=True)
    (folder / "policy" / "model.safetensors").write_bytes(name.encode())
    digest = hashlib.sha256(name.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps({"policy/model.safetensors": digest}))
    return digest


@pytest.fixture
def path(tmp_path):
    content = {"config": {"method": "er", "seed": 7}, "tasks": [to_json(catalog.task(name)) for name in TASKS]}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(content))
    finish(tmp_path, 1, TASKS[0])
    return tmp_path


def test_it_reads_tasks_settings_and_finished_stages(path):
    (path / "stages" / "02-push_box" / "progress").mkdir(parents=True)  # begun, not finished
    run = read_run(path)
    assert (run.method, run.seed, run.planned, run.names) == ("er", 7, 2, TASKS)
    assert run.tasks == tuple(catalog.task(name) for name in TASKS)
    assert [(s.number, s.name, s.folder, s.seen) for s in run.stages] == [
        (1, "press_button", "01-press_button", ("press_button",))
    ]
    assert [(s.number, s.name) for s in started_stages(run.paths)] == [(1, "press_button"), (2, "push_box")]


@pytest.mark.parametrize(
    "name",
    [
        "2nd-try",
        "1\u00b2-x",
        "01-press_button-old",
        "00-press_button",
        "99-push_box",
        "02-press_button",
        "02-",
        "001-press_button",
    ],
)
def test_folders_beside_the_stages_are_not_taken_for_some(path, name):
    shutil.copytree(path / "stages" / "01-press_button", path / "stages" / name)
    assert [stage.number for stage in read_run(path).stages] == [1]
    assert [stage.folder.name for stage in started_stages(RunPaths(path))] == ["01-press_button"]
    (results,) = read_results(path)
    assert [stage.number for stage in results.stages] == [1]


def test_a_run_that_has_not_begun_has_no_stages(tmp_path):
    (tmp_path / "stages" / "01-press_button").mkdir(parents=True)
    assert started_stages(RunPaths(tmp_path)) == []


@pytest.mark.parametrize(("method", "found"), [("joint", ["joint"]), ("own.py:Mine", ["joint", "warmup"])])
def test_only_a_method_of_the_users_own_names_its_stages(path, method, found):
    content = yaml.safe_load((path / "run.yaml").read_text())
    (path / "run.yaml").write_text(yaml.safe_dump(content | {"config": {"method": method}}))
    (path / "method.json").write_text(json.dumps({"name": method, "sha256": "", "arrangement": "together"}))
    shutil.rmtree(path / "stages")
    for number, name in ((1, "joint"), (2, "warmup")):
        finish(path, number, name)
    assert [stage.name for stage in read_run(path).stages] == found
    finish(path, 2, "warmup.bak")
    if method == "joint":
        assert [stage.name for stage in read_run(path).stages] == found
        return
    with pytest.raises(HoldfastError, match=r"two folders of stage 2: 02-warmup and 02-warmup\.bak\. Move"):
        read_run(path)


def test_policy_is_a_folder_and_the_hash_is_that_of_the_weights(path):
    digest = finish(path, 2, TASKS[1])
    found = read_run(path).stages[1].checkpoint
    assert found.policy == path / "stages" / "02-push_box" / "checkpoint" / "policy"
    assert found.weights_hash == found.recorded_weights_hash == digest


def test_weights_that_were_altered_are_refused(path):
    found = read_run(path).stages[0].checkpoint
    (found.policy / "model.safetensors").write_bytes(b"other")
    with pytest.raises(HoldfastError, match="damaged: its weights are not the ones that were written"):
        _ = found.weights_hash


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("buffer.json", '{"ratio": 0.2, "tasks": [{"task": "a"}]}', "buffer"),
        ("buffer.json", "[]", "buffer"),
        ("schema.json", "[]", "schema"),
        ("schema.json", "{}", "schema"),
        ("schema.json", '{"names": 5, "fps": 30}', "schema"),
        ("schema.json", '{"names": [1], "fps": 30}', "schema"),
        ("schema.json", '{"names": ["x"], "state_names": 7, "fps": 30}', "schema"),
        ("schema.json", '{"names": ["x"], "fps": "fast"}', "schema"),
        ("datasets.json", "{", "datasets"),
        ("config.json", "", "config"),
        ("normalization.json", "nonsense", "normalization"),
    ],
)
def test_a_file_of_a_checkpoint_that_cannot_be_used_is_named(path, name, text, read):
    found = read_run(path).stages[0].checkpoint
    (found.folder / name).write_text(text)
    with pytest.raises(HoldfastError, match=name):
        getattr(found, read)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "config: {}", "{", "config: {method: er}\ntasks: [1]", "config: 3\ntasks: 4"]
    + [f"config: {{method: er, seed: {seed}}}\ntasks: []" for seed in (".inf", ".nan", "x")],
)
def test_settings_that_are_none_are_an_error_of_the_users(path, text):
    (path / "run.yaml").write_text(text)
    with pytest.raises(HoldfastError, match=r"run\.yaml (is not as `holdfast train` writes it|cannot be read)"):
        read_run(path)


def test_attempts_are_not_filmed_into_a_folder_that_leads_elsewhere(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rollouts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HoldfastError, match="rollouts is a link"):
        RunPaths(tmp_path / "run").new_rollout()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_two_that_ask_for_a_new_rollout_get_two(tmp_path):
    paths = RunPaths(tmp_path)
    (tmp_path / "rollouts" / "\u00b2").mkdir(parents=True)
    first, second = paths.new_rollout(), paths.new_rollout()
    assert [paths.relative(p.video) for p in (first, second)] == ["rollouts/0001/video.mp4", "rollouts/0002/video.mp4"]
    assert list(paths.finished_rollouts()) == []
    second.record.write_text("{}")
    assert list(paths.finished_rollouts()) == [second]


def test_videos_of_evaluation_are_told_from_rollouts(tmp_path):
    assert (
        RunPaths(tmp_path).evaluation_video("02-push_box", "twin", "push_box", 7)
        == "videos/02-push_box/twin/push_box-0007.mp4"
    )
    assert is_evaluation_video("videos/02-push_box/twin/push_box-0007.mp4")
    assert not is_evaluation_video("rollouts/0001/video.mp4")


@pytest.mark.parametrize(
    ("video", "there"), [("a.mp4", True), ("a.webm", False), ("b.mp4", False), ("../out.mp4", False)]
)
def test_only_videos_inside_the_run_are_found(tmp_path, video, there):
    (tmp_path / "run").mkdir()
    for file in ("out.mp4", "run/a.mp4", "run/a.webm"):
        (tmp_path / file).write_bytes(b"")
    assert bool(RunPaths(tmp_path / "run").find_video(video)) is there

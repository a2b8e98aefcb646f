import json
import os
import subprocess
import sys

import pytest
import yaml
from toys import candidates

from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import to_json
from holdfast.core.records import Stage
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Normalization, Space
from holdfast.replay.buffer import Buffer
from holdfast.replay.config import ReplayConfig
from holdfast.runs.folder import RunFolder
from holdfast.runs.paths import StagePaths
from holdfast.runs.settings import FREE
from holdfast.train.config import LogConfig, TrainConfig
from holdfast.train.log import MetricsLog

TASKS = [{"task": {"name": "reach", "arms": ["left"]}, "dataset": "/data/reach"}]
STAGE = Stage(2, "hang_cup", (1,), 10)


@pytest.fixture
def run(tmp_path):
    said = []
    folder = RunFolder(tmp_path / "runs" / "mine", said.append)
    folder.said = said
    with folder.locked():
        yield folder


def settings(**changes):
    return to_json(TrainConfig(stream="single_arm", **changes))


def test_begin_writes_what_was_asked_for(run):
    run.begin(settings(seed=7), TASKS, None)
    written = yaml.safe_load((run.path / "run.yaml").read_text())
    assert written["config"]["seed"] == 7
    assert written["config"]["replay"] == to_json(ReplayConfig())
    assert written["tasks"] == TASKS
    assert not set(FREE) & set(written["config"])


def test_the_same_settings_go_on_and_leave_the_file_alone(run):
    run.begin(settings(), TASKS, None)
    before = (run.path / "run.yaml").read_bytes()
    run.begin(settings(), TASKS, None)
    assert (run.path / "run.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 43}, "seed was 42, now 43"),
        ({"method": "joint"}, "method was 'er', now 'joint'"),
        ({"replay": ReplayConfig(ratio=0.1)}, "replay.ratio was 0.2, now 0.1"),
        ({"replay": ReplayConfig(weights={"single": 3.0})}, "replay.weights.single was 1.0, now 3.0"),
        ({"tasks": ["hang_cup"]}, "tasks was [], now ['hang_cup']"),
        ({"device": "cpu"}, "device was 'auto', now 'cpu'"),
    ],
)
def test_a_changed_setting_is_named_and_nothing_is_overwritten(run, changes, named):
    run.begin(settings(), TASKS, None)
    before = (run.path / "run.yaml").read_bytes()
    with pytest.raises(HoldfastError) as caught:
        run.begin(settings(**changes), TASKS, None)
    assert named in str(caught.value)
    assert "another --output" in str(caught.value)
    assert (run.path / "run.yaml").read_bytes() == before


def test_another_task_list_is_refused(run):
    run.begin(settings(), TASKS, None)
    with pytest.raises(HoldfastError, match=r"tasks\[1\].*name was .reach., now .lift."):
        run.begin(settings(), [{"task": {"name": "lift", "arms": ["left"]}, "dataset": "/data/lift"}], None)


def test_a_setting_that_was_not_there_before_is_a_change(run):
    old = settings()
    del old["idle"]
    run.begin(old, TASKS, None)
    with pytest.raises(HoldfastError, match="idle was None, now 'hold'"):
        run.begin(settings(), TASKS, None)


def test_a_run_begun_before_these_settings_existed_goes_on(run):
    old = settings()
    del old["method_options"], old["replay"]["mix"], old["norm"]["widen"], old["optim"]["ema_warmup"]
    run.begin(old, TASKS, None)
    run.begin(settings(), TASKS, None)
    with pytest.raises(HoldfastError, match=r"replay\.mix was 'step', now 'row'"):
        run.begin(settings(replay=ReplayConfig(mix="row")), TASKS, None)


def test_a_setting_that_is_gone_is_a_change(run):
    run.begin({**settings(), "retired": 1}, TASKS, None)
    with pytest.raises(HoldfastError, match="retired was 1, now None"):
        run.begin(settings(), TASKS, None)


@pytest.mark.parametrize("name", FREE)
def test_what_does_not_change_the_weights_may_change(run, name):
    run.begin({**settings(), name: "before"}, TASKS, None)
    run.begin({**settings(), name: "after"}, TASKS, None)
    assert "after" not in (run.path / "run.yaml").read_text()


def test_every_float_survives_the_yaml_file(run):
    values = [1e-10, 1e-8, 0.1, 1 / 3, 5e-05, 1e22, 123456789.123456789]
    run.begin({"values": values}, [], None)
    run.begin({"values": list(values)}, [], None)
    assert yaml.safe_load((run.path / "run.yaml").read_text())["config"]["values"] == values


LOCK = """
import sys
from pathlib import Path
from holdfast.core.errors import HoldfastError
from holdfast.runs.folder import RunFolder
try:
    with RunFolder(Path(sys.argv[1]), print).locked():
        print("got it", flush=True)
        sys.stdin.read()
except HoldfastError as error:
    print(error)
"""


def other_process(path):
    command = [sys.executable, "-c", LOCK, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_second_process_is_kept_out_until_the_first_is_gone(tmp_path):
    path = tmp_path / "mine"
    with RunFolder(path, print).locked(), other_process(path) as second:
        assert "Another process is training in" in second.communicate(timeout=120)[0]
    with other_process(path) as second:
        assert second.stdout.readline() == "got it\n"
        with pytest.raises(HoldfastError, match="Another process"), RunFolder(path, print).locked():
            pass
        second.kill()  # the lock goes with the process, however it ends
        second.wait(60)
        with RunFolder(path, print).locked():
            pass


def test_the_lock_is_given_back_after_an_error(tmp_path):
    run = RunFolder(tmp_path / "mine", print)
    with pytest.raises(RuntimeError, match="oops"), run.locked():
        raise RuntimeError("oops")
    with run.locked():
        pass


def test_a_folder_that_cannot_be_made_is_an_error_of_the_users(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HoldfastError, match="cannot be written"), RunFolder(tmp_path / "file" / "run", print).locked():
        pass


def test_write_text_replaces_and_leaves_no_trace(tmp_path):
    path = tmp_path / "buffer.json"
    for text in ("one", "two"):
        write_text(path, text)
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_while_writing_leaves_the_old_text(tmp_path, monkeypatch):
    path = tmp_path / "buffer.json"
    write_text(path, "old")

    def killed(handle):
        assert path.read_text() == "old"
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    write_text(path, "newer")
    assert path.read_text() == "newer"


SCHEMA = {"fps": 30, "names": ["joint"]}
STATS = Stats((0.0,), (1.0,), (0.5,), (0.3,), (0.0,), (1.0,), 9)


def finish(run, stage=STAGE):
    """Write the final checkpoint of a stage, as the engine does."""
    known = Normalization("per-task").with_task("hang_cup", Space(STATS, STATS))
    buffer = Buffer(0.2).after_stage(candidates("hang_cup", [5] * 20, 1), "f", "random")

    def fill(folder):
        for name, value in (("normalization", known.to_json()), ("buffer", to_json(buffer)), ("schema", SCHEMA)):
            (folder / f"{name}.json").write_text(json.dumps(value))

    checked_folder.write(run.stage(stage).checkpoint.folder, fill)
    return known, buffer


def test_a_stage_without_a_checkpoint_is_not_finished(run):
    assert run.stage(STAGE).folder == run.path / "stages" / "02-hang_cup"
    assert run.finished(STAGE) is None
    assert run.said == []


def test_a_finished_stage_gives_back_what_it_ended_with(run):
    known, buffer = finish(run)
    found = run.finished(STAGE)
    assert (found.normalization, found.buffer, found.schema) == (known, buffer, SCHEMA)
    assert found.folder == run.path / "stages" / "02-hang_cup" / "checkpoint"
    assert found.policy == found.folder / "policy"


def test_a_damaged_final_checkpoint_is_named_and_the_stage_redone(run):
    finish(run)
    run.stage(STAGE).checkpoint.buffer_file.write_text("{}")
    assert run.finished(STAGE) is None
    assert "buffer.json does not have the bytes" in run.said[0]


def test_the_access_log_appends_events_under_their_stage(run):
    run.log.opened("user/reach", run.path / "reach")
    run.log.stage = 2
    run.log.write("audit", task="lift", rows=[1])
    again = RunFolder(run.path, print)
    again.log.stage = 3
    again.log.opened("user/lift", run.path / "lift")
    lines = [json.loads(line) for line in (run.path / "audit.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["event"]) for line in lines] == [(0, "open"), (2, "audit"), (3, "open")]
    assert (lines[0]["dataset"], lines[0]["root"]) == ("user/reach", str(run.path / "reach"))
    assert (lines[1]["task"], lines[1]["rows"]) == ("lift", [1])
    assert all(line["time"] > 1.7e9 for line in lines)


def metrics(folder, resumed_at=0):
    return MetricsLog(StagePaths(folder), LogConfig(), "run", "hang_cup", resumed_at)


def logged(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_lines_are_appended(tmp_path):
    log = metrics(tmp_path / "stage")
    for step in (20, 40):
        log.write({"step": step, "loss": step / 3, "samples": {"reach": 4}})
    log.close()
    assert logged(tmp_path / "stage") == [{"step": s, "loss": s / 3, "samples": {"reach": 4}} for s in (20, 40)]


@pytest.mark.parametrize(
    ("resumed_at", "left"), [(0, []), (19, []), (20, [20]), (50, [20, 40]), (60, [20, 40, 60]), (99, [20, 40, 60])]
)
def test_a_resumed_stage_forgets_the_lines_of_steps_it_takes_again(tmp_path, resumed_at, left):
    log = metrics(tmp_path)
    for step in (20, 40, 60):
        log.write({"step": step})
    metrics(tmp_path, resumed_at)
    assert [line["step"] for line in logged(tmp_path)] == left


@pytest.mark.parametrize("half", ['{"step": 60, "lo', "{", '{"loss": 1}'])
def test_a_line_that_a_kill_cut_short_is_forgotten(tmp_path, half):
    log = metrics(tmp_path)
    for step in (20, 40):
        log.write({"step": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(half)
    metrics(tmp_path, 100).write({"step": 120})
    assert [line["step"] for line in logged(tmp_path)] == [20, 40, 120]


def test_a_line_that_lost_only_its_newline_is_kept(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 20}\n{"step": 40}')
    metrics(tmp_path, 40).write({"step": 60})
    assert [line["step"] for line in logged(tmp_path)] == [20, 40, 60]

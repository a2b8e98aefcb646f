import json
import shutil

import pytest
from toy_world import write_dataset

from holdfast.cli import main as cli
from holdfast.commands.doctor import main
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Task
from holdfast.embodiments import load

STREAM = """\
name = "toy"
embodiment = "piper_x_pair"
[[task]]
name = "reach"
instruction = "Reach the mark."
arms = ["left"]
dataset = "reach"
[[task]]
name = "wave"
instruction = "Wave at the mark."
arms = ["left"]
dataset = "wave"
"""


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """A healthy dataset, a copy of it that lacks its tables, and a stream of the two."""
    folder = tmp_path_factory.mktemp("ward")
    task = Task("reach", "Reach the mark.", ("left",))
    write_dataset(folder / "reach", task, load("piper_x_pair"), episodes=2, length=20, size=48)
    shutil.copytree(folder / "reach", folder / "wave")
    shutil.rmtree(folder / "wave/data")
    (folder / "stream.toml").write_text(STREAM)
    return folder


def test_healthy_dataset_leaves_with_0_and_is_summarized(ward, capsys):
    assert main([str(ward / "reach")]) == 0
    out = capsys.readouterr().out
    assert "2 episodes of 20 frames on average, 40 frames at 30 per second" in out
    assert "head 48x48, front 48x48" in out
    assert out.strip().endswith("nothing found in 1 dataset")


def test_error_leaves_with_1_and_gives_advice(ward, capsys):
    assert cli(["doctor", str(ward / "reach"), str(ward / "wave")]) == 1
    out = capsys.readouterr().out
    assert "error" in out
    assert "unreadable" in out
    assert "-> " in out
    assert out.strip().endswith("1 error in 2 datasets")


def test_warnings_leave_with_0(ward, tmp_path, capsys):
    (tmp_path / "one.toml").write_text(STREAM.split('[[task]]\nname = "wave"')[0].replace("Reach the", "Touch the"))
    shutil.copytree(ward / "reach", tmp_path / "reach")
    assert main([str(tmp_path / "one.toml")]) == 0
    out = capsys.readouterr().out
    assert "instruction  meta/tasks.parquet" in out
    assert out.strip().endswith("1 warning in 1 dataset")


def test_json_holds_summaries_and_findings(ward, capsys):
    assert main([str(ward / "stream.toml"), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert [d["dataset"] for d in result["datasets"]] == [str(ward / "reach")]
    assert result["datasets"][0]["cameras"]["observation.images.head"] == [48, 48]
    assert [(f["severity"], f["kind"], f["dataset"]) for f in result["findings"]] == [
        ("error", "unreadable", str(ward / "wave"))
    ]


def test_json_has_no_numbers_that_json_does_not_know(ward, tmp_path, capsys):
    shutil.copytree(ward / "reach", tmp_path / "reach")
    info = json.loads((tmp_path / "reach/meta/info.json").read_text())
    (tmp_path / "reach/meta/info.json").write_text(json.dumps(info | {"fps": 1e-320}))
    assert main([str(tmp_path / "reach"), "--json", "--fast"]) == 1
    result = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(word))
    assert result["datasets"][0]["minutes"] is None
    assert result["findings"]


def test_catalog_stream_is_found_under_data_root(tmp_path, capsys):
    assert main(["single_arm", f"--data_root={tmp_path}", "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert len(findings) == 5
    assert findings[0]["dataset"] == str(tmp_path / "stack_bowls")


def test_later_datasets_are_compared_with_the_first(ward, tmp_path, capsys):
    for name in ("reach", "wave"):
        shutil.copytree(ward / "reach", tmp_path / name)
    info = json.loads((tmp_path / "wave/meta/info.json").read_text())
    del info["features"]["observation.images.front"]
    (tmp_path / "wave/meta/info.json").write_text(json.dumps(info))
    (tmp_path / "stream.toml").write_text(STREAM)
    assert main([str(tmp_path / "stream.toml"), "--json"]) == 1
    kinds = {f["kind"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert kinds == {"missing-camera", "instruction"}


@pytest.mark.parametrize("target", ["single-arm", "/no/such/folder", "nothing.toml"])
def test_unknown_target_is_wrong_usage(target):
    with pytest.raises(HoldfastError, match="single_arm"):
        main([target])


def test_stream_with_an_arm_the_robot_lacks_is_wrong_usage(ward, tmp_path):
    (tmp_path / "stream.toml").write_text(STREAM.replace('"left"', '"middle"'))
    with pytest.raises(HoldfastError, match=r"'middle'.*left, right"):
        main([str(tmp_path / "stream.toml")])


def test_help_explains_kinds_and_exit_codes(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert all(word in out for word in ("video-frames", "Exit code", "single_arm", "holdfast doctor data/*"))


def test_a_stream_s_mapping_is_shown_and_applied(ward, capsys):
    stream = ward / "mapped.toml"
    lines = ['name = "m"', "[[task]]", 'name = "reach"', 'instruction = "Please reach."', 'arms = ["left"]']
    lines += [f'dataset = "{ward}/reach"', "fps = 15", "[task.cameras]", 'top = "head"', 'wrist = "black 48x48"']
    stream.write_text("\n".join(lines))
    main([str(stream)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "mapped by the stream: top is 'head'; wrist is black 48x48; 15 frames per second" in shown
    assert "top 48x48, wrist 48x48" in shown
    stream.write_text(stream.read_text().replace('"head"', '"haed"'))
    assert main([str(stream), "--json"]) == 1
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    assert finding["kind"] == "mapping"
    assert "Did you mean 'head'" in finding["detail"]

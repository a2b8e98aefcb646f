"""What a robot uses: replaced in one step, taken back in one, and what a kill leaves is understood."""

import json
import shutil
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.serve.bundle import load
from holdfast.serve.deploy import deploy, rollback
from holdfast.serve.new_bundle import make


@pytest.fixture(scope="module")
def first(trained, tmp_path_factory):
    return make(trained, 1, tmp_path_factory.mktemp("first") / "one")


def current(folder):
    return load(folder / "current").hash


def test_deploy_and_rollback(first, bundle, tmp_path):
    robot = tmp_path / "robot"
    assert deploy(first.path, robot).hash == first.hash == current(robot)
    deploy(bundle.path, robot)
    assert current(robot) == bundle.hash
    assert rollback(robot).hash == first.hash == current(robot)
    with pytest.raises(HoldfastError, match="nothing to go back to"):
        rollback(robot)
    actions = [json.loads(line)["action"] for line in (robot / "history.jsonl").read_text().splitlines()]
    assert actions == ["deploy", "deploy", "rollback"]


def test_rollback_goes_the_whole_way_back(first, bundle, tmp_path):
    for path in (first.path, bundle.path, first.path):
        deploy(path, tmp_path / "robot")
    assert [rollback(tmp_path / "robot").hash for _ in range(2)] == [bundle.hash, first.hash]
    with pytest.raises(HoldfastError, match="nothing to go back to"):
        rollback(tmp_path / "robot")


def test_what_is_deployed_no_longer_needs_the_original(first, tmp_path):
    original = shutil.copytree(first.path, tmp_path / "original")
    deploy(original, tmp_path / "robot")
    shutil.rmtree(original)
    assert current(tmp_path / "robot") == first.hash


def test_a_damaged_bundle_is_neither_deployed_nor_gone_back_to(first, bundle, tmp_path):
    robot = tmp_path / "robot"
    bad = shutil.copytree(bundle.path, tmp_path / "bad")
    (bad / "normalization.json").write_text("{}")
    with pytest.raises(HoldfastError, match=r"normalization.json does not have the bytes"):
        deploy(bad, robot)
    assert not robot.exists()
    deploy(first.path, robot)
    deploy(bundle.path, robot)
    (robot / first.hash[:12] / "bundle.json").unlink()
    with pytest.raises(HoldfastError, match=r"bundle.json is missing"):
        rollback(robot)
    assert current(robot) == bundle.hash


@pytest.mark.parametrize("when", ["in the line", "symlink_to", "rename"])
@pytest.mark.parametrize("action", ["deploy", "rollback"])
def test_a_kill_leaves_what_was_in_use_and_the_way_back(first, bundle, tmp_path, monkeypatch, when, action):
    robot = tmp_path / "robot"
    deploy(first.path, robot)
    deploy(bundle.path, robot)
    if action == "deploy":
        rollback(robot)
    before = current(robot)

    def act():
        return deploy(bundle.path, robot) if action == "deploy" else rollback(robot)

    def killed(*_):
        raise KeyboardInterrupt

    if when == "in the line":
        with (robot / "history.jsonl").open("a") as file:
            file.write('{"when": "20')
    else:
        with monkeypatch.context() as patch:
            patch.setattr(Path, when, killed)
            with pytest.raises(KeyboardInterrupt):
                act()
    assert current(robot) == before
    assert act().hash == current(robot) == (bundle if action == "deploy" else first).hash
    if action == "deploy":
        assert rollback(robot).hash == first.hash


def test_the_command_deploys_and_rolls_back(first, bundle, tmp_path, capsys):
    robot = str(tmp_path / "robot")
    assert main(["bundle", "rollback", robot]) == 2
    assert main(["bundle", "deploy", str(first.path), "--to", robot]) == 0
    assert main(["bundle", "deploy", str(first.path), "--to", robot]) == 2
    assert "uses already" in capsys.readouterr().err
    assert main(["bundle", "deploy", str(bundle.path), "--to", robot]) == 0
    assert main(["bundle", "rollback", robot]) == 0
    assert f"current is {first.hash} again" in capsys.readouterr().out


def told(robot, bundle, says):
    """Both commands say the same line and change nothing."""
    before = {path: path.lstat().st_mtime_ns for path in robot.rglob("*")}
    for action in (lambda: deploy(bundle.path, robot), lambda: rollback(robot)):
        with pytest.raises(HoldfastError, match=says) as caught:
            action()
        assert "\n" not in str(caught.value)
    assert {path: path.lstat().st_mtime_ns for path in robot.rglob("*")} == before


@pytest.fixture
def robot(first, tmp_path):
    deploy(first.path, tmp_path / "robot")
    return tmp_path / "robot"


DAMAGES = {
    "current a folder": ("current", lambda path: path.mkdir(), "is not the link"),
    "current a file": ("current", lambda path: path.write_text("x"), "is not the link"),
    "current elsewhere": ("current", lambda path: path.symlink_to("/etc"), "points to '/etc', which .* does not know"),
    "current above": ("current", lambda path: path.symlink_to(".."), r"points to '\.\.'"),
    "no history": ("history.jsonl", lambda path: None, "does not know"),
    "history a folder": ("history.jsonl", lambda path: path.mkdir(), "it is a folder"),
    "history no text": ("history.jsonl", lambda path: path.write_bytes(b"\xff\xfe}"), "not text"),
    "history zeros": ("history.jsonl", lambda path: path.write_bytes(b"\0" * 512), "not text"),
}
LINES = ["{}", "[]}", '{"stack": []}', '{"when": "", "action": "", "stack": "0"}', "{" * 100_000 + "}", "1e999}"]
LINES += ['{"when": "", "action": "", "stack": ["../../etc"]}', '{"when": "", "action": "", "stack": []}']


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_deployment_is_told_in_one_line(robot, bundle, damage):
    name, put, says = DAMAGES[damage]
    (robot / name).unlink()
    put(robot / name)
    told(robot, bundle, says)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:40])
def test_a_damaged_line_of_the_history_is_named(robot, bundle, line):
    with (robot / "history.jsonl").open("a") as file:
        file.write(line + "\n")
    told(robot, bundle, r"history\.jsonl, line 2,")


def test_a_target_that_is_a_file_is_refused(bundle, tmp_path):
    (tmp_path / "robot").write_text("")
    told(tmp_path / "robot", bundle, "is not a folder")


def test_another_bundle_under_the_name_of_one_is_not_deployed(robot, first, bundle):
    shutil.copytree(first.path, robot / bundle.hash[:12])
    with pytest.raises(HoldfastError, match="is not the bundle that was deployed"):
        deploy(bundle.path, robot)
    assert current(robot) == first.hash


def test_a_folder_that_cannot_be_written_leaves_what_was_in_use(robot, first, bundle):
    (robot / ".current").mkdir()
    with pytest.raises(HoldfastError, match="cannot be written"):
        deploy(bundle.path, robot)
    assert current(robot) == first.hash

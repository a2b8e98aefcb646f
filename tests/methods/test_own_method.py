"""A method in a file of the user's: it trains and resumes, a change is noticed, and only the user's word runs it."""

import json
import shutil

import pytest
import yaml
from method_runs import arguments, killed, same, train, weights

from holdfast.cli import main
from holdfast.core import own_code
from holdfast.core.errors import HoldfastError
from holdfast.methods import build_method
from holdfast.report.gather import gather
from holdfast.runs.run import read_run
from holdfast.studies import load_study
from holdfast.studies.jobs import StudyFolder, make_jobs
from holdfast.train.config import TrainConfig

FILE = """\
from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.errors import require
from holdfast.methods.method import Method


@dataclass(frozen=True)
class Mine(Method):
    \"\"\"A method of a user.\"\"\"

    replays = True
    # How much of a small term is added.
    strength: float = 0.5

    def __post_init__(self):
        require(self.strength >= 0, "method.strength", self.strength, "at least 0")

    def extra_loss(self, batch, loss, policy, kept):
        return self.strength * sum(w.square().sum() for w in policy.parameters() if w.requires_grad)


class Other:
    pass
"""


@pytest.fixture
def mine(toy, monkeypatch):
    monkeypatch.chdir(toy)
    (toy / "my_methods.py").write_text(FILE)
    return "--method=my_methods.py:Mine"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.py:Mine", None, "there is no file gone.py in "),
        ("a.py:Mine", "x = (", r"a\.py cannot be run: SyntaxError"),
        ("a.py:Mine", "import nothing_of_that_name", r"a\.py cannot be run: ModuleNotFoundError"),
        ("a.py:Mine", "raise SystemExit(0)", r"a\.py cannot be run: SystemExit"),
        (
            "a.py:Mine",
            FILE.replace("class Mine(", "class Your("),
            r"Mine is no method in that file. It has Your, Other\.",
        ),
        ("a.py:Other", FILE, "Other is no method in that file"),
        ("a.py:require", FILE, "require is no method in that file"),
        ("a.py:Method", FILE, "Method is no method in that file. It has Mine, Other"),
        ("a.py:", FILE, "an empty name is no method"),
        ("a.py:Mine", "x = 1", "It has no class and no function"),
        ("a.py:Mine", "#" * 2**21, "1 MiB"),
    ],
)
def test_a_file_that_cannot_be_used_is_explained(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "a.py").write_text(content)
    with pytest.raises(HoldfastError, match=message) as found:
        build_method(name, {})
    assert "\n" not in str(found.value)


def test_its_options_are_flags_and_help_shows_them(mine, capsys):
    config = TrainConfig(stream="kitchen.toml", method="my_methods.py:Mine", method_options={"strength": "2"})
    assert config.make_method().strength == 2.0
    assert config.folder == "runs/kitchen-Mine"
    with pytest.raises(HoldfastError, match=r"--method\.strength must be at least 0"):
        TrainConfig(stream="s", method="my_methods.py:Mine", method_options={"strength": "-1"})
    with pytest.raises(SystemExit):
        main(["train", mine, "--help"])
    said = capsys.readouterr().out
    assert "my_methods.py:Mine: A method of a user.\n" in said
    assert "--method.strength=0.5\n        How much of a small term is added." in said


def test_it_trains_and_resumes_and_a_changed_file_is_noticed(toy, mine, capsys):
    kill = ("holdfast.train.step", "Stepper.__call__", 11)
    killed(toy, "run", mine, "--method.strength=1e-3", kill=kill)
    stored = json.loads((toy / "run" / "method.json").read_text())
    assert (stored["name"], stored["arrangement"]) == ("my_methods.py:Mine", "stream")
    assert len(stored["sha256"]) == 64

    (toy / "my_methods.py").write_text(FILE.replace("square()", "abs()"))
    train(toy, "run", mine, "--method.strength=1e-3", code=2)
    said = " ".join(capsys.readouterr().err.split())
    assert f"was started with another version of my_methods.py: its SHA-256 was {stored['sha256'][:12]}, now" in said

    (toy / "my_methods.py").write_text(FILE)
    run = train(toy, "run", mine, "--method.strength=1e-3")
    whole = train(toy, "whole", mine, "--method.strength=1e-3")
    assert same(weights(run), weights(whole))
    lines = (run / "stages" / "01-reach" / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line)["extra_loss"] > 0 for line in lines)
    assert read_run(run).stages[1].checkpoint.buffer.tasks


def test_a_run_goes_on_with_the_file_as_it_was_when_it_started(toy, mine, capsys):
    whole = train(toy, "whole", mine)
    edits = FILE + "    def finish(self, policy, score, kept):\n        open('my_methods.py', 'w').write('x = (')\n"
    edits = edits.replace("class Other:\n    pass\n", "")
    (toy / "my_methods.py").write_text(edits)
    run = train(toy, "run", mine)
    assert (toy / "my_methods.py").read_text() == "x = ("
    assert same(weights(run), weights(whole))
    train(toy, "later", mine, code=2)
    assert "my_methods.py cannot be run: SyntaxError" in capsys.readouterr().err


def test_everything_but_training_does_without_the_file_and_never_runs_it(toy, mine, monkeypatch, capsys):
    run = train(toy, "run", mine, "--steps=2")
    shutil.move(toy / "my_methods.py", toy / "elsewhere.py")
    evil = toy / "evil.py"
    evil.write_text(f"open({str(toy / 'was_run')!r}, 'w')\n" + FILE)
    monkeypatch.setattr(own_code, "_run", lambda *args: pytest.fail("a file was run"))
    for method in ("my_methods.py:Mine", f"{evil}:Mine"):  # as it was, and as somebody else might make it
        settings = yaml.safe_load((run / "run.yaml").read_text())
        settings["config"]["method"] = method
        (run / "run.yaml").write_text(yaml.safe_dump(settings))
        assert read_run(run).arrangement == "stream"
        assert gather([run])[0].continual
        output = toy / f"bundle-{len(method)}"
        assert main(["bundle", str(run), "--stage", "2", "--output", str(output)]) == 0
        assert json.loads((output / "bundle.json").read_text())["method"] == method
    (run / "method.json").unlink()
    with pytest.raises(HoldfastError, match=r"method\.json"):
        read_run(run)
    assert not (toy / "was_run").exists()


def test_a_study_can_name_it(toy, mine):
    (toy / "study.toml").write_text(
        'name = "mine"\n[train]\nstream = "stream.toml"\n[[grid]]\nmethod = ["er", "my_methods.py:Mine"]\n'
    )
    study = load_study(str(toy / "study.toml"))
    assert [run.name for run in study.runs()] == ["er-1", "my_methods.py_Mine-1"]
    jobs = make_jobs(study, StudyFolder(toy / "out"))
    assert mine in jobs[1].command
    assert main(["study", "plan", str(toy / "study.toml")]) == 0
    (toy / "my_methods.py").write_text("x = (")
    assert main(["study", "plan", str(toy / "study.toml")]) == 2


def test_its_stages_are_not_shared_with_those_of_other_methods(mine):
    assert not build_method("my_methods.py:Mine", {}).takes_plain_steps
    assert build_method("er", {}).takes_plain_steps
    assert all(build_method(name, {}).takes_plain_steps for name in ("joint-cumulative", "merge"))
    assert not any(build_method(name, {}).takes_plain_steps for name in ("ewc", "l2", "lwf", "derpp", "agem"))


def test_a_dry_run_plans_it(toy, mine, capsys):
    assert main([*arguments(toy, "never", mine), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "my_methods.py:Mine"
    assert not (toy / "never").exists()

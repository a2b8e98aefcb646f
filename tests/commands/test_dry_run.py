"""`holdfast train --dry-run`: the plan comes first and needs no policy; a CPU gets a way out."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from toys import TINY

from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.methods.agem import Agem
from holdfast.methods.lwf import Lwf
from holdfast.train import estimate as estimates
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.estimate import Estimate

SLOW = Estimate("cpu", 9_000_000, 18.0, 18.0, 46.0, 1, 1)
FAST = Estimate("cpu", 2_000_000, 0.2, 0.2, 0.25, 1, 1)


def plan(toy, *more):
    return main(["train", f"--stream={toy}/stream.toml", f"--output={toy}/run", "--dry-run", *more])


@pytest.fixture
def measured(monkeypatch):
    """Answers in place of the real measurement; `asked` has the configs."""

    answers = SimpleNamespace(left=[], asked=[])

    def answer(config, stream, position, say):
        answers.asked.append(config)
        found = answers.left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(estimates, "estimate", answer)
    return answers


def test_the_plan_needs_neither_torch_nor_lerobot(tmp_path):
    code = (
        "import sys\nfrom holdfast.cli import main\n"
        f"assert main(['train', '--stream=single_arm', '--data_root={tmp_path}', '--dry-run']) == 0\n"
        "heavy = {'torch', 'lerobot', 'transformers'} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "24000 steps in all" in done.stdout


def test_the_plan_is_shown_before_anything_is_measured(toy, monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(estimates, "estimate", lambda *of: shown.append(capsys.readouterr().out) or FAST)
    assert plan(toy) == 0
    assert "steps in all" in shown[0]
    assert "starting torch" in shown[0]
    assert "0.200 s a step, about 15 min in all" in capsys.readouterr().out


def test_on_a_cpu_it_names_what_would_fit(toy, measured, capsys):
    measured.left = [SLOW, FAST]
    assert plan(toy, "--seed=7") == 0
    said = capsys.readouterr().out
    assert "18.0 s a step, about 46.0 h in all" in said
    assert "That is long for a CPU. With --preset=cpu: 1400 steps of 0.200 s, about 15 min in all." in said
    asked = measured.asked[1]
    assert (asked.policy.path, asked.batch_size, asked.seed) == ("nano-base", 16, 7)


def test_a_robot_that_nano_base_does_not_know_gets_a_fresh_nano(toy, measured, capsys):
    measured.left = [SLOW, HoldfastError("other dimensions"), FAST]
    assert plan(toy) == 0
    assert "With --preset=cpu --policy.type=nano --policy.image_size=64:" in capsys.readouterr().out
    assert (measured.asked[2].policy.path, measured.asked[2].batch_size) == (None, 16)


@pytest.mark.parametrize(
    ("found", "more"),
    [
        ([Estimate("cuda", 1, 18.0, 18.0, 46.0, 1, 1)], []),
        ([Estimate("cpu", 1, 0.1, 0.1, 0.9, 1, 1)], []),
        ([SLOW], ["--preset=cpu"]),
        ([SLOW, SLOW], []),
        ([SLOW, HoldfastError("no"), HoldfastError("no")], []),
    ],
)
def test_nothing_is_suggested_where_it_would_not_help(toy, measured, found, more, capsys):
    measured.left = found
    assert plan(toy, *more) == 0
    assert "That is long" not in capsys.readouterr().out
    assert not measured.left


def test_stages_are_weighted_by_the_time_of_their_own_steps(toy, monkeypatch, capsys):
    seconds = iter([1.0, 3.0])
    monkeypatch.setattr(estimates, "_seconds_per_step", lambda *of: next(seconds))
    assert plan(toy, *TINY, "--method=lwf", "--steps=1200", "--batch_size=8", "--json") == 0
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert (found["seconds_per_step"], found["seconds_per_later_step"]) == (1.0, 3.0)
    assert found["hours"] == pytest.approx((1200 * 1 + 2 * 1200 * 3) / 3600)


@pytest.mark.parametrize(("method", "kind", "hook"), [("lwf", Lwf, "extra_loss"), ("agem", Agem, "combine")])
def test_later_stages_are_timed_with_what_the_method_adds(toy, monkeypatch, method, kind, hook, capsys):
    calls, real = [], getattr(kind, hook)

    def spied(self, *of, **named):
        calls.append(named.get("kept", "combined"))
        return real(self, *of, **named)

    monkeypatch.setattr(kind, hook, spied)
    assert plan(toy, *TINY, f"--method={method}", "--batch_size=8", "--json") == 0
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert found["seconds_per_later_step"] != found["seconds_per_step"]
    assert len([kept for kept in calls if kept is not None]) == estimates.STEPS


def test_datasets_of_later_tasks_are_compared_with_the_first(toy, capsys):
    header = toy / "sweep" / "meta" / "info.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"fps": 7}))
    assert plan(toy, *TINY) == 2
    told = capsys.readouterr().err
    assert "sweep" in told
    assert "differs from the run's first one in fps: 7 instead of" in told


def test_plain_methods_are_timed_once(toy, monkeypatch, capsys):
    monkeypatch.setattr(estimates, "_seconds_of_later", lambda *of: 1 / 0)
    assert plan(toy, *TINY, "--batch_size=8", "--json") == 0
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert found["seconds_per_later_step"] == found["seconds_per_step"]


@pytest.mark.parametrize(("batch", "accumulate", "part"), [(128, None, 0.125), (8, None, 1.0), (128, 2, 1.0)])
def test_on_a_cpu_part_of_a_large_batch_is_timed(batch, accumulate, part):
    config = TrainConfig(stream="s", device="cpu", batch_size=batch, optim=OptimConfig(accumulate=accumulate))
    assert estimates._timed_part(config) == part

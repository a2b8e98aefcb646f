"""Runs that share a folder train equal stages once, and end with the weights they would have had alone."""

import json
import os
import shutil

import pytest
from toys import TINY, stream_text

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.processes import FORKED


def command(toy, name, *more):
    base = [f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--steps=6", "--batch_size=4", "--device=cpu"]
    return ["train", *base, *TINY, "--log.every=2", "--checkpoint.every=3", *more]


def train(toy, name, *more):
    assert main(command(toy, name, *more)) == 0
    return toy / name


def weights(run):
    return [
        checked_folder.file_hash(folder / "checkpoint" / "policy" / "model.safetensors")
        for folder in sorted((run / "stages").iterdir())
    ]


def shared(toy):
    return [path for path in (toy / "shared").iterdir() if not path.name.startswith(".")]


def taken_over(run):
    lines = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    return [line["stage"] for line in lines if line["event"] == "taken_over"]


@pytest.fixture(scope="module")
def first(recorded, tmp_path_factory):
    """A folder with a run whose only stage others may take over."""
    toy = tmp_path_factory.mktemp("first")
    shutil.copytree(recorded, toy, dirs_exist_ok=True)
    (toy / "stream.toml").write_text(stream_text())
    train(toy, "one", "--tasks=[reach]", f"--share={toy}/shared")
    return toy


RUNS = {
    "sequential": ("--method=sequential",),
    "er": ("--method=er",),
    "er-more": ("--method=er", "--replay.frequency=0.5"),
    "er-ratio": ("--method=er", "--replay.ratio=0.5"),
    "alone": ("--method=finetune",),
}


def test_equal_stages_are_trained_once_and_weights_are_those_of_separate_runs(toy):
    two = "--tasks=[reach, lift]"
    for name, flags in RUNS.items():
        separate = train(toy, f"separate-{name}", two, *flags)
        together = train(toy, name, two, f"--share={toy}/shared", *flags)
        assert weights(together) == weights(separate), name
        for stage in ("01-reach", "02-lift"):
            files = [run / "stages" / stage / "checkpoint" / "buffer.json" for run in (separate, together)]
            assert files[0].read_text() == files[1].read_text()
            logs = [run / "stages" / stage / "metrics.jsonl" for run in (separate, together)]
            assert logs[0].read_text() == logs[1].read_text()
    # One first stage for all, and a second stage for each; 0.5 and 1.0 of two episodes keep different ones.
    assert len(shared(toy)) == 1 + len(RUNS)
    assert [taken_over(toy / name) for name in RUNS] == [[], [1], [1], [1], [1]]


@pytest.mark.parametrize(
    "other",
    [
        "--seed=7",
        "--batch_size=2",
        "--optim.lr=0.01",
        "--optim.ema=0.5",
        "--augment.shift=0.0",
        "--idle=mask",
        "--steps=7",
        "--policy.width=32",
        "--norm.floor=0.4",
        "--tasks=[lift]",
    ],
)
def test_a_stage_with_other_steps_is_not_taken_over(first, other):
    separate = train(first, f"separate{other}", "--tasks=[reach]", other)
    changed = train(first, f"other{other}", "--tasks=[reach]", f"--share={first}/shared", other)
    assert weights(changed) == weights(separate)
    assert taken_over(changed) == []


def test_changed_data_is_not_taken_over(toy):
    train(toy, "one", "--tasks=[reach]", f"--share={toy}/shared")
    file = toy / "reach" / "meta" / "stats.json"
    file.write_text(file.read_text() + " ")
    assert taken_over(train(toy, "two", "--tasks=[reach]", f"--share={toy}/shared")) == []


def test_a_damaged_shared_stage_is_trained_again_and_replaced(toy, capsys):
    one = train(toy, "one", "--tasks=[reach]", f"--share={toy}/shared")
    (stage,) = shared(toy)
    state = next(stage.glob("progress/step-*/training.safetensors"))
    data = bytearray(state.read_bytes())
    data[-5] ^= 1
    state.unlink()  # it is linked to the first run's own file
    state.write_bytes(data)
    two = train(toy, "two", "--tasks=[reach]", f"--share={toy}/shared")
    assert "is damaged" in capsys.readouterr().out.replace("\n", " ")
    assert weights(two) == weights(one)
    assert taken_over(train(toy, "three", "--tasks=[reach]", f"--share={toy}/shared")) == [1]


def _run(words):
    os._exit(main(words))


def test_runs_started_at_once_train_a_common_stage_once(toy):
    separate = train(toy, "separate", "--tasks=[reach]")
    words = [command(toy, name, "--tasks=[reach]", f"--share={toy}/s") for name in ("one", "two")]
    runs = [FORKED.Process(target=_run, args=(each,)) for each in words]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0]
    assert weights(toy / "one") == weights(toy / "two") == weights(separate)
    assert sorted(taken_over(toy / name) for name in ("one", "two")) == [[], [1]]

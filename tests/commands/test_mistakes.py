"""Typical mistakes of a first hour: the message says what to do instead, before anything heavy is imported."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError

import pytest
from toys import stream_text

from holdfast.cli import main
from holdfast.train import early_checks

HEAVY = {"torch", "lerobot", "transformers", "mujoco"}


def train(*flags):
    return ["train", "--stream=stream.toml", "--output=run", *flags]


def hub_dataset(name):
    return stream_text(("reach",)).replace('dataset = "reach"', f'dataset = "{name}"')


# What is typed; what the message says to do.
MISTAKES = {
    "a command": (["trian"], "Did you mean 'train'?"),
    "a flag of train": (train("--batchsize=8"), "Did you mean '--batch_size'?"),
    "a flag of another command": (["evaluate", "run", "--trails", "5"], "Did you mean '--trials'?"),
    "a method": (train("--method=derp"), "Did you mean 'derpp'?"),
    "a stream without its flag": (["train", "kitchen.toml"], "Did you mean --stream=kitchen.toml?"),
    "a stream": (["train", "--stream=singlearm"], "Did you mean 'single_arm'?"),
    "a task": (["twin", "score", "--task", "stack_bowl"], "Did you mean 'stack_bowls'?"),
    "the base": (train("--policy.path=nano_base"), "Did you mean 'nano-base'?"),
    "an option of the policy": (train("--policy.imagesize=64"), "Did you mean '--policy.image_size'?"),
    "a device": (train("--device=gpu"), "Did you mean 'cuda'?"),
    "a run's folder": (["report", "runs/kitchen-err"], "Did you mean 'runs/kitchen-er'?"),
    "a logger that is not installed": (train("--log.wandb"), "uv pip install 'holdfast[wandb]'"),
    "a dataset's folder": (train("--stream=typo.toml"), "Did you mean 'data/lift'?"),
    "a dataset that is only on the hub": (train("--stream=hub.toml"), "hf download --repo-type=dataset me/lift"),
    "a policy that is only on the hub": (train("--policy.path=me/policy"), "hf download --repo-type=model me/policy"),
    "a robot that the base does not know": (
        train("--stream=other_robot.toml", "--preset=cpu"),
        "add --policy.type=nano --policy.image_size=64",
    ),
    "statistics of another robot": (train("--stream=other_robot.toml", "--preset=gpu"), "Give --norm.stats= to"),
    "an arm": (train("--stream=arm.toml"), "Did you mean 'left'? Valid: left, right."),
    "an embodiment": (train("--stream=robot.toml"), "Did you mean 'piper_x_pair'?"),
    "an old dataset": (train("--stream=old.toml"), "holdfast import dataset"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which a beginner has a stream, a dataset of an old version, and a run."""
    folder = tmp_path_factory.mktemp("beginner")
    header = {"codebase_version": "v2.1", "features": {}}
    for name in ("data/lift", "old", *(f"{task}" for task in ("reach", "lift", "sweep"))):
        (folder / name / "meta").mkdir(parents=True)
        (folder / name / "meta" / "info.json").write_text(json.dumps(header))
    (folder / "runs" / "kitchen-er").mkdir(parents=True)
    (folder / "stream.toml").write_text(stream_text())
    (folder / "typo.toml").write_text(hub_dataset("data/lft"))
    (folder / "hub.toml").write_text(hub_dataset("me/lift"))
    (folder / "arm.toml").write_text(stream_text().replace("'left'", "'lft'"))
    (folder / "robot.toml").write_text(stream_text().replace("piper_x_pair", "piper_x_pari"))
    (folder / "old.toml").write_text(hub_dataset("old"))
    features = {name: {"dtype": "float32", "shape": [4]} for name in ("observation.state", "action")}
    header = {"codebase_version": "v3.0", "features": features, "total_episodes": 1, "total_frames": 9, "fps": 10}
    header |= {"data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"}
    (folder / "other_robot" / "meta").mkdir(parents=True)
    (folder / "other_robot" / "meta" / "info.json").write_text(json.dumps(header))
    (folder / "other_robot.toml").write_text(hub_dataset("other_robot"))
    return folder


@pytest.fixture
def offline(monkeypatch):
    """No network, as a new user meets it: nothing is switched off, but nothing answers."""

    def unreachable(*of, **named):
        import socket

        raise URLError(socket.gaierror(-2, "Name or service not known"))

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("urllib.request.urlopen", unreachable)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_has_the_fix(mistake, folder, offline, monkeypatch, capsys):
    argv, fix = MISTAKES[mistake]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(early_checks, "find_spec", lambda name: None)
    before = sorted(folder.rglob("*"))
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert fix in said
    assert said.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_none_of_them_imports_what_takes_long(folder):
    words = [argv for argv, _ in MISTAKES.values() if "--log.wandb" not in argv]
    code = (
        f"import sys\nfrom holdfast.cli import main\nfor argv in {words!r}:\n"
        f"    assert main(argv) == 2, argv\n    heavy = {HEAVY} & set(sys.modules)\n    assert not heavy, (argv, heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_cuda_without_a_driver_is_refused_by_name(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("holdfast.core.device_name.has_gpu_driver", lambda: False)
    assert main(train("--device=cuda")) == 2
    assert "no CUDA driver. Use --device=cpu or auto" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("compiler", "flags"), [("", ()), ("gcc", ()), ("", ("--policy.compile=false",)), ("", ("--policy.type=act",))]
)
def test_on_a_gpu_a_compiler_is_needed_where_layers_are_compiled(compiler, flags, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("holdfast.core.device_name.has_gpu_driver", lambda: True)
    monkeypatch.setattr("shutil.which", lambda name: compiler if name == compiler else None)
    assert main(train("--device=cuda", "--stream=old.toml", *flags)) == 2
    refused = "no C compiler. Install gcc" in capsys.readouterr().err
    assert refused == (not compiler and not flags), "the old dataset is refused otherwise"


def test_later_datasets_are_not_opened_by_the_checks(folder, monkeypatch, capsys):
    opened = []
    monkeypatch.chdir(folder)
    monkeypatch.setattr(early_checks, "read_info", lambda root: opened.append(Path(root).name) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(train())
    assert opened == ["reach"]

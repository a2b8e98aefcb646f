"""A tiny pi0.5 through the whole engine: stages chain, resume exactly, start from LeRobot's weights, and act."""

import json
import shutil

import numpy as np
import pytest
import torch
from pi05_tiny import FLAGS, SHARED, features, make_tokenizer, peer_policy
from toys import stream_text

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.observation import Question
from holdfast.core.records import Task
from holdfast.policies.pilot import Pilot


@pytest.fixture
def toy(recorded, tmp_path):
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stream.toml").write_text(stream_text(("reach", "lift")))
    make_tokenizer(tmp_path / "tokenizer")
    return tmp_path


def train(toy, *more, name="run", code=0):
    base = [f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--steps=4", "--batch_size=4", "--device=cpu"]
    policy = ["--policy.type=pi05_fast", f"--policy.tokenizer_name={toy}/tokenizer", *FLAGS]
    policy += ["--policy.use_relative_actions=true", "--log.every=1", "--checkpoint.every=2"]
    assert main(["train", *base, *policy, *more]) == code
    return toy / name


def weights(run, stage="02-lift"):
    return checked_folder.file_hash(run / "stages" / stage / "checkpoint" / "policy" / "model.safetensors")


def test_a_stream_resumes_exactly_and_its_policy_acts(toy):
    whole = train(toy, name="whole")
    other = train(toy, name="other")
    stage = other / "stages" / "02-lift"
    shutil.rmtree(stage / "checkpoint")
    shutil.rmtree(sorted((stage / "progress").glob("step-*"))[-1])  # as if killed between two saves
    train(toy, name="other")
    assert weights(other) == weights(whole)
    lines = [json.loads(line) for line in (stage / "metrics.jsonl").read_text().splitlines()]
    assert set(lines[-1]["loss_by_arm"]) == {"left", "right"}

    schema = json.loads((stage / "checkpoint" / "schema.json").read_text())
    pilot = Pilot(stage / "checkpoint", schema["names"])
    images = {name: np.full((32, 32, 3), 90, np.uint8) for name in pilot.cameras}
    tasks = [Task("reach", "Please reach.", ("left",)), Task("lift", "Please lift.", ("left", "right"))]
    looks = [Question(task, np.zeros(14), images, seed) for seed, task in enumerate(tasks * 2)]
    together = pilot.answer(looks)
    assert together[0].shape == (4, 14)
    assert all(np.isfinite(answer).all() for answer in together)
    np.testing.assert_array_equal(pilot.answer(looks[1:2])[0], together[1])  # whoever else asks

    assert main(["export", "policy", str(whole), f"--output={toy}/stock"]) == 0
    assert json.loads((toy / "stock" / "config.json").read_text())["type"] == "pi05"


def test_adapters_train_through_stages(toy):
    run = train(toy, "--policy.lora_rank=2", "--policy.state_in_prompt=false", "--idle=mask")
    progress = run / "stages" / "02-lift" / "progress"
    from safetensors import safe_open

    file = sorted(progress.glob("step-*"))[-1] / "training.safetensors"
    with safe_open(file, "pt") as stored:
        kept = {key for key in stored.keys() if key.startswith("weight/")}  # noqa: SIM118
    assert kept
    assert all("lora_" in key or "action_" in key or "time_" in key for key in kept)
    assert weights(run) != weights(run, "01-reach")


def test_a_start_from_lerobots_folder_is_its_weights_and_a_wrong_one_is_refused(toy, capsys):
    seen = json.loads((toy / "reach" / "meta" / "info.json").read_text())["features"]
    cameras = tuple(key for key in seen if key.startswith("observation.images."))
    peer = peer_policy(cameras=cameras)
    peer.config.input_features |= features(cameras, 14)["input_features"]
    peer.config.output_features = features(cameras, 14)["output_features"]
    peer.config.chunk_size, peer.config.n_action_steps = SHARED["chunk_size"], SHARED["n_action_steps"]
    peer.save_pretrained(toy / "theirs")
    run = train(toy, f"--policy.path={toy}/theirs", "--steps=1", "--optim.lr=1e-12", "--tasks=[reach]")
    from safetensors.torch import load_file

    theirs = load_file(toy / "theirs" / "model.safetensors")
    ours = load_file(run / "stages" / "01-reach" / "checkpoint" / "policy" / "model.safetensors")
    for key, value in ours.items():
        if "lm_head" not in key:
            torch.testing.assert_close(value, theirs[key], rtol=1e-5, atol=1e-6)
    train(toy, f"--policy.path={toy}/theirs", "--policy.mlp_dim=64", name="wrong", code=2)
    assert "not a pi0.5 of this size" in capsys.readouterr().err

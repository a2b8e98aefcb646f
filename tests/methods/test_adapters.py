"""adapters, from training to bundles: old tasks stay the same to the last bit, whoever asks."""

import json
import shutil
from itertools import product

import numpy as np
import pytest
from method_runs import STAGES, arguments, same, train, weights
from pi05_tiny import FLAGS, make_tokenizer
from safetensors.torch import load_file
from toys import stream_text

from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Question
from holdfast.core.records import Task
from holdfast.methods import build_method
from holdfast.policies.pilot import Pilot
from holdfast.serve.bundle import load

REACH, LIFT = Task("reach", "Please reach.", ("left",)), Task("lift", "Please lift.", ("left", "right"))
FLAG = "--method=adapters"


@pytest.fixture(scope="module")
def made(recorded, tmp_path_factory):
    """A run of two tasks, with its data beside it."""
    folder = tmp_path_factory.mktemp("adapters")
    shutil.copytree(recorded, folder, dirs_exist_ok=True)
    (folder / "stream.toml").write_text(stream_text())
    return train(folder, "run", FLAG, "--method.rank=4", "--optim.ema=0")


def checkpoint(run, stage):
    return run / "stages" / stage / "checkpoint"


def pilot(run, stage):
    folder = checkpoint(run, stage)
    return Pilot(folder, json.loads((folder / "schema.json").read_text())["names"])


def ask(asked, *tasks):
    rng = np.random.default_rng(0)
    seen = [{camera: rng.integers(0, 256, (32, 32, 3), np.uint8) for camera in asked.cameras} for _ in tasks]
    return asked.answer([Question(task, np.full(14, 0.1), seen[n], n) for n, task in enumerate(tasks)])


def test_an_old_task_is_answered_with_the_same_bits_after_later_stages(made):
    before, after = pilot(made, STAGES[0]), pilot(made, STAGES[1])
    np.testing.assert_array_equal(ask(before, REACH, REACH), ask(after, REACH, REACH))
    np.testing.assert_array_equal(ask(before, REACH, REACH)[0], ask(after, REACH, LIFT)[0])  # whoever else asks
    assert not np.array_equal(ask(before, LIFT)[0], ask(after, LIFT)[0])


def test_a_stage_adds_a_lora_and_changes_nothing_else(made):
    one, two = (weights(made, stage) for stage in STAGES)
    assert same(one, {name: value for name, value in two.items() if name in one})
    added = two.keys() - one.keys()
    assert added
    assert all(name.endswith((".down.1", ".up.1")) for name in added)
    assert all(two[name].any() for name in added if ".up." in name)  # it has learned
    noted = [json.loads(line) for line in (made / "audit.jsonl").read_text().splitlines()]
    said = [line["note"] for line in noted if line["event"] == "begin"]
    size = sum(two[name].numel() * 4 for name in added) / 2**20
    assert said[1] == f"lift has a LoRA of rank 4: {size:.2f} MiB. All other weights are frozen."
    assert not (checkpoint(made, STAGES[1]) / "method.safetensors").exists()


def test_the_folder_stores_how_tasks_look_at_first(made):
    config = json.loads((checkpoint(made, STAGES[1]) / "policy" / "config.json").read_text())
    loras, cameras = config["task_loras"], [key for key in config["input_features"] if "image" in key]
    assert len(cameras) == 2
    assert [lora["instruction"] for lora in loras] == ["Please reach.", "Please lift."]
    for lora, camera in product(loras, cameras):
        pixels = np.array(lora["images"][camera])
        assert pixels.shape == (64,)
        assert 0 < pixels.mean() < 1


def test_a_bundle_answers_as_the_checkpoint_does(made, tmp_path):
    assert main(["bundle", str(made), "--output", str(tmp_path / "bundle")]) == 0
    assert main(["bundle", "verify", str(tmp_path / "bundle")]) == 0
    bundle = load(tmp_path / "bundle")
    asked = Pilot(bundle.path, bundle.names)
    np.testing.assert_array_equal(ask(asked, LIFT, REACH), ask(pilot(made, STAGES[1]), LIFT, REACH))


def test_another_method_does_not_go_on_with_frozen_weights_but_adapters_does(made, tmp_path, capsys):
    toy, path = made.parent, f"--policy.path={checkpoint(made, STAGES[1]) / 'policy'}"
    base = ["train", f"--stream={toy}/stream.toml", path, "--device=cpu", "--steps=2", "--batch_size=4"]
    assert main([*base, f"--output={tmp_path}/er", "--method=er", "--tasks=[sweep]"]) == 2
    assert "No weight of the policy learns with --method=er" in " ".join(capsys.readouterr().err.split())
    assert main([*base, f"--output={tmp_path}/again", FLAG, "--method.rank=4", "--tasks=[reach]"]) == 2
    assert "the same instruction, 'Please reach.'" in " ".join(capsys.readouterr().err.split())
    assert main([*base, f"--output={tmp_path}/more", FLAG, "--method.rank=4", "--tasks=[sweep]"]) == 0
    more = load_file(tmp_path / "more" / "stages" / "01-sweep" / "checkpoint" / "policy" / "model.safetensors")
    known = weights(made).keys() - {"anchor_scale"}  # a range of the new run's statistics, not a weight
    assert same({name: weights(made)[name] for name in known}, {name: more[name] for name in known})
    assert any(name.endswith(".down.2") for name in more)


def test_a_policy_that_takes_no_lora_is_refused(toy, capsys):
    act = ["--policy.type=act", "--policy.pretrained_backbone_weights=null", "--policy.chunk_size=4"]
    flags = ["--policy.n_action_steps=4", "--tasks=[reach]", "--device=cpu", "--steps=2", "--batch_size=2"]
    assert main(["train", f"--stream={toy}/stream.toml", f"--output={toy}/run", FLAG, *act, *flags]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--method=adapters needs a LoRA per task, which policy 'act' does not offer" in said


def test_a_dry_run_counts_the_lora_alone_as_what_learns(toy, capsys):
    plans = {}
    for method in ("sequential", "adapters"):
        assert main(arguments(toy, "plan", f"--method={method}", "--dry-run", "--json")) == 0
        plans[method] = json.loads(capsys.readouterr().out)["estimate"]
    assert plans["adapters"]["parameters"] > plans["sequential"]["parameters"]
    assert plans["adapters"]["disk_bytes"] < plans["sequential"]["disk_bytes"]
    assert not (toy / "plan").exists()


def test_a_bad_rank_is_named():
    with pytest.raises(HoldfastError, match=r"--method\.rank must be at least 1, got 0"):
        build_method("adapters", {"rank": "0"})


def test_pi05_learns_tasks_apart_and_is_exported_one_by_one(recorded, tmp_path, capsys):
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stream.toml").write_text(stream_text(("reach", "lift")))
    tokenizer = f"--policy.tokenizer_name={make_tokenizer(tmp_path / 'tokenizer')}"
    base = [f"--stream={tmp_path}/stream.toml", f"--output={tmp_path}/run", "--steps=2", "--batch_size=4"]
    policy = ["--policy.type=pi05_fast", tokenizer, *FLAGS, "--device=cpu", "--method.rank=2", "--optim.ema=0"]
    assert main(["train", *base, *policy, FLAG]) == 0
    run = tmp_path / "run"
    before, after = (pilot(run, stage) for stage in STAGES)
    np.testing.assert_array_equal(ask(before, REACH), ask(after, REACH))

    export = ["export", "policy", str(run)]
    assert main([*export, f"--output={tmp_path}/none"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "give --instruction, one of 'Please reach.', 'Please lift.'" in said
    assert main([*export, f"--output={tmp_path}/stock", "--instruction=Please reach."]) == 0
    merged, routed = load_file(tmp_path / "stock" / "model.safetensors"), weights(run)
    assert not any(".down." in name or ".up." in name for name in merged)
    layer = "model.action_in_proj"
    wanted = routed[f"{layer}.weight"] + routed[f"{layer}.up.0"] @ routed[f"{layer}.down.0"]
    np.testing.assert_allclose(merged[f"{layer}.weight"], wanted, atol=1e-6)
    steps = json.loads((tmp_path / "stock" / "policy_preprocessor.json").read_text())["steps"]
    assert not any("holdfast" in step["registry_name"] for step in steps)

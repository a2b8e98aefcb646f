"""Policies of LeRobot and our own train through `holdfast train` and come back in stock LeRobot with equal outputs."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from rich.console import Console
from toys import TINY

from holdfast.cli import main
from holdfast.core.errors import HoldfastError

SMALL = {
    "nano": TINY,
    "act": (
        "--policy.pretrained_backbone_weights=null",
        "--policy.chunk_size=8",
        "--policy.n_action_steps=8",
        "--policy.dim_model=32",
        "--policy.n_heads=2",
        "--policy.dim_feedforward=32",
        "--policy.n_encoder_layers=1",
    ),
    "diffusion": (
        "--policy.pretrained_backbone_weights=null",
        "--policy.use_group_norm=true",
        "--policy.down_dims=[16, 32]",
        "--policy.crop_shape=null",
        "--policy.n_groups=4",
        "--policy.diffusion_step_embed_dim=16",
        "--policy.num_train_timesteps=10",
    ),
}

# Stock LeRobot in a process of its own: nothing of Holdfast is imported unless LeRobot's own plugin discovery does it.
STOCK = """
import sys, numpy, torch
from lerobot.utils.import_utils import register_third_party_plugins
register_third_party_plugins()
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
for line in sys.stdin:
    folder, inputs, out = line.split()
    config = PreTrainedConfig.from_pretrained(folder)
    policy = get_policy_class(config.type).from_pretrained(folder)
    pre, post = make_pre_post_processors(config, pretrained_path=folder)
    batch = torch.load(inputs)
    policy.reset()
    torch.manual_seed(0)
    numpy.save(out, post(policy.select_action(pre(batch))).numpy())
    print("saved", flush=True)
"""


@pytest.fixture(scope="module")
def stock():
    command, pipe = [sys.executable, "-c", STOCK], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


@pytest.fixture(scope="module", params=SMALL)
def trained(request, recorded, tmp_path_factory):
    """A run of two stages with each policy."""
    from toys import stream_text

    folder = tmp_path_factory.mktemp(request.param)
    for name in ("reach", "lift"):
        (folder / name).symlink_to(recorded / name)
    (folder / "stream.toml").write_text(stream_text(("reach", "lift")))
    flags = [f"--stream={folder}/stream.toml", f"--output={folder}/run", "--steps=4", "--batch_size=4", "--device=cpu"]
    assert main(["train", *flags, f"--policy.type={request.param}", *SMALL[request.param]]) == 0
    return folder / "run"


def observation():
    generator = torch.Generator().manual_seed(1)
    images = {f"observation.images.{c}": torch.rand(2, 3, 32, 32, generator=generator) for c in ("head", "front")}
    state = torch.rand(2, 14, generator=generator)
    return {"observation.state": state, **images, "task": ["Please lift.", "Please reach."]}


def test_stock_lerobot_gives_the_same_actions(trained, stock, tmp_path):
    from holdfast.policies import adapter, transforms
    from holdfast.runs.checkpoint import Checkpoint

    finished = Checkpoint(trained / "stages" / "02-lift" / "checkpoint")
    ours = adapter.load(finished.policy, tuple(finished.schema["names"]), "cpu")
    pre, post = transforms.build(ours.config, finished.normalization.test("lift"))
    torch.manual_seed(0)
    ours.policy.reset()
    expected = post(ours.policy.select_action(pre(observation()))).numpy()
    torch.save(observation(), tmp_path / "inputs.pt")
    out = tmp_path / "actions.npy"
    print(finished.policy, tmp_path / "inputs.pt", out, file=stock.stdin, flush=True)
    assert "saved\n" in iter(stock.stdout.readline, ""), "it has said why"
    np.testing.assert_array_equal(np.load(out), expected)


def test_every_policy_here_masks_padded_steps(trained):
    lines = [json.loads(line) for line in (trained / "audit.jsonl").read_text().splitlines()]
    assert [line["masks_padding"] for line in lines if line["event"] == "loss"] == [True, True]


def test_a_policy_that_counts_padding_is_found_out(recorded):
    from holdfast.core.records import Task
    from holdfast.data.cache.cache import open_cache
    from holdfast.data.cache.config import CacheConfig
    from holdfast.data.lerobot.source import open_source
    from holdfast.data.lesson import Lesson
    from holdfast.data.loader import Batches
    from holdfast.data.sampler import Draw
    from holdfast.policies import adapter
    from holdfast.policies.config import PolicyChoice

    source = open_source(str(recorded / "reach"))
    options = dict(flag.removeprefix("--policy.").split("=", 1) for flag in SMALL["diffusion"])
    built = adapter.build(
        PolicyChoice("diffusion", options={**options, "do_mask_loss_for_padding": "false"}), source, "cpu", 0
    )
    lesson = Lesson(Task("reach", "Please reach.", ("left",)), source, np.ones(14, bool), hold=False)
    cache = open_cache(source, built.resize, CacheConfig(), Console(quiet=True))
    batches = Batches([lesson], [cache], built.layout)
    batch = batches.make(Draw(np.zeros(2, np.int64), np.array([0, 20]), replayed=0))
    batches.close()
    batch = {k: v.float() / 255 if k.startswith("observation.images") else v for k, v in batch.items()}
    assert not built.masks_padding(batch)


def test_weights_that_do_not_fit_are_named(trained, tmp_path):
    from safetensors.torch import load_file, save_file

    from holdfast.policies import adapter

    folder = trained / "stages" / "01-reach" / "checkpoint" / "policy"
    policy = adapter.load(folder, tuple(f"d{i}" for i in range(14)), "cpu").policy
    stored = load_file(folder / "model.safetensors")
    name = max(stored, key=lambda key: stored[key].numel())
    save_file({k: v for k, v in stored.items() if k != name}, tmp_path / "short.safetensors")
    with pytest.raises(HoldfastError, match="lacks 1 weights"):
        adapter.load_strictly(policy, tmp_path / "short.safetensors")
    save_file({**stored, "stranger": stored[name].clone()}, tmp_path / "long.safetensors")
    with pytest.raises(HoldfastError, match="unexpected 1 weights: stranger"):
        adapter.load_strictly(policy, tmp_path / "long.safetensors")


def test_saved_weights_of_other_shapes_are_refused_in_one_sentence(recorded):
    from holdfast.data.lerobot.source import open_source
    from holdfast.policies.adapter import build
    from holdfast.policies.config import PolicyChoice

    choice = PolicyChoice(path="nano-base", options={"width": "64", "image_size": "64"})
    with pytest.raises(HoldfastError) as refused:
        build(choice, open_source(str(recorded / "reach")), "cpu", seed=1)
    assert str(refused.value).count("torch.Size") == 2, "only the first of many weights"
    assert str(refused.value).endswith("give --policy.type=nano without --policy.path.")


def test_replayed_samples_are_normalized_with_their_own_tasks_statistics():
    from lerobot.processor.converters import batch_to_transition

    from holdfast.norm.stats import Stats
    from holdfast.norm.strategies import Space
    from holdfast.policies.transforms import TaskNormalizer

    one = Stats.from_range(np.zeros(2), np.ones(2))
    two = Stats.from_range(np.zeros(2), 10 * np.ones(2))
    step = TaskNormalizer([Space(one, one), Space(two, two)])
    batch = {
        "observation.state": torch.ones(2, 2),
        "action": torch.ones(2, 3, 2),
        "task_index": torch.tensor([0, 1]),
    }
    out = step(batch_to_transition(batch))
    from lerobot.lerobot_types import TransitionKey

    assert torch.allclose(out[TransitionKey.ACTION][:, 0, 0], torch.tensor([1.0, -0.8]))
    assert torch.allclose(out[TransitionKey.OBSERVATION]["observation.state"][:, 0], torch.tensor([1.0, -0.8]))

"""The recipe of the base, in small: what it writes can be trained on from where it stopped."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.norm.released import read_norm_stats
from holdfast.policies import adapter as adapters
from holdfast.policies.config import AugmentConfig
from holdfast.policies.nano.network import NanoNetwork
from holdfast.train.config import OptimConfig
from holdfast.train.pretrain import PretrainConfig
from holdfast.twin.skills.base import BaseConfig, collect, lay_out, make_base

pytestmark = [pytest.mark.sim, pytest.mark.slow]
SMALL = BaseConfig(
    episodes=4,
    size=48,
    every=10,
    processes=1,
    device="cpu",
    policy={"width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "chunk_size": 8, "n_action_steps": 4},
    train=PretrainConfig(
        steps=3, batch_size=4, sizes=(32, 48), seed=0, optim=OptimConfig(ema=0.9), augment=AugmentConfig()
    ),
)


def test_it_leaves_a_policy_with_its_statistics_and_its_origin(tmp_path):
    folder = make_base(SMALL, tmp_path / "base", Console(quiet=True))
    names = EMBODIMENTS["piper_x_pair"].names
    assert adapters.load(folder, names, "cpu").config.image_size == 48
    space = read_norm_stats(folder, len(names))
    assert all(low < high for low, high in zip(space.action.q01, space.action.q99, strict=True))
    origin = json.loads((folder / "provenance.json").read_text())
    assert 1 <= origin["episodes"] == sum(origin["skills"].values()) <= 4
    assert origin["config"]["train"]["sizes"] == [32, 48]
    with pytest.raises(HoldfastError, match="exists"):
        make_base(SMALL, tmp_path / "base", Console(quiet=True))


def test_a_batch_pairs_each_image_with_the_actions_that_follow_it():
    episodes = collect(range(2), SMALL, Console(quiet=True))
    experience = lay_out(episodes, SMALL.every)
    batch = experience.batch(np.random.default_rng(0), 64, chunk=8)
    ends = np.cumsum([len(e.states) for e in episodes])
    for row in range(64):
        episode = next(e for e in episodes if e.instruction == batch["task"][row])
        step = int(np.flatnonzero((episode.states == batch["observation.state"][row].numpy()).all(1))[0])
        assert torch.equal(batch["action"][row, 0], torch.from_numpy(episode.actions[step]))
        picture = torch.from_numpy(episode.frames[step // SMALL.every, 0]).permute(2, 0, 1)
        assert torch.equal(batch["observation.images.head"][row], picture)
        assert batch["action_is_pad"][row].sum() == max(0, step + 8 - len(episode.states))
    assert len(experience.states) == ends[-1]


def test_the_policy_sees_images_of_every_size_that_was_asked_for(tmp_path, monkeypatch):
    seen = []
    encode = NanoNetwork.encode

    def watched(self, images, *rest):
        seen.append(images.shape[-1])
        return encode(self, images, *rest)

    monkeypatch.setattr(NanoNetwork, "encode", watched)
    make_base(replace(SMALL, train=replace(SMALL.train, steps=12)), tmp_path / "base", Console(quiet=True))
    assert len(seen) == 12
    assert set(seen) == {32, 48}

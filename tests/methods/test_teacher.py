"""lwf and derpp: the distance to the teacher against a real copy of the teacher, and both as part of a run."""

import copy
import json

import numpy as np
import pytest
import torch
from lerobot.configs import FeatureType, PolicyFeature
from method_runs import kept, same, train, weights
from pi05_tiny import make_batch, our_policy

from holdfast.core.errors import HoldfastError
from holdfast.methods import build_method
from holdfast.methods.derpp import Derpp
from holdfast.methods.lwf import Lwf
from holdfast.policies.adapter import Adapter
from holdfast.policies.nano.configuration_nano import NanoConfig
from holdfast.policies.nano.modeling_nano import NanoPolicy

CAMERA, STATE = "observation.images.head", "observation.state"
WORDS = "observation.language"


def nano():
    features = {
        "input_features": {
            STATE: PolicyFeature(FeatureType.STATE, (5,)),
            CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 32, 32)),
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (5,))},
    }
    sizes = {"width": 64, "heads": 2, "image_size": 32, "encoder_layers": 1, "decoder_layers": 1, "chunk_size": 6}
    torch.manual_seed(0)
    policy = NanoPolicy(
        NanoConfig(
            device="cpu", n_action_steps=4, noise_draws=2, use_relative_actions=False, max_tokens=4, **features, **sizes
        )
    )
    draw = torch.Generator().manual_seed(2)
    batch = {
        CAMERA: torch.rand(3, 3, 32, 32, generator=draw),
        STATE: torch.randn(3, 5, generator=draw),
        "action": torch.randn(3, 6, 5, generator=draw),
        f"{WORDS}.tokens": torch.randint(0, 99, (3, 4), generator=draw),
        f"{WORDS}.attention_mask": torch.ones(3, 4, dtype=torch.bool),
    }
    return policy, batch, policy.network


def pi05():
    policy = our_policy()
    return policy, make_batch(), policy.model


def prepared(kind):
    """A policy in training, a batch with padding and a replayed row, and whose `velocity` is asked for."""
    policy, batch, network = kind()
    batch["action_is_pad"] = torch.zeros(3, 6, dtype=torch.bool)
    batch["action_is_pad"][0, 4:] = True
    batch["task_index"] = torch.tensor([0, 2, 0])
    return Adapter(policy.train(), tuple("abcde")), batch, network


def moved(policy):
    with torch.no_grad():
        for number, weight in enumerate(policy.parameters()):
            weight.add_(0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))


def velocities(kind, adapter, batch):
    """What a policy's network says during a loss, written down as it says it."""
    network = {nano: lambda p: p.network, pi05: lambda p: p.model}[kind](adapter.policy)
    said, ask = [], network.velocity
    network.velocity = lambda *args: said.append(ask(*args)) or said[-1]
    torch.manual_seed(5)
    adapter.loss(batch, None)
    del network.velocity
    return said[0].detach().numpy()[..., :5].reshape(3, -1, 6, 5)


@pytest.mark.parametrize("kind", [nano, pi05])
def test_the_distance_is_that_to_a_copy_of_the_teacher_at_the_same_noise_and_time(kind):
    adapter, batch, _ = prepared(kind)
    teacher = Adapter(copy.deepcopy(adapter.policy), adapter.names)
    state = Lwf().keep(adapter.policy, None, None)
    moved(adapter.policy)
    squares = (velocities(kind, adapter, batch) - velocities(kind, teacher, batch)) ** 2
    counted = ~batch["action_is_pad"].numpy()[:, None, :, None] & np.ones_like(squares, dtype=bool)
    torch.manual_seed(5)
    loss = adapter.loss(batch, None)
    found = Lwf(weight=2.5).extra_loss(batch, loss, adapter.policy, state)
    assert found.item() == pytest.approx(2.5 * squares[counted].mean(), rel=1e-4)
    found = Derpp(weight=2.5).extra_loss(batch, loss, adapter.policy, state)
    replayed = squares[1][counted[1]].sum() / counted.sum()
    assert found.item() == pytest.approx(2.5 * replayed, rel=1e-4)


@pytest.mark.parametrize("kind", [nano, pi05])
def test_the_penalty_starts_at_zero_and_the_teacher_stays_as_it_was(kind):
    adapter, batch, _ = prepared(kind)
    state = Lwf().keep(adapter.policy, None, None)
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    optimizer = torch.optim.AdamW(adapter.policy.get_optim_params(), lr=1e-3)
    said = []
    for step in range(3):
        torch.manual_seed(step)
        loss = adapter.loss(batch, None)
        extra = Lwf().extra_loss(batch, loss, adapter.policy, state)
        optimizer.zero_grad()
        (loss.total + extra).backward()
        optimizer.step()
        said.append(extra.item())
    assert said[0] == 0
    assert min(said[1:]) > 0
    assert same(state.tensors, before)
    assert not any(tensor.requires_grad for tensor in state.tensors.values())
    assert not same(Lwf().keep(adapter.policy, None, None).tensors, before)


def test_a_batch_that_is_split_has_the_same_penalty():
    adapter, batch, _ = prepared(nano)
    state = Derpp().keep(adapter.policy, None, None)
    moved(adapter.policy)
    loss = adapter.loss(batch, None)
    whole = Derpp().extra_loss(batch, loss, adapter.policy, state)
    squares = loss.flow.disagreement(state.part("teacher")).detach()
    shares = loss.mask.sum((1, 2)) / loss.mask.sum()
    rows = [(squares[r] * loss.mask[r]).sum() / loss.mask[r].sum() * (r == 1) for r in range(3)]
    assert whole.item() == pytest.approx(sum(float(s * r) for s, r in zip(shares, rows, strict=True)), rel=1e-5)


@pytest.mark.parametrize("name", ["lwf", "derpp"])
def test_a_bad_weight_is_named(name):
    with pytest.raises(HoldfastError, match=r"--method\.weight must be at least 0 and finite, got -1"):
        build_method(name, {"weight": "-1"})


def losses(run, stage):
    lines = (run / "stages" / stage / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_lwf_in_a_run(toy):
    plain = train(toy, "plain", "--method=sequential")
    off = train(toy, "off", "--method=lwf", "--method.weight=0")
    assert same(weights(off), weights(plain))
    run = train(toy, "run", "--method=lwf", "--method.weight=10", "--log.every=1", "--augment.shift=0.1")
    assert all("extra_loss" not in line for line in losses(run, "01-reach"))
    said = [line["extra_loss"] for line in losses(run, "02-lift")]
    assert said[0] == 0
    assert all(0 < extra < line["loss"] for extra, line in zip(said[1:], losses(run, "02-lift")[1:], strict=True))
    teacher, saved = kept(run, "01-reach"), weights(run, "01-reach")
    assert len(teacher) > 10
    assert all(torch.equal(value, saved[name.removeprefix("teacher/")]) for name, value in teacher.items())


def test_derpp_is_er_without_its_weight_and_follows_the_teacher_on_replayed_steps_with_it(toy):
    replay = ("--replay.frequency=0.5", "--replay.coin=stratified", "--log.every=1")
    er = train(toy, "er", "--method=er", *replay)
    off = train(toy, "off", "--method=derpp", "--method.weight=0", *replay)
    on = train(toy, "on", "--method=derpp", *replay)
    for stage in ("01-reach", "02-lift"):
        assert same(weights(off, stage), weights(er, stage))
        assert losses(off, stage) == losses(er, stage)
    assert not same(weights(on), weights(er))
    for line in losses(on, "02-lift")[1:]:
        assert (line["extra_loss"] > 0) == (line["replay_steps"] > 0)


def test_a_policy_without_velocities_is_refused_with_a_way_out(toy, capsys):
    act = ("--policy.type=act", "--policy.pretrained_backbone_weights=null", "--policy.chunk_size=8")
    from holdfast.cli import main

    base = ["train", f"--stream={toy}/stream.toml", f"--output={toy}/run", "--steps=2", "--batch_size=2"]
    assert main([*base, "--device=cpu", *act, "--policy.n_action_steps=4", "--method=lwf"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--method=lwf needs the velocities behind the loss, which policy 'act' does not offer" in said
    assert "--policy.type=nano or pi05_fast" in said

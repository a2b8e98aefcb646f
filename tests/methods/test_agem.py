"""The projection of agem against numpy, its steps against gradients taken by hand, and agem as part of a run."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from method_runs import same, train, weights

from holdfast.core.errors import HoldfastError
from holdfast.methods.agem import Agem
from holdfast.policies.adapter import Loss
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.step import Combine, Stepper

SHAPES = [(3, 2), (5,), (1,)]
SEEDS = (0, 6, 7, 9)


def cut(flat):
    parts = np.split(flat, np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1])
    return [torch.from_numpy(part.reshape(shape)) for part, shape in zip(parts, SHAPES, strict=True)]


@given(st.integers(0, 2**32 - 1), st.sampled_from([-1.0, -0.3, 0.0, 0.3, 1.0]), st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
def test_the_gradient_is_projected_exactly_when_it_hurts(seed, toward, size):
    rng = np.random.default_rng(seed)
    h = rng.normal(size=12) * size
    g = rng.normal(size=12) + toward * h
    found = np.concatenate([part.numpy().ravel() for part in Agem().combine(cut(g), cut(h))])
    wanted = g if g @ h >= 0 else g - (g @ h) / (h @ h) * h
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert found @ h >= -1e-9 * np.linalg.norm(h) * np.linalg.norm(g)
    if g @ h >= 0:
        assert np.array_equal(found, g)


class Linear:
    """A policy whose loss is that of linear regression, row by row."""

    knows_elements, cuda_graphable = True, False

    def __init__(self):
        self.policy = torch.nn.Linear(3, 2, bias=False)

    def loss(self, batch, active, batch_slice=None):
        elements = (self.policy(batch["x"]) - batch["action"][:, 0]).square()[:, None]
        mask = torch.ones_like(elements) if active is None else active[:, None].float()
        return Loss((elements * mask).sum() / mask.sum().clamp_min(1), elements, mask)


def rows_of(seed, count=8):
    draw = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(count, 3, generator=draw),
        "action": torch.randn(count, 1, 2, generator=draw),
        "action_is_pad": torch.zeros(count, 1, dtype=torch.bool),
        "task_index": torch.tensor([0, 1, 0, 0, 2, 0, 1, 0])[:count],
        "task": ["x"] * count,
        "observation.images.head": torch.zeros(count, 3, 4, 4, dtype=torch.uint8),
    }


def mean_loss(weight, batch, rows):
    x, y = batch["x"].numpy()[rows].astype(float), batch["action"].numpy()[rows, 0].astype(float)
    return ((x @ weight.T - y) ** 2).mean()


def gradient(weight, batch, rows):
    x, y = batch["x"].numpy()[rows].astype(float), batch["action"].numpy()[rows, 0].astype(float)
    return 2 * (x @ weight.T - y).T @ x / y.size


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_takes_the_projected_gradient_and_never_raises_the_reference_loss_to_first_order(parts, seed):
    torch.manual_seed(seed)
    adapter, batch = Linear(), rows_of(seed)
    optim = OptimConfig(lr=1e-3, ema=0, accumulate=parts, clip=1e9)
    config = TrainConfig(stream="any", batch_size=8, optim=optim)
    optimizer = torch.optim.SGD([{"params": adapter.policy.parameters(), "peak": 1e-3}])
    state = SimpleNamespace(step=0, optimizer=optimizer, parameters=dict(adapter.policy.named_parameters()))
    step = Stepper(config, adapter, lambda b: b, None, 1, 10, "cpu", combine=Combine(Agem().combine, 1))
    before = adapter.policy.weight.detach().numpy().astype(float)
    taken = {}
    state.advance = lambda clip: taken.update(gradient=adapter.policy.weight.grad.numpy().copy())
    losses, _ = step(state, batch)
    old = batch["task_index"].numpy() > 0
    g, h = gradient(before, batch, ~old), gradient(before, batch, old)
    product = (g * h).sum()
    wanted = g if product >= 0 else g - product / (h * h).sum() * h
    np.testing.assert_allclose(taken["gradient"], wanted, rtol=1e-4, atol=1e-6)
    small = before - 1e-5 * taken["gradient"]
    assert mean_loss(small, batch, old) <= mean_loss(before, batch, old) + 1e-8
    assert float(sum(loss.total for loss in losses)) == pytest.approx(mean_loss(before, batch, slice(None)), rel=1e-5)


def test_some_of_those_steps_were_projected():
    hurt = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        weight, batch = Linear().policy.weight.detach().numpy().astype(float), rows_of(seed)
        old = batch["task_index"].numpy() > 0
        hurt.append((gradient(weight, batch, ~old) * gradient(weight, batch, old)).sum() < 0)
    assert set(hurt) == {True, False}


def lines(run, stage="02-lift"):
    return [json.loads(line) for line in (run / "stages" / stage / "metrics.jsonl").read_text().splitlines()]


def test_agem_in_a_run_replays_in_every_batch_and_starts_as_er_does(toy):
    flags = ("--replay.frequency=0.5", "--log.every=1")
    run = train(toy, "run", "--method=agem", *flags)
    er = train(toy, "er", "--method=er", "--replay.mix=row", *flags)
    assert same(weights(run, "01-reach"), weights(er, "01-reach"))
    assert not same(weights(run), weights(er))
    mine, theirs = lines(run), lines(er)
    assert [line["samples"] for line in mine] == [line["samples"] for line in theirs]
    assert all(line["replay_samples"] == 2 for line in mine)
    assert mine[0]["loss"] == pytest.approx(theirs[0]["loss"], rel=1e-5)
    assert mine[0]["loss_by_task"] == pytest.approx(theirs[0]["loss_by_task"], rel=1e-5)


def test_the_plan_counts_the_rows_that_agem_replays(toy):
    from holdfast.catalog import load_stream
    from holdfast.train.plan import make_plan

    config = TrainConfig(stream=f"{toy}/stream.toml", method="agem", steps=40, batch_size=10)
    stage = make_plan(config, load_stream(config.stream, ""), look=False).stages[1]
    assert (stage.steps, stage.replay_steps, stage.replay_samples) == (50, 50, 100)


def test_weights_that_are_split_are_refused():
    from holdfast.train.distributed.parallel import refuse_shards
    from holdfast.train.distributed.ranks import Ranks

    config = TrainConfig(stream="any", method="agem", parallel="fsdp")
    with pytest.raises(HoldfastError, match="--method=agem needs the whole policy on one rank"):
        refuse_shards(config, Ranks(number=0, count=2))

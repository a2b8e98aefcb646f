"""What is decided about ranks before any of them starts, and what each micro-batch counts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from holdfast.core.errors import HoldfastError
from holdfast.policies.adapter import Loss
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.distributed.micro_batches import deal
from holdfast.train.distributed.parallel import blocks, rank_device
from holdfast.train.distributed.ranks import ALONE, Ranks
from holdfast.train.step import Stepper

NAMES = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}


def test_a_rank_is_what_torchrun_says(monkeypatch):
    for name, value in NAMES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert Ranks.from_environment().count == 1  # some cluster's variables, not torchrun's
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    ranks = Ranks.from_environment()
    assert (ranks.number, ranks.count, ranks.local, ranks.local_count, ranks.first) == (5, 8, 1, 4, False)


def test_who_is_alone_meets_nobody():
    with ALONE.connected("cpu"), ALONE.together(), ALONE.leader_goes_first() as leads:
        assert leads
        assert ALONE.ask(lambda: "yes") == "yes"
        assert ALONE.sum(torch.tensor(3.0)) == 3
    with pytest.raises(ZeroDivisionError), ALONE.together():
        ALONE.ask(lambda: 1 / 0)


def config(folder, batch_size=8, accumulate=None):
    return TrainConfig(stream="s", output=str(folder), batch_size=batch_size, optim=OptimConfig(accumulate=accumulate))


@pytest.mark.parametrize(
    ("asked", "ranks", "parts"), [(None, 1, 1), (None, 4, 4), (1, 1, 1), (4, 1, 4), (4, 2, 4), (8, 4, 8)]
)
def test_micro_batches_are_as_asked_or_one_per_rank(tmp_path, asked, ranks, parts):
    assert deal(config(tmp_path, accumulate=asked), ranks).optim.accumulate == parts


def test_a_run_keeps_to_the_micro_batches_it_began_with(tmp_path):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"config": {"optim": {"accumulate": 4}}, "tasks": []}))
    assert [deal(config(tmp_path), ranks).optim.accumulate for ranks in (1, 2, 4)] == [4, 4, 4]
    with pytest.raises(HoldfastError, match=r"started with --optim\.accumulate=4: 3 ranks .* Use 1 or 2 or 4 ranks"):
        deal(config(tmp_path), 3)


@pytest.mark.parametrize(
    ("batch_size", "asked", "ranks", "message"),
    [
        (8, 1, 2, "You asked for --optim.accumulate=1: 2 ranks cannot share"),
        (12, 6, 4, "4 ranks cannot share 6 micro-batches equally. Use 1 or 2 or 3 or 6 ranks"),
        (9, None, 2, "--batch_size=9, the batch of all ranks together, cannot be split equally over 2 ranks"),
    ],
)
def test_what_does_not_divide_is_refused(tmp_path, batch_size, asked, ranks, message):
    with pytest.raises(HoldfastError) as error:
        deal(config(tmp_path, batch_size, asked), ranks)
    assert message in str(error.value)


def test_every_rank_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert rank_device("auto", Ranks(6, 8, 2, 4)) == "cuda:2"
    assert rank_device("auto", ALONE) == "cuda"
    assert rank_device("cpu", Ranks(6, 8, 2, 4)) == "cpu"
    with pytest.raises(HoldfastError, match="one GPU for 8 ranks"):
        rank_device("cuda:0", Ranks(6, 8, 2, 4))
    with pytest.raises(HoldfastError, match="5 processes on a machine where torch sees 4 GPUs"):
        rank_device("cuda", Ranks(0, 5, 0, 5))


def layers(count=3):
    return nn.ModuleList(nn.Linear(2, 2) for _ in range(count))


def test_blocks_are_the_members_of_the_outermost_lists_of_equal_layers():
    inner = nn.ModuleList(nn.ModuleDict({"deep": layers()}) for _ in range(2))
    policy = nn.ModuleDict({"trunk": nn.ModuleDict({"layers": inner}), "head": nn.Linear(2, 2), "tail": layers()})
    assert blocks(policy) == [*inner, *policy["tail"]]


def test_lists_of_one_of_different_kinds_or_of_lists_are_not_blocks():
    mixed = nn.ModuleList([nn.Linear(2, 2), nn.LayerNorm(2)])
    nested = nn.ModuleList([layers(2), layers(2)])
    bare = nn.ModuleList([nn.GELU(), nn.GELU()])
    policy = nn.ModuleDict({"one": layers(1), "mixed": mixed, "nested": nested, "bare": bare})
    assert blocks(policy) == [*nested[0], *nested[1]]


def test_a_policy_may_name_its_blocks():
    policy = nn.ModuleDict({"layers": layers()})
    policy.shard_blocks = lambda: [policy["layers"][1]]
    assert blocks(policy) == [policy["layers"][1]]


class Toy(nn.Module):
    """A policy whose loss is its one weight times what the batch says."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.config = SimpleNamespace(get_optimizer_preset=lambda: SimpleNamespace(lr=1.0))

    def get_optim_params(self):
        return self.parameters()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_loss_is_the_mean_over_all_that_counts_however_the_batch_is_cut(parts, masked):
    from holdfast.train.state import TrainingState

    errors = torch.arange(4 * 3 * 2, dtype=torch.float32).view(4, 3, 2)
    padded = torch.tensor([[0, 0, 0], [0, 1, 1], [0, 0, 1], [0, 1, 1]], dtype=torch.bool)
    active = np.array([[True, True], [True, False]])
    rows = torch.tensor([0, 1, 1, 0])
    policy = Toy()

    def loss(batch, own, part):
        mask = (~batch["action_is_pad"])[..., None].expand_as(batch["errors"]).float()
        mask = mask if own is None else mask * own[:, None]
        elements = policy.weight * batch["errors"]
        return Loss((elements * mask).sum() / mask.sum(), elements, mask)

    adapter = SimpleNamespace(policy=policy, knows_elements=True, loss=loss)
    setting = config("x", 4, parts)
    step = Stepper(setting, adapter, lambda batch: batch, active if masked else None, 1, 10, "cpu")
    step.prepare = lambda batch, seed, part: batch
    state = TrainingState(policy, setting.optim)
    gradients = []
    policy.weight.register_hook(gradients.append)
    losses, _ = step(state, {"task": [""] * 4, "task_index": rows, "action_is_pad": padded, "errors": errors})
    mask = (~padded)[..., None] & (torch.from_numpy(active)[rows][:, None] if masked else torch.ones(4, 1, 2).bool())
    wanted = errors[mask.expand_as(errors)].mean()
    torch.testing.assert_close(sum(loss.total for loss in losses), wanted)
    torch.testing.assert_close(sum(gradients), wanted)

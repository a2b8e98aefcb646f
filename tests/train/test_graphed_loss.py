"""What is around a CUDA graph, with a fake one that does nothing when it is replayed; real ones are tried on a GPU."""

import contextlib
import gc
import weakref

import pytest
import torch

from holdfast.policies.adapter import Loss
from holdfast.policies.batch_slice import BatchSlice
from holdfast.policies.cuda_graphs import WARMUP, CudaGraphs
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.distributed import parallel
from holdfast.train.distributed.ranks import ALONE


class Graph:
    played = 0

    def replay(self):
        Graph.played += 1


class Stream(contextlib.nullcontext):
    def wait_stream(self, other):
        pass


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(Graph, "played", 0)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for name in ("stream", "graph", "device"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: contextlib.nullcontext())


def test_every_shape_is_captured_once_and_replayed_with_the_new_inputs():
    calls, graphs = [], CudaGraphs()

    def read(one, two):
        calls.append(len(one))
        return one, two

    for size in (3, 3, 5, 3):
        given = torch.rand(size), torch.rand(2)
        buffers = graphs.play(read, *given)
        assert all(torch.equal(*pair) for pair in zip(buffers, given, strict=True))
    assert calls == [3] * (WARMUP + 1) + [5] * (WARMUP + 1)
    assert Graph.played == 4


class Small(torch.nn.Module):
    """A policy of two weights, of which one is not used, behind an adapter's face."""

    cuda_graphable = True

    def __init__(self):
        super().__init__()
        self.policy = self
        self.used, self.idle = (torch.nn.Parameter(torch.ones(())) for _ in range(2))

    def loss(self, batch, active, part):
        return Loss((self.used * batch["x"]).mean(), batch["x"], active)


def objective(adapter, extra=None):
    made = parallel.Objective(adapter, TrainConfig(stream="any"), "cuda", ALONE, extra)
    made._device, made._bf16 = "cpu", False
    assert made._graphed
    return made


def learn(made, x, share=1.0):
    return made.learn({"x": x, "task": ["any"]}, None, torch.tensor(share), 0, BatchSlice(0, 2, 2), True)


def test_gradients_of_the_graph_are_put_back_after_they_were_cleared():
    adapter = Small()
    made = objective(adapter)
    loss = learn(made, torch.tensor([1.0, 3.0]), 0.5)
    assert (float(loss.total), float(adapter.used.grad), adapter.idle.grad) == (1.0, 1.0, None)
    written = adapter.used.grad
    adapter.zero_grad(set_to_none=True)
    learn(made, torch.tensor([2.0, 3.0]))
    assert adapter.used.grad is written


def test_a_methods_term_is_captured_with_the_loss_and_sees_nothing_but_tensors():
    adapter, seen = Small(), []

    def extra(batch, loss, policy):
        seen.append((set(batch), float(loss.total.detach())))
        return 3 * policy.used.square() + policy.idle

    loss = learn(objective(adapter, extra), torch.tensor([1.0, 3.0]), 0.5)
    assert (float(loss.total), float(loss.extra)) == (0.5 * (2 + 4), 0.5 * 4)
    assert (float(adapter.used.grad), float(adapter.idle.grad)) == (0.5 * (2 + 6), 0.5)
    assert seen == [({"x"}, 2.0)] * (WARMUP + 1)
    assert not loss.extra.requires_grad


def test_graphs_are_freed_with_their_owner():
    gc.disable()
    try:
        made = objective(Small())
        learn(made, torch.ones(2))
        gone = weakref.ref(made)
        del made
        assert gone() is None
    finally:
        gc.enable()


def test_parts_of_a_batch_are_not_captured():
    several = TrainConfig(stream="any", optim=OptimConfig(accumulate=2))
    assert parallel.Objective(Small(), several, "cuda", ALONE)._graphed is None
    assert parallel.Objective(Small(), TrainConfig(stream="any"), "cpu", ALONE)._graphed is None

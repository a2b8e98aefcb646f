"""L2 against ridge regression, and as part of a run."""

import pytest
import torch
from method_runs import distance, kept, same, train, weights

from holdfast.core.errors import HoldfastError
from holdfast.methods import build_method
from holdfast.methods.l2 import L2
from holdfast.policies.adapter import Loss


def linear(weights):
    model = torch.nn.Linear(len(weights), 1, bias=False).double()
    model.weight.data[0] = torch.tensor(weights)
    return model


def test_the_penalized_optimum_is_that_of_ridge_regression_around_the_anchor():
    method, generator = L2(strength=3.0), torch.Generator().manual_seed(0)
    x, y = (torch.randn(40, n, generator=generator).double() for n in (3, 1))
    model = linear([1.0, -1.0, 2.0])
    state = method.keep(model, None, None)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def closure():
        optimizer.zero_grad()
        loss = Loss((model(x) - y).square().mean())
        total = loss.total + method.extra_loss({}, loss, model, state)
        total.backward()
        return total

    optimizer.step(closure)
    anchor = torch.tensor([1.0, -1.0, 2.0]).double()
    known = torch.linalg.solve(2 / 40 * x.T @ x + 3.0 * torch.eye(3), 2 / 40 * x.T @ y[:, 0] + 3.0 * anchor)
    torch.testing.assert_close(model.weight.detach()[0], known)


def test_frozen_weights_are_left_alone():
    model = torch.nn.ModuleDict({"free": torch.nn.Linear(2, 1), "frozen": torch.nn.Linear(2, 1).requires_grad_(False)})
    state = L2().keep(model, None, None)
    state.check(L2().kept_shapes(model), "it")
    assert set(state.tensors) == {"anchor/free.weight", "anchor/free.bias"}


@pytest.mark.parametrize("value", ["-1", "inf"])
def test_a_bad_strength_is_named(value):
    with pytest.raises(HoldfastError, match=r"--method\.strength must be at least 0 and finite"):
        build_method("l2", {"strength": value})


def test_strength_holds_the_weights_and_without_it_nothing_changes(toy):
    plain = train(toy, "plain", "--method=sequential")
    off = train(toy, "off", "--method=l2", "--method.strength=0")
    held = train(toy, "held", "--method=l2", "--method.strength=100")
    assert same(weights(plain), weights(off))
    start = weights(plain, "01-reach")
    assert same(start, weights(held, "01-reach"))
    assert distance(weights(held), start) < 0.6 * distance(weights(plain), start)
    anchor = kept(held, "01-reach")
    assert len(anchor) > 10
    assert all(torch.equal(value, start[name.removeprefix("anchor/")]) for name, value in anchor.items())

"""EWC against what can be computed by hand on a linear model, and as part of a run."""

import json
import shutil

import numpy as np
import pytest
import torch
from method_runs import distance, killed, train, weights
from safetensors.torch import load_file, save_file

from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.methods import build_method
from holdfast.methods.ewc import Ewc
from holdfast.methods.state import TENSORS, MethodState, read_state
from holdfast.policies.adapter import Loss


def linear(weights):
    model = torch.nn.Linear(len(weights), 1, bias=False).double()
    model.weight.data[0] = torch.as_tensor(weights)
    return model


def negative_log_likelihood(model, x, y, sigma):
    return ((y - model(x)[..., 0]) ** 2 / (2 * sigma**2)).mean()


def task(seed, weights, sigma, count=60, dimensions=3):
    """Data whose residuals at `weights` are exactly +-sigma: there the empirical Fisher is the true one."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(count, dimensions)) * [0.5, 1.0, 2.0])
    return x, x @ torch.tensor(weights).double() + sigma * torch.from_numpy(rng.choice([-1.0, 1.0], count))


def losses_of(model, x, y, sigma):
    return lambda count: (Loss(negative_log_likelihood(model, x[i : i + 1], y[i : i + 1], sigma)) for i in range(count))


def test_the_fisher_of_a_linear_model_is_the_known_diagonal():
    sigma, weights = 0.3, [1.0, -2.0, 0.5]
    x, y = task(0, weights, sigma)
    model = linear(weights)
    kept = Ewc(samples=len(x)).keep(model, losses_of(model, x, y, sigma), None)
    known = (x**2).mean(0) / sigma**2  # diagonal of X^T X / (n sigma^2)
    torch.testing.assert_close(kept.tensors["fisher/weight"][0], known)
    torch.testing.assert_close(kept.tensors["anchor/weight"][0], torch.tensor(weights, dtype=torch.double))


def test_importance_decays_from_stage_to_stage_and_the_anchor_moves():
    sigma, method = 0.5, Ewc(samples=60, decay=0.25)
    first, second = linear([1.0, 2.0, 3.0]), linear([-1.0, 0.0, 1.0])
    tasks = [task(1, [1.0, 2.0, 3.0], sigma), task(2, [-1.0, 0.0, 1.0], sigma)]
    one = method.keep(first, losses_of(first, *tasks[0], sigma), None)
    two = method.keep(second, losses_of(second, *tasks[1], sigma), one)
    fisher = [(x**2).mean(0) / sigma**2 for x, _ in tasks]
    torch.testing.assert_close(two.tensors["fisher/weight"][0], 0.25 * fisher[0] + fisher[1])
    torch.testing.assert_close(two.tensors["anchor/weight"], second.weight.detach())


def test_the_penalized_optimum_is_the_closed_form():
    sigma, method = 0.4, Ewc(strength=3.0, samples=60)
    before = linear([1.0, -1.0, 2.0])
    kept = method.keep(before, losses_of(before, *task(3, [1.0, -1.0, 2.0], sigma), sigma), None)
    x, y = task(4, [-2.0, 0.5, 1.0], sigma)
    model = linear([1.0, -1.0, 2.0])
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def closure():
        optimizer.zero_grad()
        loss = Loss(negative_log_likelihood(model, x, y, sigma))
        total = loss.total + method.extra_loss({}, loss, model, kept)
        total.backward()
        return total

    optimizer.step(closure)
    hessian = x.T @ x / (len(x) * sigma**2)
    held = 3.0 * torch.diag(kept.tensors["fisher/weight"][0])
    pulled = x.T @ y / (len(x) * sigma**2) + held @ kept.tensors["anchor/weight"][0]
    torch.testing.assert_close(model.weight.detach()[0], torch.linalg.solve(hessian + held, pulled))


def test_frozen_and_unused_weights_are_left_alone():
    model = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)})
    model["frozen"] = torch.nn.Linear(2, 1).requires_grad_(False)
    losses = lambda count: (Loss(model["used"](torch.ones(2)).square().sum()) for _ in range(count))  # noqa: E731
    kept = Ewc(samples=2).keep(model, losses, None)
    kept.check(Ewc().kept_shapes(model), "it")
    assert {name.split("/")[1].split(".")[0] for name in kept.tensors} == {"used", "unused"}
    assert not kept.tensors["fisher/unused.weight"].any()
    assert kept.tensors["fisher/used.weight"].all()


@pytest.mark.parametrize(("option", "value"), [("strength", -1), ("decay", 1.1), ("decay", -0.1), ("samples", 0)])
def test_a_bad_option_is_named(option, value):
    with pytest.raises(HoldfastError, match=f"--method.{option} must be .*got {value}"):
        build_method("ewc", {option: str(value)})


SHAPES = {"a": (2,), "b": (3, 1)}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"a": (2,)}, "lacks 1 tensors: b"),
        ({"a": (2,), "b": (3, 1), "c": (1,)}, "has unexpected 1 tensors: c"),
        ({"a": (2,), "b": (3,)}, r"has wrong shapes of 1 tensors: b \(3,\) instead of \(3, 1\)"),
    ],
)
def test_what_was_kept_is_read_strictly(tmp_path, tensors, message):
    MethodState({name: torch.zeros(shape) for name, shape in tensors.items()}, {"n": 1}).write(tmp_path)
    with pytest.raises(HoldfastError, match=message):
        read_state(tmp_path, SHAPES, "cpu")


@pytest.mark.parametrize("kind", [torch.int8, torch.bool, torch.float8_e5m2, torch.complex64])
def test_kept_numbers_are_those_that_weights_have(tmp_path, kind):
    MethodState({"a": torch.zeros(2), "b": torch.zeros(3, 1).to(kind)}).write(tmp_path)
    name = str(kind).removeprefix("torch.")
    with pytest.raises(HoldfastError, match=f"{TENSORS} has b of type {name}; it must be one of float32"):
        read_state(tmp_path, SHAPES, "cpu")


def test_what_was_kept_is_read_back(tmp_path):
    assert read_state(tmp_path, {}, "cpu") is None
    with pytest.raises(HoldfastError, match="lacks what the method kept"):
        read_state(tmp_path, SHAPES, "cpu")
    kept = MethodState({"a": torch.rand(2), "b": torch.rand(3, 1)}, {"n": [1, "two"]})
    kept.write(tmp_path)
    found = read_state(tmp_path, SHAPES, "cpu")
    assert found.values == kept.values
    assert all(torch.equal(found.tensors[name], value) for name, value in kept.tensors.items())


EWC = ("--method=ewc", "--method.samples=5")


def test_strength_holds_the_weights_and_without_it_nothing_changes(toy):
    plain = train(toy, "plain", "--method=sequential", "--steps=20")
    off = train(toy, "off", *EWC, "--method.strength=0", "--steps=20")
    held = train(toy, "held", *EWC, "--method.strength=1e6", "--steps=20")
    assert all(torch.equal(value, weights(off)[name]) for name, value in weights(plain).items())
    start = weights(plain, "01-reach")
    assert all(torch.equal(value, weights(held, "01-reach")[name]) for name, value in start.items())
    assert distance(weights(held), start) < 0.6 * distance(weights(plain), start)
    lines = [json.loads(line) for line in (held / "stages" / "02-lift" / "metrics.jsonl").read_text().splitlines()]
    assert all(0 < line["extra_loss"] < line["loss"] for line in lines)
    first = (held / "stages" / "01-reach" / "metrics.jsonl").read_text()
    assert "extra_loss" not in first


def test_the_anchor_is_what_was_saved_and_a_lost_tensor_stops_the_next_stage(toy, capsys):
    run = train(toy, "run", *EWC)
    folder = run / "stages" / "01-reach" / "checkpoint"
    kept, saved = load_file(folder / TENSORS), weights(run, "01-reach")
    trained = [name for name in saved if f"anchor/{name}" in kept]
    assert len(trained) > 10
    assert all(torch.equal(kept[f"anchor/{name}"], saved[name]) for name in trained)
    assert {TENSORS, "method.json"} <= set(json.loads((folder / checked_folder.MANIFEST).read_text()))

    shutil.rmtree(run / "stages" / "02-lift")
    name = f"fisher/{trained[0]}"
    save_file({key: value for key, value in kept.items() if key != name}, folder / TENSORS)
    manifest = json.loads((folder / checked_folder.MANIFEST).read_text())
    manifest[TENSORS] = checked_folder.file_hash(folder / TENSORS)
    (folder / checked_folder.MANIFEST).write_text(json.dumps(manifest))
    train(toy, "run", *EWC, code=2)
    assert f"lacks 1 tensors: {name}" in " ".join(capsys.readouterr().err.split())


def test_another_option_is_another_run(toy, capsys):
    train(toy, "run", *EWC)
    train(toy, "run", *EWC, "--method.strength=7", code=2)
    assert "method_options.strength was 10000.0, now 7.0" in capsys.readouterr().err
    train(toy, "run", *EWC, "--method.strength=1e4")


def test_killed_around_what_it_keeps_it_ends_with_the_same_weights_and_the_same_fisher(toy):
    ewc, state, files = "holdfast.methods.ewc", "holdfast.methods.state", "holdfast.core.checked_folder"
    kills = [(ewc, "Ewc.keep", 1), (state, "MethodState.write", 1), (files, "_sync", 2)]  # in the first stage,
    kills += [(ewc, "Ewc.keep", 2), (state, "MethodState.write", 1), (ewc, "Ewc.extra_loss", 2)]  # and in the second
    for number, kill in enumerate(kills):
        killed(toy, "killed", *EWC, kill=kill)
        if number == 4:  # back into the steps of the second stage
            shutil.rmtree(sorted((toy / "killed" / "stages" / "02-lift" / "progress").glob("step-*"))[-1])
    train(toy, "killed", *EWC)
    train(toy, "whole", *EWC)
    for stage in ("01-reach", "02-lift"):
        for file in (TENSORS, "policy/model.safetensors"):
            found, wanted = (toy / run / "stages" / stage / "checkpoint" / file for run in ("killed", "whole"))
            assert checked_folder.file_hash(found) == checked_folder.file_hash(wanted)

import math
import os
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from holdfast.train.config import OptimConfig
from holdfast.train.optim import Average, _groups, build_optimizer, set_learning_rate, warmup_steps
from holdfast.train.state import TrainingState


def parameter(*shape, trained=True):
    return torch.nn.Parameter(torch.zeros(shape or (2,)), requires_grad=trained)


def policy(parameters, preset=1e-4):
    return SimpleNamespace(
        get_optim_params=lambda: parameters,
        parameters=lambda: iter([parameter()]),
        config=SimpleNamespace(get_optimizer_preset=lambda: SimpleNamespace(lr=preset)),
    )


def curve(config, steps, preset=1e-4):
    optimizer = build_optimizer(policy([parameter()], preset), config)
    return [set_learning_rate(optimizer, config, step, steps) for step in range(steps)]


@pytest.mark.parametrize(
    ("asked", "steps", "wanted"), [(200, 4000, 200), (200, 5000, 200), (200, 1000, 100), (200, 9, 0), (0, 4000, 0)]
)
def test_warmup_is_as_asked_but_at_most_a_tenth(asked, steps, wanted):
    assert warmup_steps(OptimConfig(warmup=asked), steps) == wanted


def test_warmup_rises_linearly_to_the_peak():
    rates = curve(OptimConfig(lr=5e-5, warmup=10), 200)
    assert rates[:10] == pytest.approx([5e-5 * (i + 1) / 10 for i in range(10)])
    assert rates[9] == rates[10] == max(rates) == 5e-5


@pytest.mark.parametrize("steps", [2, 10, 137, 5000])
@pytest.mark.parametrize("final", [0.0, 0.1, 1.0])
def test_the_cosine_reaches_the_final_rate_exactly_at_the_stages_last_step(steps, final):
    rates = curve(OptimConfig(lr=5e-5, final=final), steps)
    assert rates[-1] == 5e-5 * final
    after = rates[warmup_steps(OptimConfig(), steps) :]
    assert after[0] == 5e-5
    assert all(a >= b for a, b in pairwise(after))


def test_the_middle_of_the_cosine_is_the_mean_of_peak_and_final():
    rates = curve(OptimConfig(lr=1.0, final=0.2, warmup=0), 101)
    assert rates[50] == pytest.approx(0.6)
    assert rates[25] == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)


def test_a_stage_of_one_step_takes_it_at_the_peak():
    assert curve(OptimConfig(lr=1e-3), 1) == [1e-3]


def test_the_rate_depends_on_the_step_alone():
    config = OptimConfig(lr=1e-3)
    optimizer = build_optimizer(policy([parameter()]), config)
    forwards = [set_learning_rate(optimizer, config, step, 50) for step in range(50)]
    backwards = [set_learning_rate(optimizer, config, step, 50) for step in reversed(range(50))]
    assert forwards == backwards[::-1]


def test_without_a_rate_the_policys_preset_is_the_peak():
    assert max(curve(OptimConfig(), 100, preset=2.5e-5)) == 2.5e-5


@pytest.mark.parametrize(
    ("lr", "main", "backbone"),
    [
        (None, 1e-4, 1e-5),
        (1e-4, 1e-4, 1e-5),
        (1e-3, 1e-3, 1e-4),
        (1e-5, 1e-5, 1e-6),  # the peak asked for happens to be the backbone's own rate
    ],
)
def test_a_group_with_its_own_rate_keeps_its_proportion(lr, main, backbone):
    groups = [{"params": [parameter()]}, {"params": [parameter()], "lr": 1e-5}]
    config = OptimConfig(lr=lr, final=0.1)
    optimizer = build_optimizer(policy(groups), config)
    set_learning_rate(optimizer, config, 10, 100)  # the last step of warmup
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([main, backbone])
    assert set_learning_rate(optimizer, config, 99, 100) == pytest.approx(main * 0.1)
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([main * 0.1, backbone * 0.1])


def test_the_optimizer_has_the_settings_asked_for():
    config = OptimConfig(lr=1e-3, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.3)
    groups = [{"params": [parameter()]}, {"params": [parameter()], "weight_decay": 0.0}]
    one, two = build_optimizer(policy(groups), config).param_groups
    assert (one["betas"], one["eps"], one["weight_decay"]) == ((0.8, 0.9), 1e-6, 0.3)
    assert (two["betas"], two["eps"], two["weight_decay"]) == ((0.8, 0.9), 1e-6, 0.0)


def test_groups_from_every_form_a_policy_may_give():
    one, two, frozen = parameter(1), parameter(2), parameter(3, trained=False)
    for given in ([one, frozen, two], iter([one, frozen, two]), {"one": one, "frozen": frozen, "two": two}):
        (group,) = _groups(given)
        assert [id(p) for p in group["params"]] == [id(one), id(two)]
    listed = [{"params": [one, frozen]}, {"params": iter([two]), "lr": 1e-5}]
    first, second = _groups(listed)
    assert [id(p) for p in first["params"]] == [id(one)]
    assert [id(p) for p in second["params"]] == [id(two)]
    assert (second["lr"], "lr" in first) == (1e-5, False)
    named = _groups({"a": {"params": [one]}, "b": {"params": [two], "lr": 1e-6}})
    assert [g.get("lr") for g in named] == [None, 1e-6]


def test_the_average_follows_by_its_decay():
    live = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    average = Average({"w": live}, decay=0.9)
    with torch.no_grad():
        live.copy_(torch.tensor([3.0, 0.0]))
    average.update(step=10_000)
    torch.testing.assert_close(average.values["w"], torch.tensor([0.9 + 0.3, -1.8]))


@pytest.mark.parametrize("step", [0, 1, 8, 90, 4489, 4490, 100_000])
def test_the_average_forgets_its_start_faster_early_on(step):
    live = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    average = Average({"w": live}, decay=0.998)
    with torch.no_grad():
        live.fill_(1.0)
    average.update(step)
    assert average.values["w"].item() == pytest.approx(1 - min(0.998, (1 + step) / (10 + step)), rel=1e-9)


@pytest.mark.parametrize("step", [0, 8, 100_000])
def test_without_warmup_the_average_has_one_decay(step):
    assert Average({}, decay=0.998, warmup=False).pace(step) == pytest.approx(0.002)


def test_a_training_state_takes_its_warmup_from_the_settings():
    learner = torch.nn.Linear(2, 2)
    learner.get_optim_params = lambda: list(learner.parameters())
    learner.config = SimpleNamespace(get_optimizer_preset=lambda: SimpleNamespace(lr=1e-4))
    for warmup, pace in ((True, 0.9), (False, 0.002)):
        assert TrainingState(learner, OptimConfig(ema_warmup=warmup)).average.pace(0) == pytest.approx(pace)


def test_the_average_over_many_steps_is_the_recursion():
    torch.manual_seed(0)
    live = {name: torch.nn.Parameter(torch.zeros(3)) for name in "ab"}
    average, wanted = Average(live, decay=0.6), {name: torch.zeros(3) for name in "ab"}
    for step in range(25):
        decay = min(0.6, (1 + step) / (10 + step))
        for name, p in live.items():
            p.data = torch.randn(3)
            wanted[name] = decay * wanted[name] + (1 - decay) * p.data
        average.update(step)
    for name in "ab":
        torch.testing.assert_close(average.values[name], wanted[name])


def test_the_average_is_its_own_copy_until_it_is_written_to_the_model():
    live = torch.nn.Parameter(torch.ones(2))
    average = Average({"w": live}, decay=0.5)
    with torch.no_grad():
        live.fill_(5.0)
    assert average.values["w"].tolist() == [1, 1]
    assert not average.values["w"].requires_grad
    average.write_to_model()
    assert live.tolist() == [1, 1]
    assert live.requires_grad
    with torch.no_grad():
        live.fill_(7.0)
    assert average.values["w"].tolist() == [1, 1]


ONE_PASS = """
import torch
from holdfast.train import fused
torch.manual_seed(0)
shapes = [(300, 7), (5,), (64, 33)]
one = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
two = [torch.nn.Parameter(p.detach().clone()) for p in one]
settings = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
stock, ours = torch.optim.AdamW(one, **settings), torch.optim.AdamW(two, **settings)
slow, averages = [p.detach().clone() for p in one], {p: p.detach().clone() for p in two}
for step in range(5):
    for a, b in zip(one, two):
        a.grad = torch.randn_like(a) * (3 if step % 2 else 0.001)  # clipped and not
        b.grad = a.grad.clone()
    if step == 2:
        one[1].grad = two[1].grad = None
    norm = torch.nn.utils.clip_grad_norm_(one, 1.0)
    stock.step()
    torch._foreach_lerp_(slow, [p.detach() for p in one], 0.1)
    torch.testing.assert_close(fused.update(ours, averages, 0.1, 1.0), norm)
    for a, b, average in zip(one, two, slow):
        torch.testing.assert_close(b, a)
        torch.testing.assert_close(averages[b], average)
assert [int(ours.state[p]["step"]) for p in two] == [5, 4, 5]
"""


def test_one_pass_updates_as_clipping_adamw_and_average_do_one_after_the_other():
    """Triton's kernel run by its interpreter, which has to be asked for before Triton is imported."""
    done = subprocess.run([sys.executable, "-c", ONE_PASS], env={**os.environ, "TRITON_INTERPRET": "1"}, check=False)
    assert done.returncode == 0

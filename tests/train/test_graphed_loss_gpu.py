"""On a GPU, nano runs as CUDA graphs: training and answers are to the bit those of kernels launched one by one."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from holdfast.data.lerobot.source import IMAGES
from holdfast.embodiments import EMBODIMENTS
from holdfast.methods.ewc import Ewc
from holdfast.methods.state import MethodState
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Space
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter
from holdfast.policies.config import AugmentConfig
from holdfast.policies.fresh_nano import fresh_nano
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.state import TrainingState
from holdfast.train.step import Stepper

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
NAMES, CAMERAS, ROWS = EMBODIMENTS["piper_x_pair"].names, ("head", "front"), 16


@pytest.fixture
def adapter():
    return fresh_nano(NAMES, CAMERAS, 32, "cuda", 0)


def batch_of(seed):
    draw = torch.Generator().manual_seed(seed)
    chunk = 16
    batch = {IMAGES + c: torch.randint(0, 256, (ROWS, 3, 32, 32), dtype=torch.uint8, generator=draw) for c in CAMERAS}
    batch["observation.state"] = torch.rand(ROWS, len(NAMES), generator=draw) * 2 - 1
    batch["action"] = torch.randn(ROWS, chunk, len(NAMES), generator=draw)
    batch["action_is_pad"] = torch.arange(chunk)[None] >= torch.randint(4, chunk, (ROWS, 1), generator=draw)
    batch["task_index"] = torch.randint(0, 2, (ROWS,), generator=draw)
    return {**batch, "task": [f"Do the {'first' if seed % 2 else 'second'} thing."] * ROWS}


def steps(adapter: Adapter, count: int, mask: bool, extra=None) -> tuple[TrainingState, list[float]]:
    unit = Stats.from_range(-np.ones(len(NAMES)), np.ones(len(NAMES)))
    preprocess = transforms.build_training(adapter.config, [Space(unit, unit)] * 2)
    config = TrainConfig(stream="any", batch_size=ROWS, steps=10, optim=OptimConfig(lr=1e-3), augment=AugmentConfig())
    active = np.arange(28).reshape(2, 14) % 3 > 0 if mask else None
    step = Stepper(config, adapter, preprocess, active, 1, 10, "cuda", extra=extra)
    state = TrainingState(adapter.policy.train(), config.optim)
    losses = []
    for number in range(count):
        (loss,), norm = step(state, batch_of(number))
        losses += [float(loss.total), float(norm)]
    return state, losses


@pytest.mark.parametrize("mask", [True, False])
def test_graphed_steps_are_steps(adapter, mask, monkeypatch):
    plain = copy.deepcopy(adapter.policy)
    assert adapter.cuda_graphable
    played, found = steps(adapter, 6, mask)
    monkeypatch.setattr(Adapter, "cuda_graphable", False)
    stepped, expected = steps(Adapter(plain, NAMES), 6, mask)
    assert_close(found, expected, rtol=1e-5, atol=0)
    assert len(set(found)) == len(found)
    for name, weight in played.parameters.items():
        assert_close(weight, stepped.parameters[name], rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def test_a_methods_term_is_captured_too(adapter, monkeypatch):
    """What a method keeps is read where it lies; its term follows the weights from step to step."""
    method = Ewc(strength=1e3)
    draw = torch.Generator(device="cuda").manual_seed(1)
    kept = MethodState(
        {
            name: torch.rand(shape, generator=draw, device="cuda") * 1e-2
            for name, shape in method.kept_shapes(adapter.policy).items()
        }
    )
    extra = partial(method.extra_loss, kept=kept)
    plain, other = copy.deepcopy(adapter.policy), copy.deepcopy(adapter.policy)
    played, found = steps(adapter, 6, False, extra)
    monkeypatch.setattr(Adapter, "cuda_graphable", False)
    stepped, expected = steps(Adapter(plain, NAMES), 6, False, extra)
    assert_close(found, expected, rtol=1e-4, atol=0)
    without, _ = steps(Adapter(other, NAMES), 6, False)
    for name, weight in played.parameters.items():
        assert_close(weight, stepped.parameters[name], rtol=0, atol=1e-5)
    assert any(not torch.equal(w, without.parameters[name]) for name, w in played.parameters.items())


def test_capturing_draws_nothing(adapter):
    """A run that goes on in the middle records anew, and has to draw what it would have drawn."""
    again = Adapter(copy.deepcopy(adapter.policy), NAMES)
    _, found = steps(adapter, 2, mask=True)
    _, expected = steps(again, 2, mask=True)
    assert found == expected


def test_graphed_answers_are_answers_and_follow_new_weights(adapter):
    policy = adapter.policy.eval()
    seen = {key: value.cuda() for key, value in batch_of(0).items() if isinstance(value, torch.Tensor)}
    seen["observation.language.tokens"] = torch.randint(1, 99, (ROWS, policy.config.max_tokens)).cuda()
    seen["observation.language.attention_mask"] = torch.ones(ROWS, policy.config.max_tokens, dtype=torch.bool).cuda()
    noise = torch.randn(ROWS, *policy.noise_shape).cuda()
    answers = []
    for _ in range(2):
        expected = policy._act(*policy._observed(seen), noise)
        for _ in range(2):  # captured, then replayed
            answers.append(policy.predict_action_chunk(seen, noise=noise))
            assert torch.equal(answers[-1], expected)
        with torch.no_grad():
            policy.network.action_out.weight.mul_(1.5)
    assert not torch.equal(answers[0], answers[-1])
    policy.cpu().cuda()  # to another place in memory
    assert torch.equal(policy.predict_action_chunk(seen, noise=noise), policy._act(*policy._observed(seen), noise))

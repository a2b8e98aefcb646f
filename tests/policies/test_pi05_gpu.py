"""On a GPU: attention without a mask, compiled layers and CUDA graphs give what plain fp32 on a CPU gives."""

import copy

import pytest
import torch
from pi05_tiny import make_batch, our_policy

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def on_gpu(**changes):
    """The same policy on both, with heads that the GPU's attention takes."""
    policy = our_policy(**changes)
    other = copy.deepcopy(policy).cuda()
    other.config.device = "cuda"
    return policy, other


def moved(batch):
    return {key: value.cuda() for key, value in batch.items()}


@pytest.mark.parametrize("lengths", [(9, 14, 30), (40, 40, 40), (1, 40, 2)], ids=str)
@pytest.mark.parametrize("recompute", ["never", "always"])
def test_loss_and_gradients_are_those_of_a_cpu(lengths, recompute):
    cpu, gpu = on_gpu(recompute=recompute)
    batch, actions = make_batch(lengths), torch.randn(3, 6, 32)
    noise, time = torch.randn_like(actions), torch.tensor([0.1, 0.5, 0.9])
    cpu.train()
    gpu.train().model.compile_layers()
    expected = cpu.model(*cpu._observed(batch), actions, noise, time).square()
    with torch.autocast("cuda", torch.bfloat16):
        found = gpu.model(*gpu._observed(moved(batch)), actions.cuda(), noise.cuda(), time.cuda()).square()
    assert (found.cpu() - expected).norm() / expected.norm() < 2e-2
    expected.mean().backward()
    found.mean().backward()
    for (name, one), two in zip(cpu.named_parameters(), gpu.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), name
        if one.grad is not None and one.grad.norm() > 1e-4:
            assert (two.grad.cpu() - one.grad).norm() / one.grad.norm() < 0.1, name


def test_graphed_answers_are_those_of_a_cpu_and_follow_new_weights():
    cpu, gpu = on_gpu()
    batch, noise = make_batch(), torch.randn(3, *cpu.noise_shape)
    for _ in range(2):
        expected = cpu.predict_action_chunk(batch, noise=noise)
        for _ in range(2):  # captured, then replayed
            found = gpu.predict_action_chunk(moved(batch), noise=noise.cuda()).cpu()
            assert (found - expected).norm() / expected.norm() < 2e-2
        with torch.no_grad():
            for policy in (cpu, gpu):
                policy.train().model.action_out_proj.weight.mul_(1.5)
                policy.eval()


def test_one_pass_updates_as_three_do():
    from holdfast.train import fused
    from holdfast.train.config import OptimConfig
    from holdfast.train.state import TrainingState

    states = []
    for one_pass in (True, False):
        _, policy = on_gpu()
        state = TrainingState(policy.train(), OptimConfig(lr=1e-3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fused, "worthwhile", lambda _, one_pass=one_pass: one_pass)
            for step in range(3):
                torch.manual_seed(step)
                for parameter in state.parameters.values():
                    parameter.grad = torch.randn_like(parameter)
                state.advance(1.0)
        states.append(state)
    for name, parameter in states[0].parameters.items():
        torch.testing.assert_close(parameter, states[1].parameters[name])
        torch.testing.assert_close(states[0].average.values[name], states[1].average.values[name])

"""The memory of a rank: the formula agrees with what was measured and with the network it speaks of."""

from dataclasses import fields

import pytest
import torch
from pi05_tiny import our_config

from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.network import Pi05Network
from holdfast.policies.pi05.sizes import Sizes, lora_parameters, parameters
from holdfast.policies.task_lora import TaskLora
from holdfast.train.memory import GIB, Load, training_memory, usable


@pytest.mark.parametrize(
    ("rows", "parts", "measured"),
    [(79, 1, 78.2), (241, 1, 134.7), (128, 1, 95.3), (64, 2, 83.5), (32, 4, 72.3), (16, 8, 66.8)],
)
def test_it_agrees_with_what_was_measured_on_one_gpu(rows, parts, measured):
    assert training_memory(Load(rows * parts, micro_batches=parts)).gib == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("config", [Pi05FastConfig(device="cpu"), our_config()], ids=["published", "tiny"])
def test_it_counts_the_networks_parameters(config):
    with torch.device("meta"):
        network = Pi05Network(config)
    count = parameters(Sizes.of(config))
    learning = sum(p.numel() for p in network.parameters() if p.requires_grad)
    assert count.learning == learning
    assert count.total == sum(p.numel() for p in network.parameters())
    assert count.expert == sum(
        p.numel() for name, p in network.named_parameters() if "paligemma." not in name and p.requires_grad
    )
    assert count.language == sum(p.numel() for p in network.language.layers.parameters() if p.requires_grad)


def test_the_sizes_are_those_of_the_policys_config():
    config = Pi05FastConfig(device="cpu")
    assert Sizes() == Sizes.of(config)
    assert {field.name for field in fields(Sizes)} <= {n for n in dir(config) if not n.startswith("_")}


def test_what_a_weight_takes():
    count, memory = parameters(Sizes()), training_memory(Load(128, ranks=8, micro_batches=8))
    assert (memory.optimizer, memory.average, memory.gradients) == tuple(n * count.learning for n in (8, 4, 4))
    assert memory.weights == 4 * count.total
    assert training_memory(Load(128, average=False)).average == 0


def test_a_second_micro_batch_meets_the_gradients_of_the_first():
    whole, two, four = (training_memory(Load(128, micro_batches=n)) for n in (1, 2, 4))
    assert whole.gib == pytest.approx(95.6, abs=0.1)
    assert two.activations == pytest.approx(whole.activations / 2)
    assert two.gradients == 4 * parameters(Sizes()).learning > whole.gradients
    assert usable(80) < two.gib < whole.gib
    assert four.gib < usable(80)


def test_shards_divide_all_but_activations():
    replicated, sharded = (training_memory(Load(128, 8, 8, parallel)) for parallel in ("ddp", "fsdp"))
    assert sharded.activations == replicated.activations
    for kind in ("weights", "optimizer", "average", "gradients"):
        assert getattr(sharded, kind) == pytest.approx(getattr(replicated, kind) / 8)
    assert replicated.gathered == 0 < sharded.gathered < 8 * GIB
    assert training_memory(Load(128, 1, 1, "fsdp")) == training_memory(Load(128))  # one rank has nothing to share


def test_it_counts_the_numbers_of_a_lora():
    config = our_config(task_loras=[TaskLora("stack it", 3, {}), TaskLora("press it", 3, {})])
    with torch.device("meta"):
        network = Pi05Network(config)
    added = [p.numel() for name, p in network.named_parameters() if ".down." in name or ".up." in name]
    assert sum(added) == 2 * lora_parameters(Sizes.of(config), 3)


@pytest.mark.parametrize(("gib", "rows"), [(24, 33), (48, 81)])
def test_the_largest_batches_with_loras_are_those_that_ran(gib, rows):
    """Measured with PEFT's layers and one task."""
    assert training_memory(Load(rows, lora_rank=16)).gib == pytest.approx(gib, rel=0.02)


def test_ten_tasks_with_a_lora_each_learn_within_24_gib():
    memory = training_memory(Load(28, lora_rank=16, lora_tasks=10))
    assert memory.gib < usable(24)
    assert memory.weights - training_memory(Load(28, lora_rank=16)).weights == 9 * 4 * lora_parameters(Sizes(), 16)

"""Adapters of low rank for GPUs that cannot hold the gradients of all weights."""

from __future__ import annotations

import torch
from torch import nn

from holdfast.core.errors import HoldfastError
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig

# Matrices of all layers: vision tower, language model and action expert.
TARGETS = r".*layers\.\d+\.(self_attn\.(q|k|v|o|out)_proj|mlp\.(gate_proj|up_proj|down_proj|fc1|fc2))"


def task_targets(config: Pi05FastConfig) -> str:
    """The layers that get a LoRA per task: the same, and the projections of actions and time.

    Of Gemma's last layer only keys and values are used.
    """
    unused = rf".*language_model\.layers\.{config.depth - 1}\.(self_attn\.[qo]_proj|mlp\..*)"
    return rf"(?!{unused})({TARGETS}|(action|time)_.*)"


def freeze(network: nn.Module, precision: torch.dtype) -> None:
    """Put the matrices beside LoRAs into another precision; the projections of actions and time stay as they are."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d) and not name.startswith(("action_", "time_")):
            for weight in (module.weight, getattr(module, "bias", None)):
                if weight is not None:
                    weight.data = weight.data.to(precision)


def add_adapters(network: nn.Module, rank: int, frozen: torch.dtype) -> None:
    """Freeze a network in the given precision and put fp32 adapters beside its layers' matrices.

    The small projections of actions and time, outside the layers, are still trained in full.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise HoldfastError(
            "--policy.lora_rank needs the package peft. Install it with: pip install 'holdfast[pi]'"
        ) from None
    small = [p for name, p in network.named_parameters() if name.startswith(("action_", "time_"))]
    network.requires_grad_(False)
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=rank, target_modules=TARGETS), network)
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d) and not name.startswith(("action_", "time_")):
            module.to(torch.float32 if ".lora_" in name else frozen)
    for parameter in small:
        parameter.requires_grad_(True)
    layers = network.get_submodule("paligemma_with_expert.paligemma.model.language_model.layers")
    assert isinstance(layers, nn.ModuleList)
    last = layers[-1]  # computes keys and values only
    for name, parameter in last.named_parameters():
        if "lora_" in name and not any(used in name for used in ("k_proj", "v_proj")):
            parameter.requires_grad_(False)

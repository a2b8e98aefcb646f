"""A nano with random weights for a robot without a dataset."""

from collections.abc import Sequence
from typing import Any

import torch
from lerobot.configs import FeatureType, PolicyFeature

from holdfast.data.lerobot.source import ACTION, IMAGES, STATE
from holdfast.policies.adapter import Adapter
from holdfast.policies.nano.configuration_nano import NanoConfig
from holdfast.policies.nano.modeling_nano import NanoPolicy


def fresh_nano(
    names: Sequence[str], cameras: Sequence[str], size: int, device: str, seed: int, **options: Any
) -> Adapter:
    """Build it from what a dataset would provide: names of dimensions and cameras, and the side of the images."""
    image = PolicyFeature(FeatureType.VISUAL, (3, size, size))
    torch.manual_seed(seed)
    config = NanoConfig(
        image_size=size,
        input_features={
            **{IMAGES + camera: image for camera in cameras},
            STATE: PolicyFeature(FeatureType.STATE, (len(names),)),
        },
        output_features={ACTION: PolicyFeature(FeatureType.ACTION, (len(names),))},
        action_feature_names=list(names),
        device=device,
        push_to_hub=False,
        **options,
    )
    return Adapter(NanoPolicy(config).to(device), tuple(names))

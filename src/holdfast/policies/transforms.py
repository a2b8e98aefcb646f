"""One list of transforms from raw sample to policy input, used in training, in the saved folder and in serving.

The list is the policy's own LeRobot pipeline (rename, relative actions, normalize, tokenize, device). Training needs
one thing more: under strategy I a replayed sample is normalized with its own task's statistics. So training puts
`TaskNormalizer` in front of LeRobot's normalizer, which then leaves state and action unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lerobot.lerobot_types import EnvTransition, TransitionKey
from lerobot.policies.factory import make_pre_post_processors
from lerobot.processor import NormalizerProcessorStep, ProcessorStep

from holdfast.norm.stats import Stats
from holdfast.norm.strategies import ACTION, STATE, Space

# Fixed constants, not measured: images never leak the statistics of a later task.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def build(config: Any, space: Space) -> tuple[Any, Any]:
    """LeRobot's pre- and post-processing of a policy in one normalization space."""
    stats = {STATE: _lerobot(space.state), ACTION: _lerobot(space.action)}
    for key in config.image_features:
        stats[key] = _image_stats()
    return make_pre_post_processors(config, dataset_stats=stats)


def build_training(config: Any, spaces: Sequence[Space]) -> Any:
    """The same pre-processing for training, where row r of a batch belongs to `spaces[task_index[r]]`."""
    pre, _ = build(config, Space(_unit(spaces[0].state), _unit(spaces[0].action)))
    position = next(i for i, step in enumerate(pre.steps) if isinstance(step, NormalizerProcessorStep))
    pre.steps = [*pre.steps[:position], TaskNormalizer(spaces), *pre.steps[position:]]
    return pre


@dataclass
class TaskNormalizer(ProcessorStep):
    """Normalizes every sample of a batch in the space of its own task."""

    spaces: Sequence[Space]
    _tables: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict, init=False)

    def __call__(self, transition: EnvTransition) -> EnvTransition:
        """Map q01..q99 of the sample's own task to [-1, 1]."""
        rows = transition[TransitionKey.COMPLEMENTARY_DATA]["task_index"]
        observation = dict(transition[TransitionKey.OBSERVATION])
        observation[STATE] = self._normalize(STATE, observation[STATE], rows)
        out = transition.copy()
        out[TransitionKey.OBSERVATION] = observation
        out[TransitionKey.ACTION] = self._normalize(ACTION, transition[TransitionKey.ACTION], rows)
        return out

    def _normalize(self, feature: str, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if feature not in self._tables:
            every = [space.of(feature) for space in self.spaces]
            low = torch.tensor([s.q01 for s in every], dtype=values.dtype, device=values.device)
            width = torch.tensor([s.q99 for s in every], dtype=values.dtype, device=values.device) - low
            self._tables[feature] = low, torch.where(width == 0, 1e-8, width)
        low, width = (table[rows.to(values.device)] for table in self._tables[feature])
        if values.ndim == 3:
            low, width = low[:, None], width[:, None]
        return 2.0 * (values - low) / width - 1.0

    def transform_features(self, features: Any) -> Any:
        """Shapes stay as they are."""
        return features


def _unit(like: Stats) -> Stats:
    """Statistics under which a normalizer changes nothing."""
    ones = np.ones(len(like.q01))
    return Stats.from_range(-ones, ones)


def _lerobot(stats: Stats) -> dict[str, torch.Tensor]:
    return {
        name: torch.tensor(getattr(stats, name), dtype=torch.float32)
        for name in ("q01", "q99", "mean", "std", "min", "max")
    }


def _image_stats() -> dict[str, torch.Tensor]:
    plain = {"min": 0.0, "max": 1.0, "q01": 0.0, "q99": 1.0}
    stats = {name: torch.full((3, 1, 1), value) for name, value in plain.items()}
    stats["mean"] = torch.tensor(IMAGENET_MEAN).view(3, 1, 1)
    stats["std"] = torch.tensor(IMAGENET_STD).view(3, 1, 1)
    return stats

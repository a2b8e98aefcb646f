"""What the pipelines and losses of our own policies share; each policy adds only its tokenizer."""

from __future__ import annotations

import re
from typing import Any

import torch
from lerobot.configs import FeatureType, PipelineFeatureType, PolicyFeature
from lerobot.lerobot_types import EnvTransition, TransitionKey
from lerobot.processor import (
    AbsoluteActionsProcessorStep,
    PolicyAction,
    PolicyProcessorPipeline,
    ProcessorStep,
    RelativeActionsProcessorStep,
    make_default_policy_processor_steps,
    make_policy_processor_pipelines,
)
from lerobot.utils.constants import OBS_LANGUAGE_ATTENTION_MASK, OBS_LANGUAGE_TOKENS
from torch import Tensor

from holdfast.core.errors import HoldfastError
from holdfast.policies.relative import PairedRelativeActionsStep

type Pipelines = tuple[
    PolicyProcessorPipeline[dict[str, Any], dict[str, Any]],
    PolicyProcessorPipeline[PolicyAction, PolicyAction],
]
type Features = dict[PipelineFeatureType, dict[str, PolicyFeature]]


def build_pipelines(
    config: Any, dataset_stats: dict[str, dict[str, Tensor]] | None, *words: ProcessorStep
) -> Pipelines:
    """Build the pipelines before and after a policy.

    Args:
        config: The policy's configuration, features included.
        dataset_stats: Per feature `q01` and `q99`; those of `action` are of the relative actions when
            `config.use_relative_actions` holds.
        *words: The policy's steps that read instructions.

    Returns:
        Pre-processor (batch to batch) and post-processor (action to action).
    """
    steps = make_default_policy_processor_steps(config, dataset_stats)
    rule = (config.use_relative_actions, config.relative_exclude_joints, config.action_feature_names)
    relative = (
        RelativeActionsProcessorStep(*rule)
        if config.relative_to is None
        else PairedRelativeActionsStep(*rule, places=tuple(config.relative_to))
    )
    absolute = AbsoluteActionsProcessorStep(enabled=config.use_relative_actions, relative_step=relative)
    # Differences are taken in the robot's units, so they come before normalization here and after it on the way back.
    return make_policy_processor_pipelines(
        input_steps=[
            steps.rename_observations,
            steps.add_batch_dim,
            relative,
            steps.normalize,
            *words,
            steps.to_device,
        ],
        output_steps=[steps.unnormalize, absolute, steps.to_cpu],
    )


def instructions(transition: EnvTransition, rows: int, policy: str) -> list[str]:
    """The instruction of every row of a batch; a single one applies to all rows."""
    task = (transition.get(TransitionKey.COMPLEMENTARY_DATA) or {}).get("task")
    tasks = [task] if isinstance(task, str) else list(task or [])
    if not tasks or not all(isinstance(text, str) and re.search(r"\w", text) for text in set(tasks)):
        raise HoldfastError(f"{policy} needs the instruction of every sample under 'task', got {task!r}.")
    if len(tasks) == 1:
        return tasks * rows
    if len(tasks) != rows:
        raise HoldfastError(f"Got {len(tasks)} instructions under 'task' for a batch of {rows}.")
    return tasks


def with_language(features: Features, length: int) -> Features:
    """Features together with the tokens of an instruction and their mask."""
    added = PolicyFeature(type=FeatureType.LANGUAGE, shape=(length,))
    observation = features.get(PipelineFeatureType.OBSERVATION, {})
    language = {OBS_LANGUAGE_TOKENS: added, OBS_LANGUAGE_ATTENTION_MASK: added}
    return {**features, PipelineFeatureType.OBSERVATION: {**observation, **language}}


def mean_of_real(elements: Tensor, padded: Tensor | None) -> Tensor:
    """Mean of a loss [B, chunk, dimensions] without the steps beyond an episode's end [B, chunk]."""
    if padded is None:
        return elements.mean()
    real = ~padded.unsqueeze(-1).expand_as(elements)
    return torch.where(real, elements, 0.0).sum() / real.sum().clamp_min(1)

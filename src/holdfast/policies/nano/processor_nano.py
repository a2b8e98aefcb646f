"""From a dataset's batch, or a robot's observation, to what the network reads, and back to commands."""

import re
import zlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch
from lerobot.configs import FeatureType, PipelineFeatureType, PolicyFeature
from lerobot.lerobot_types import TransitionKey
from lerobot.processor import (
    AbsoluteActionsProcessorStep,
    ObservationProcessorStep,
    PolicyAction,
    PolicyProcessorPipeline,
    ProcessorStepRegistry,
    RelativeActionsProcessorStep,
    make_default_policy_processor_steps,
    make_policy_processor_pipelines,
)
from lerobot.utils.constants import OBS_LANGUAGE_ATTENTION_MASK, OBS_LANGUAGE_TOKENS, OBS_STATE
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.policies.nano.configuration_nano import NanoConfig


@lru_cache(maxsize=4096)
def hash_words(text: str, vocabulary: int, max_tokens: int) -> tuple[int, ...]:
    """Turn an instruction into word buckets, the same on every machine and in every run.

    Hashing needs no vocabulary file and no knowledge of later tasks' words. Words beyond `max_tokens` share the last
    token, so instructions that differ only there still differ.

    Args:
        text: The instruction; case and punctuation do not matter.
        vocabulary: Number of buckets, bucket 0 (padding) included.
        max_tokens: Length of the result.

    Returns:
        `max_tokens` buckets, padded with 0 at the end.
    """
    words = re.findall(r"\w+", text.lower())
    words = [*words[: max_tokens - 1], " ".join(words[max_tokens - 1 :])]
    buckets = [1 + zlib.crc32(word.encode()) % (vocabulary - 1) for word in words if word]
    return tuple(buckets + [0] * (max_tokens - len(buckets)))


@ProcessorStepRegistry.register("nano_tokenizer")
@dataclass
class NanoTokenizerProcessorStep(ObservationProcessorStep):
    """Writes the instruction of every sample as word buckets and a mask of the real words."""

    vocabulary: int = 2048
    max_tokens: int = 24

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Add the tokens [B, max_tokens] (int64) and their mask (bool, true for words) to the observation."""
        tasks = self._tasks(batch_size=observation[OBS_STATE].shape[0])
        places = {task: place for place, task in enumerate(dict.fromkeys(tasks))}
        table = torch.tensor([hash_words(task, self.vocabulary, self.max_tokens) for task in places])
        tokens = table[[places[task] for task in tasks]]
        return {**observation, OBS_LANGUAGE_TOKENS: tokens, OBS_LANGUAGE_ATTENTION_MASK: tokens != 0}

    def _tasks(self, batch_size: int) -> list[str]:
        task = (self.transition.get(TransitionKey.COMPLEMENTARY_DATA) or {}).get("task")
        tasks = [task] if isinstance(task, str) else list(task or [])
        if not tasks or not all(isinstance(text, str) and re.search(r"\w", text) for text in set(tasks)):
            raise HoldfastError(f"nano needs the instruction of every sample under 'task', got {task!r}.")
        if len(tasks) == 1:
            return tasks * batch_size
        if len(tasks) != batch_size:
            raise HoldfastError(f"Got {len(tasks)} instructions under 'task' for a batch of {batch_size}.")
        return tasks

    def get_config(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this step."""
        return asdict(self)

    def transform_features(
        self, features: dict[PipelineFeatureType, dict[str, PolicyFeature]]
    ) -> dict[PipelineFeatureType, dict[str, PolicyFeature]]:
        """Declare the two features this step adds."""
        added = PolicyFeature(type=FeatureType.LANGUAGE, shape=(self.max_tokens,))
        observation = features.get(PipelineFeatureType.OBSERVATION, {})
        language = {OBS_LANGUAGE_TOKENS: added, OBS_LANGUAGE_ATTENTION_MASK: added}
        return {**features, PipelineFeatureType.OBSERVATION: {**observation, **language}}


def make_nano_pre_post_processors(
    config: NanoConfig, dataset_stats: dict[str, dict[str, Tensor]] | None = None
) -> tuple[
    PolicyProcessorPipeline[dict[str, Any], dict[str, Any]],
    PolicyProcessorPipeline[PolicyAction, PolicyAction],
]:
    """Build the pipelines before and after the policy.

    Args:
        config: The policy's configuration, features included.
        dataset_stats: Per feature `q01` and `q99`; those of `action` are of the relative actions when
            `config.use_relative_actions` holds.

    Returns:
        Pre-processor (batch to batch) and post-processor (action to action).
    """
    steps = make_default_policy_processor_steps(config, dataset_stats)
    relative = RelativeActionsProcessorStep(
        enabled=config.use_relative_actions,
        exclude_joints=config.relative_exclude_joints,
        action_names=config.action_feature_names,
    )
    # Differences are taken in the robot's units, so they come before normalization here and after it on the way back.
    return make_policy_processor_pipelines(
        input_steps=[
            steps.rename_observations,
            steps.add_batch_dim,
            relative,
            steps.normalize,
            NanoTokenizerProcessorStep(vocabulary=config.vocabulary, max_tokens=config.max_tokens),
            steps.to_device,
        ],
        output_steps=[
            steps.unnormalize,
            AbsoluteActionsProcessorStep(enabled=config.use_relative_actions, relative_step=relative),
            steps.to_cpu,
        ],
    )

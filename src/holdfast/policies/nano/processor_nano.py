"""Processors of `nano`: from a batch or an observation to what it reads, and from its outputs to actions."""

import re
import zlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch
from lerobot.processor import ObservationProcessorStep, ProcessorStepRegistry
from lerobot.utils.constants import OBS_LANGUAGE_ATTENTION_MASK, OBS_LANGUAGE_TOKENS, OBS_STATE
from torch import Tensor

from holdfast.policies.bounds import check_size
from holdfast.policies.nano.configuration_nano import SIZES, NanoConfig
from holdfast.policies.pipelines import Features, Pipelines, build_pipelines, instructions, with_language
from holdfast.policies.task_router import router


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
    """Turns the instruction of every sample into word buckets and a mask of the real words."""

    vocabulary: int = 2048
    max_tokens: int = 24

    def __post_init__(self) -> None:
        check_size("nano", SIZES, "vocabulary", self.vocabulary)
        check_size("nano", SIZES, "max_tokens", self.max_tokens)

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Add the tokens [B, max_tokens] (int64) and their mask (bool, true for words) to the observation."""
        tasks = instructions(self.transition, len(observation[OBS_STATE]), "nano")
        places = {task: place for place, task in enumerate(dict.fromkeys(tasks))}
        table = torch.tensor([hash_words(task, self.vocabulary, self.max_tokens) for task in places])
        tokens = table[[places[task] for task in tasks]]
        return {**observation, OBS_LANGUAGE_TOKENS: tokens, OBS_LANGUAGE_ATTENTION_MASK: tokens != 0}

    def get_config(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this step."""
        return asdict(self)

    def transform_features(self, features: Features) -> Features:
        """Declare the two features this step adds."""
        return with_language(features, self.max_tokens)


def make_nano_pre_post_processors(
    config: NanoConfig, dataset_stats: dict[str, dict[str, Tensor]] | None = None
) -> Pipelines:
    """The pipelines before and after nano, under the name by which LeRobot looks for them."""
    words = NanoTokenizerProcessorStep(vocabulary=config.vocabulary, max_tokens=config.max_tokens)
    return build_pipelines(config, dataset_stats, words, *router(config.task_loras))

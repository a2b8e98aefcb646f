"""Processors of `pi05_fast`: from a batch or an observation to what it reads, and from its outputs to actions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from lerobot.lerobot_types import EnvTransition, TransitionKey
from lerobot.processor import ProcessorStep, ProcessorStepRegistry
from lerobot.utils.constants import OBS_LANGUAGE_ATTENTION_MASK, OBS_LANGUAGE_TOKENS, OBS_STATE
from torch import Tensor

from holdfast.core.errors import HoldfastError
from holdfast.policies.bounds import check_size
from holdfast.policies.device import send
from holdfast.policies.pi05.configuration_pi05 import PALIGEMMA, SIZES, Pi05FastConfig
from holdfast.policies.pipelines import Features, Pipelines, build_pipelines, instructions, with_language
from holdfast.policies.task_router import router

# Lower edges of the 256 bins of a normalized state, as in LeRobot and openpi.
BINS = np.linspace(-1, 1, 256 + 1)[:-1]


@lru_cache(maxsize=4)
def load_tokenizer(name: str) -> Any:
    """PaliGemma's tokenizer, or another of its kind, from a local folder or the hub."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise HoldfastError(
            "pi05_fast needs the package transformers. Install it with: pip install 'holdfast[pi]'"
        ) from None
    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # of damaged files, whatever they lead to
        reason = str(error).strip().split("\n")[0]
        raise HoldfastError(
            f"The tokenizer {name!r} could not be loaded: {reason} It is PaliGemma's: open "
            f"https://huggingface.co/{PALIGEMMA}, accept its licence, then run `hf auth login`. Without network, "
            f"download its tokenizer files elsewhere (`hf download {PALIGEMMA} --include 'token*' 'special*' "
            "--local-dir FOLDER`) and give --policy.tokenizer_name=FOLDER."
        ) from None


def prompts(tasks: list[str], state: np.ndarray | None) -> list[str]:
    """Prompts as pi0.5 was trained on them: instruction and binned state, or the instruction alone."""
    clean = [task.strip().replace("_", " ").replace("\n", " ") for task in tasks]
    if state is None:
        return [f"{task}\n" for task in clean]
    bins = np.digitize(state, BINS) - 1
    return [f"Task: {task}, State: {' '.join(map(str, row))};\nAction: " for task, row in zip(clean, bins, strict=True)]


@ProcessorStepRegistry.register("pi05_fast_prompt")
@dataclass
class Pi05PromptProcessorStep(ProcessorStep):
    """Turns every sample's prompt into tokens and a mask of the real ones.

    In training, prompts of one length stay as they are, without a mask; others are padded to a multiple of `bucket`.
    Observations without actions are padded to the full length, so that an answer does not depend on the other prompts
    of its batch, not even in the last bit.
    """

    tokenizer_name: str = PALIGEMMA
    max_length: int = 200
    bucket: int = 16
    state_in_prompt: bool = True
    _known: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_size("pi05_fast", SIZES, "tokenizer_max_length", self.max_length)
        check_size("pi05_fast", SIZES, "prompt_bucket", self.bucket)
        load_tokenizer(self.tokenizer_name)

    def __call__(self, transition: EnvTransition) -> EnvTransition:
        """Add tokens [B, length] (int64), and where some are padding their mask (bool, true for words)."""
        observation = dict(transition[TransitionKey.OBSERVATION])
        state = observation[OBS_STATE]
        tasks = instructions(transition, len(state), "pi05_fast")
        texts = prompts(tasks, state.float().cpu().numpy() if self.state_in_prompt else None)
        rows = self._tokenize(texts)
        longest, shortest = max(map(len, rows)), min(map(len, rows))
        length = self.max_length
        training = transition.get(TransitionKey.ACTION) is not None
        if training:
            padded = -(-longest // self.bucket) * self.bucket if shortest < longest else longest
            length = min(self.max_length, padded)
        tokens = torch.zeros(len(rows), length, dtype=torch.int64)
        words = torch.zeros(len(rows), length, dtype=torch.bool)
        for place, row in enumerate(rows):
            tokens[place, : len(row)] = torch.tensor(row)
            words[place, : len(row)] = True
        observation[OBS_LANGUAGE_TOKENS] = send(tokens, state.device)
        if shortest < length or not training:
            observation[OBS_LANGUAGE_ATTENTION_MASK] = send(words, state.device)
        out = transition.copy()
        out[TransitionKey.OBSERVATION] = observation
        return out

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        if self.state_in_prompt:  # hardly any prompt occurs twice
            return self._encode(texts)
        new = sorted(set(texts) - self._known.keys())
        if new:
            self._known.update(zip(new, self._encode(new), strict=True))
        return [self._known[text] for text in texts]

    def _encode(self, texts: list[str]) -> list[list[int]]:
        tokenizer = load_tokenizer(self.tokenizer_name)
        rows: list[list[int]] = tokenizer(texts, max_length=self.max_length, truncation=True)["input_ids"]
        return rows

    def get_config(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this step."""
        return {name: value for name, value in asdict(self).items() if not name.startswith("_")}

    def transform_features(self, features: Features) -> Features:
        """Declare the two features this step adds."""
        return with_language(features, self.max_length)


def make_pi05_fast_pre_post_processors(
    config: Pi05FastConfig, dataset_stats: dict[str, dict[str, Tensor]] | None = None
) -> Pipelines:
    """The pipelines before and after pi0.5, under the name by which LeRobot looks for them."""
    prompt = Pi05PromptProcessorStep(
        config.tokenizer_name, config.tokenizer_max_length, config.prompt_bucket, config.state_in_prompt
    )
    return build_pipelines(config, dataset_stats, prompt, *router(config.task_loras))

"""The step of a policy's pipeline that decides whose LoRA answers: by words, or by images if no word is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from lerobot.processor import ObservationProcessorStep, ProcessorStepRegistry
from lerobot.utils.constants import OBS_STATE

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json
from holdfast.data.cache.thumbnails import thumbnail
from holdfast.policies import task_lora
from holdfast.policies.pipelines import Features, instructions
from holdfast.policies.saved_folder import ROUTER
from holdfast.policies.task_lora import ROWS, TaskLora


@ProcessorStepRegistry.register(ROUTER)
@dataclass
class TaskRouterStep(ObservationProcessorStep):
    """Adds the number of the task whose LoRA every row takes. `loras` are records of `TaskLora`."""

    loras: list[dict[str, Any]]

    def __post_init__(self) -> None:
        self._loras = from_json(list[TaskLora], self.loras, "A pipeline's list of LoRAs")
        task_lora.check(self._loras)
        if not self._loras:
            raise HoldfastError("A pipeline that chooses between LoRAs must list some.")

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Route every row by its instruction, or if it shares no word with any task's, by its images."""
        tasks = instructions(self.transition, len(observation[OBS_STATE]), "A policy with LoRAs")
        known = {task: task_lora.by_words(task, self._loras) for task in {*tasks}}
        rows = [known[task] for task in tasks]
        found = [self._by_images(observation, row) if number is None else number for row, number in enumerate(rows)]
        return {**observation, ROWS: torch.tensor(found)}

    def _by_images(self, observation: dict[str, Any], row: int) -> int:
        seen = {key: observation[key][row : row + 1] for key in self._loras[0].images if key in observation}
        return task_lora.by_images({key: thumbnail(pixels)[0].numpy() for key, pixels in seen.items()}, self._loras)

    def get_config(self) -> dict[str, Any]:
        """Return what a checkpoint stores of this step."""
        return {"loras": self.loras}

    def transform_features(self, features: Features) -> Features:
        """Other features stay as they are."""
        return features


def router(loras: list[TaskLora]) -> list[TaskRouterStep]:
    """The step, for a policy that has LoRAs."""
    return [TaskRouterStep([asdict(lora) for lora in loras])] if loras else []

"""Adapters: every task has a LoRA of its own beside frozen weights, and its instruction decides which one acts.

Hu et al. 2021 (https://arxiv.org/abs/2106.09685); one per task on a frozen base, as in Rusu et al. 2016
(https://arxiv.org/abs/1606.04671) and Houlsby et al. 2019 (https://arxiv.org/abs/1902.00751).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.core.errors import require
from holdfast.core.records import Task
from holdfast.methods.method import Method

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Adapters(Method):
    """Adapters: a LoRA per task on a frozen base, chosen by the instruction; old tasks never change.

    A matrix W becomes W + up @ down for the rows of a task, where up and down have the given rank and are the task's
    own. The base is the policy that the run starts from, so it should be a pretrained one.
    """

    needs = "loras"

    # Rank of the matrices that a task adds. They have rank * (inputs + outputs) numbers for every matrix of the policy.
    rank: int = 16

    def __post_init__(self) -> None:
        require(self.rank >= 1, "method.rank", self.rank, "at least 1")

    def begin(
        self, policy: torch.nn.Module, task: Task, first_images: Callable[[], dict[str, np.ndarray]], seed: int
    ) -> str:
        """Freeze everything and add the task's LoRA."""
        from holdfast.policies.task_lora import TaskLora

        images = {camera: [round(float(x), 4) for x in rows.mean(0)] for camera, rows in first_images().items()}
        adding: Any = policy
        adding.add_task_lora(TaskLora(task.instruction, self.rank, images), seed)
        size = sum(weight.numel() * weight.element_size() for weight in policy.parameters() if weight.requires_grad)
        return f"{task.name} has a LoRA of rank {self.rank}: {size / 2**20:.2f} MiB. All other weights are frozen."

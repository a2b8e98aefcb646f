"""What a method changes of the policy before a stage's first step."""

from __future__ import annotations

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Stage
from holdfast.data.cache.thumbnails import thumbnails
from holdfast.policies.adapter import Adapter
from holdfast.train.setting import Setting
from holdfast.train.stage_data import StageData
from holdfast.train.step import step_seed


def begin_stage(setting: Setting, stage: Stage, data: StageData, adapter: Adapter) -> None:
    """Call the method's hook, and refuse a policy of which no weight learns then."""
    config, row = setting.config, data.learning - 1
    lesson, cache = data.lessons[row], data.caches[row]

    def first_images() -> dict[str, np.ndarray]:
        cameras = list(cache.spec.cameras)
        return dict(zip(cameras, np.split(thumbnails(cache, lesson.source.starts), len(cameras), 1), strict=True))

    seed = step_seed(config.seed, stage.number)
    if told := setting.method.begin(adapter.policy, lesson.task, first_images, seed):
        setting.run.log.write("begin", method=config.method, note=told)
        setting.console.print(told)
    if not any(weight.requires_grad for weight in adapter.policy.parameters()):
        raise HoldfastError(
            f"No weight of the policy learns with --method={config.method}. One with a LoRA per task goes on with "
            "--method=adapters only."
        )

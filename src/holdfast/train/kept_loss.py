"""The loss of a finished stage's policy on all kept episodes, for methods that change its weights by that."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Stage
from holdfast.norm.strategies import Normalization
from holdfast.policies.adapter import Adapter
from holdfast.replay.buffer import Buffer
from holdfast.train.loss_probe import LossProbe
from holdfast.train.setting import Setting
from holdfast.train.stage_data import StageData, open_kept, read_from_cache


class KeptLoss:
    """Opens the kept episodes when it is first called: from their datasets, or from the run's copies."""

    def __init__(
        self, setting: Setting, stage: Stage, adapter: Adapter, normalization: Normalization, buffer: Buffer
    ) -> None:
        self._setting, self._stage, self._adapter = setting, stage, adapter
        self._normalization, self._buffer = normalization, buffer

    def __call__(self) -> float:
        """The mean over tasks of the mean loss of their kept episodes, with the weights as they are now."""
        if not self._buffer.tasks:
            method = self._setting.config.method
            raise HoldfastError(f"finish() of --method={method} measures kept episodes, and so needs `replays = True`.")
        kept = enumerate(self._buffer.tasks)
        return float(np.mean([self._probe.episode_scores(row, task.places).mean() for row, task in kept]))

    @cached_property
    def _probe(self) -> LossProbe:
        setting, config = self._setting, self._setting.config
        entries = {entry.task.name: entry for entry in setting.stream.tasks}
        where = config, setting.embodiment, setting.run
        lessons = tuple(open_kept(entries[kept.task], kept, *where) for kept in self._buffer.tasks)
        # Only the first rank is here, so nothing may wait for others. None of these lessons is new to the run.
        data = StageData(lessons, 0, self._buffer)
        data = read_from_cache(setting.run, data, self._adapter.resize, config.cache, setting.console)
        data, quiet = replace(data, learning=len(lessons)), Console(quiet=True)
        return LossProbe(config, self._stage, data, self._adapter, self._normalization, setting.device, quiet)

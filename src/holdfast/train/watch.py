"""Looks at one kept episode of every earlier task while a stage trains, for replay that follows what is forgotten."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Stage
from holdfast.data.loader import Batch
from holdfast.data.sampler import Sampler
from holdfast.replay.config import ReplayConfig
from holdfast.replay.looks import Look, is_watched
from holdfast.train.distributed.ranks import Ranks
from holdfast.train.loss_probe import LossProbe
from holdfast.train.stage_data import StageData
from holdfast.train.state import TrainingState


class Watch:
    """Takes the looks of a stage and adds them to its training state. Does nothing if no setting asks for them."""

    def __init__(
        self, config: ReplayConfig, stage: Stage, data: StageData, probe: LossProbe, console: Console, ranks: Ranks
    ) -> None:
        self._config, self._steps, self._probe, self._console, self._ranks = config, stage.steps, probe, console, ranks
        old = {name: data.buffer.of(name) for name in data.names[data.learning :]} if config.watches else {}
        self._rows = {name: data.names.index(name) for name in old}
        self._watched = {name: kept for name, kept in old.items() if is_watched(kept)}

    def look(self, state: TrainingState) -> None:
        """Look at the start, every `watch_every` steps and at the end. The first rank looks and tells the others."""
        due = state.step % self._config.watch_every == 0 or state.step == self._steps
        if not self._watched or not due or any(look.step == state.step for look in state.looks):
            return
        with self._ranks.together():
            state.looks.append(self._ranks.ask(partial(self._measure, state.step)))
        state.policy.train()

    def _measure(self, step: int) -> Look:
        losses = {task: self._probe.loss(batch) for task, batch in self._batches.items()}
        wrong = [task for task, loss in losses.items() if not np.isfinite(loss)]
        if wrong:
            raise HoldfastError(
                f"The loss of the watched episode of task {wrong[0]!r} became {losses[wrong[0]]} at step {step}. "
                "Lower --optim.lr, and look for odd values with `holdfast doctor`."
            )
        return Look(step, losses)

    @cached_property
    def _batches(self) -> dict[str, Batch]:
        return {task: self._probe.batch(self._rows[task], kept.places[0]) for task, kept in self._watched.items()}

    def announce(self) -> None:
        """Say which episodes are set aside, and which tasks have none to spare."""
        if self._watched:
            named = ", ".join(f"{kept.episodes[0]} of {task}" for task, kept in self._watched.items())
            self._console.print(f"Watched and not replayed: episode {named}.")
        single = [task for task in self._rows if task not in self._watched]
        if single:
            self._console.print(f"Not watched, because only one episode is kept: {', '.join(single)}.")

    def report(self, state: TrainingState, sampler: Sampler) -> None:
        """Say what the watched losses have become, and how many steps of the stage have replayed."""
        if not self._watched:
            return
        first, last = state.looks[0].losses, state.looks[-1].losses
        became = ", ".join(f"{task} {first[task]:.4f} to {last[task]:.4f}" for task in first)
        took = sum(sampler.replayed(step) > 0 for step in range(self._steps))
        self._console.print(f"Watched losses: {became}. {took} of {self._steps} steps replayed.")

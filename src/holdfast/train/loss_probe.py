"""The loss of a policy on chosen frames of a stage's data, for methods, selections and shares that need it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from rich.console import Console

from holdfast.core.progress import progress_bar
from holdfast.core.records import Stage
from holdfast.data.loader import Batch, Batches
from holdfast.data.sampler import Draw, Pool, Sampler
from holdfast.norm.strategies import Normalization
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter, Loss
from holdfast.policies.config import AugmentConfig
from holdfast.replay.buffer import Buffer
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.parallel import computes_in_bf16
from holdfast.train.stage_data import StageData
from holdfast.train.step import Stepper, step_seed

NO_AUGMENTATION = AugmentConfig(shift=0, brightness=0, contrast=0, saturation=0)
FRAMES = 8  # per episode, on which its score is measured
WATCHED = 32  # of a watched episode


class LossProbe:
    """Computes losses in one process with the whole policy, in evaluation mode and without augmentation.

    The samples depend only on the seed and the stage, so finishing a stage again gives the same losses.
    """

    def __init__(
        self,
        config: TrainConfig,
        stage: Stage,
        data: StageData,
        adapter: Adapter,
        spaces: Normalization,
        device: str,
        console: Console,
    ) -> None:
        self._config = replace(config, augment=NO_AUGMENTATION)
        self._stage, self._data, self._adapter, self._spaces, self._device = stage, data, adapter, spaces, device
        self._console = console

    def samples(self, count: int) -> Iterator[Loss]:
        """Losses, with gradients, of frames drawn equally from the tasks that the stage learned, one by one."""
        pools = [Pool(row, np.arange(len(lesson.source.state)), 1.0) for row, lesson in enumerate(self._data.new)]
        # Drawn as a step of stage 0, which no run has, so that training draws other frames.
        draw = Sampler(self._config.seed, 0, 1, count, tuple(pools)).draw(self._stage.number)
        with closing(self._batches()) as batches:
            for i in self._shown(range(count), "samples"):
                seed = step_seed(self._config.seed, self._stage.number, self._stage.steps, 1, i)
                yield self._loss(batches.make(Draw(draw.rows[i : i + 1], draw.frames[i : i + 1], 0)), seed)

    @torch.no_grad()
    def episode_scores(self, row: int, places: Sequence[int] | None = None, stage: int | None = None) -> np.ndarray:
        """The loss of every episode of a lesson, or of some, on frames spread over it, all with a stage's own noise."""
        episodes = range(len(self._data.lessons[row].source.starts)) if places is None else places
        seed, scores = step_seed(self._config.seed, stage or self._stage.number), []
        with closing(self._batches()) as batches:
            for episode in self._shown(episodes, "episodes"):
                batch = batches.make(self._spread(row, episode, FRAMES))
                scores.append(float(self._loss(batch, seed).total))
        return np.array(scores)

    def rises(self, buffer: Buffer) -> dict[str, np.ndarray]:
        """How much the loss of every kept episode has risen since the end of its own stage, by task.

        Frames and noise are those of that stage. Tasks whose losses were not kept are left out.
        """
        found = {}
        for number, kept in enumerate(buffer.tasks, 1):
            if kept.losses is not None:
                row = self._data.names.index(kept.task)
                found[kept.task] = self.episode_scores(row, kept.places, number) - np.array(kept.losses)
        return found

    def batch(self, row: int, episode: int) -> Batch:
        """Frames spread over an episode, to be watched during the stage."""
        with closing(self._batches()) as batches:
            return batches.make(self._spread(row, episode, WATCHED))

    @torch.no_grad()
    def loss(self, batch: Batch) -> float:
        """The loss of a batch, with the same noise every time. Leaves the policy in evaluation mode."""
        return float(self._loss(batch, step_seed(self._config.seed, self._stage.number)).total)

    def _spread(self, row: int, episode: int, count: int) -> Draw:
        """At most `count` frames, spread over an episode."""
        source = self._data.lessons[row].source
        first, last = source.starts[episode], source.ends[episode] - 1
        frames = np.unique(np.linspace(first, last, count).round().astype(np.int64))
        return Draw(np.full(len(frames), row), frames, 0)

    def _shown[T](self, items: Sequence[T], word: str) -> Iterator[T]:
        """Show the progress: hundreds of samples can take a minute on a CPU."""
        count = len(items)
        if not self._console.is_terminal:
            self._console.print(f"Measuring the loss of {count} {word}.")
        with progress_bar(self._console) as bar:
            task = bar.add_task(f"loss of {word}", total=count, note="")
            for item in items:
                yield item
                bar.advance(task)

    def _loss(self, batch: Batch, seed: int) -> Loss:
        ready = self._stepper.prepare(batch, seed)
        self._adapter.policy.eval()
        torch.manual_seed(seed)
        bf16 = computes_in_bf16(self._config, self._device)
        with torch.autocast(self._device.split(":")[0], torch.bfloat16, enabled=bf16):
            return self._adapter.loss(ready, self._stepper.active_rows(batch))

    def _batches(self) -> Batches:
        return Batches(self._data.lessons, self._data.caches, self._adapter.layout, self._device)

    @cached_property
    def _stepper(self) -> Stepper:
        lessons, stage = self._data.lessons, self._stage
        spaces = [self._spaces.train(lesson.task.name) for lesson in lessons]
        preprocess = transforms.build_training(self._adapter.config, spaces)
        active = np.stack([lesson.active for lesson in lessons]) if self._config.idle == "mask" else None
        return Stepper(self._config, self._adapter, preprocess, active, stage.number, stage.steps, self._device)

"""The progress display of a stage: a bar with the time left, or plain lines if there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console

from holdfast.core.progress import progress_bar
from holdfast.core.records import Stage
from holdfast.train.config import TrainConfig


class StageProgress:
    """Progress of one stage."""

    def __init__(
        self, console: Console, stage: Stage, config: TrainConfig, start: int, stages: Sequence[Stage]
    ) -> None:
        self._console, self._stage, self._config, self._start = console, stage, config, start
        self._begun = time.monotonic()
        before, steps = sum(s.steps for s in stages if s.number < stage.number), sum(s.steps for s in stages)
        self._bar = progress_bar(console, part=(before / steps, (before + stage.steps) / steps))
        self._task = self._bar.add_task(stage.name, total=stage.steps, completed=start, note="")

    def __enter__(self) -> StageProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, step: int) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=step)

    def show(self, line: dict[str, Any]) -> None:
        """Show a line of metrics: in the bar, or ten times a stage in plain text."""
        step, steps = line["step"], self._stage.steps
        speed = (step - self._start) * self._config.batch_size / max(1e-9, time.monotonic() - self._begun)
        note = f"loss {line['loss']:.4f}  {speed:.0f} samples/s"
        self._bar.update(self._task, note=note)
        if not self._console.is_terminal and (step * 10 // steps > (step - self._config.log.every) * 10 // steps):
            left = (steps - step) * self._config.batch_size / max(1e-9, speed)
            self._console.print(f"{self._stage.name}  step {step}/{steps}  {note}  {left:.0f} s left")

"""Losses by task, arm and dimension, summed on the device and read only when a line is due."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from holdfast.core.errors import HoldfastError
from holdfast.core.files import open_log, write_text
from holdfast.core.outside import open_file, parse_json
from holdfast.data.sampler import Draw
from holdfast.runs.paths import StagePaths
from holdfast.train.config import LogConfig
from holdfast.train.distributed.ranks import ALONE, Ranks

if TYPE_CHECKING:  # the adapter imports LeRobot, which takes a quarter of a minute
    from holdfast.policies.adapter import Loss


class LossTotals:
    """Sums since the last line of metrics. Only reading them makes training wait for the device."""

    def __init__(
        self, tasks: Sequence[str], names: Sequence[str], arms: Sequence[str], device: str, ranks: Ranks = ALONE
    ) -> None:
        self._tasks, self._names, self._arms, self._ranks = tasks, names, arms, ranks
        self._device = torch.device(device)
        self._clear()

    def _clear(self) -> None:
        shape = (len(self._tasks), len(self._names))
        self._sum = torch.zeros(shape, device=self._device)
        self._weight = torch.zeros(shape, device=self._device)
        self._total = torch.zeros((), device=self._device)
        self._extra = torch.zeros((), device=self._device)
        self._norm = torch.zeros((), device=self._device)
        self._steps = self._replayed = self._replayed_samples = 0
        self._drawn = np.zeros(len(self._tasks), dtype=np.int64)
        self._elements = self._extras = False

    @torch.no_grad()
    def add(self, draw: Draw, rows: torch.Tensor, losses: list[Loss], norm: torch.Tensor) -> None:
        """Add one step without waiting for it; `rows` are the draw's rows, on the device."""
        self._steps += 1
        self._replayed += draw.replayed > 0
        self._replayed_samples += draw.replayed
        self._drawn += np.bincount(draw.rows, minlength=len(self._tasks))
        self._total += torch.stack([loss.total.float() for loss in losses]).sum()
        self._norm += norm
        extras = [loss.extra.float() for loss in losses if loss.extra is not None]
        if extras:
            self._extras = True
            self._extra += torch.stack(extras).sum()
        for part, loss in zip(rows.chunk(len(losses)), losses, strict=True):
            if loss.elements is not None and loss.mask is not None:
                self._elements = True
                self._sum.index_add_(0, part, (loss.elements * loss.mask).float().sum(1))
                self._weight.index_add_(0, part, loss.mask.float().sum(1))

    def read(self, step: int, lr: float) -> dict[str, Any]:
        """One line of metrics for the steps since the last, over all ranks; a loss that is not finite ends the run."""
        drawn = torch.from_numpy(self._drawn).to(self._device)
        parts = [part.flatten().double() for part in (self._total, self._extra, self._sum, self._weight, drawn)]
        total, extra, sums, weight, drawn = self._ranks.sum(torch.cat(parts)).cpu().split([len(part) for part in parts])
        loss, norm = float(total) / self._steps, float(self._norm) / self._steps
        if not np.isfinite(loss) or not np.isfinite(norm):
            raise HoldfastError(
                f"The loss became {loss} (gradient norm {norm}) around step {step}. The last checkpoint is from "
                "before that. Lower --optim.lr, and look for odd values with `holdfast doctor`."
            )
        line: dict[str, Any] = {"step": step, "loss": loss, "grad_norm": norm, "lr": lr}
        if self._extras:
            line["extra_loss"] = float(extra) / self._steps  # of the method, part of `loss`
        line["replay_steps"], line["steps"] = self._replayed, self._steps
        line["replay_samples"] = self._replayed_samples
        line["samples"] = {t: int(n) for t, n in zip(self._tasks, drawn, strict=True) if n}
        if self._elements:
            line.update(self._by_part(sums.view_as(self._sum).numpy(), weight.view_as(self._sum).numpy()))
        self._clear()
        return line

    def _by_part(self, total: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
        def mean(rows: Any, columns: Any) -> float | None:
            part = weight[rows][..., columns].sum()
            return float(total[rows][..., columns].sum() / part) if part else None

        everything = slice(None)
        per_arm = {arm: [i for i, a in enumerate(self._arms) if a == arm] for arm in dict.fromkeys(self._arms)}
        values = {
            "loss_by_task": {t: mean(r, everything) for r, t in enumerate(self._tasks)},
            "loss_by_arm": {arm: mean(everything, columns) for arm, columns in per_arm.items()},
            "loss_by_dimension": {name: mean(everything, [d]) for d, name in enumerate(self._names)},
        }
        return {key: {k: v for k, v in group.items() if v is not None} for key, group in values.items()}


class MetricsLog:
    """metrics.jsonl of a stage, and TensorBoard or W&B beside it when asked for."""

    def __init__(self, files: StagePaths, config: LogConfig, run: str, stage: str, resumed_at: int) -> None:
        self._path, self._stage = files.metrics, stage
        files.folder.mkdir(parents=True, exist_ok=True)
        self._forget_after(resumed_at)
        self._board = _tensorboard(files.tensorboard) if config.tensorboard else None
        self._wandb = _wandb(run) if config.wandb else None

    def _forget_after(self, step: int) -> None:
        """Drop lines of steps that will be taken again, and a line that a kill cut short."""
        if not self._path.exists():
            return
        kept = []
        with open_file(self._path) as file:
            lines = file.read().decode(errors="replace").splitlines()
        for line in lines:
            try:
                if parse_json(line, self._path, finite=False)["step"] <= step:
                    kept.append(line + "\n")
            except (HoldfastError, KeyError, TypeError):
                break
        write_text(self._path, "".join(kept))

    def write(self, line: dict[str, Any]) -> None:
        """Append one line everywhere."""
        with open_log(self._path) as file:
            file.write(json.dumps(line) + "\n")
        flat = dict(_flatten(line))
        if self._board:
            for name, value in flat.items():
                self._board.add_scalar(name, value, line["step"])
        if self._wandb:
            self._wandb.log({f"{self._stage}/{k}": v for k, v in flat.items()})

    def close(self) -> None:
        """Flush what is buffered."""
        if self._board:
            self._board.close()


def _flatten(line: dict[str, Any], prefix: str = "") -> Any:
    for key, value in line.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise HoldfastError("--log.tensorboard needs TensorBoard: uv pip install 'holdfast[tensorboard]'.") from None
    return SummaryWriter(str(folder))


def _wandb(run: str) -> Any:
    try:
        import wandb
    except ImportError:
        raise HoldfastError("--log.wandb needs Weights & Biases: uv pip install 'holdfast[wandb]'.") from None
    return wandb.init(project="holdfast", name=run, id=run.replace("/", "-"), resume="allow")

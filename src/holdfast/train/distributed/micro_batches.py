"""The number of micro-batches per batch, chosen so that ranks can share them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.runs.paths import RunPaths
from holdfast.runs.settings import read_settings
from holdfast.train.config import TrainConfig


def deal(config: TrainConfig, ranks: int) -> TrainConfig:
    """Set the number of micro-batches per batch: as configured, as the run was started with, or one per rank."""
    begun = _micro_batches(Path(config.folder)) if config.optim.accumulate is None else None
    parts = config.optim.accumulate or begun or ranks
    if parts % ranks:
        origin = f"{config.folder} was started with" if begun else "You asked for"
        fits = [str(n) for n in range(1, parts + 1) if parts % n == 0]
        raise HoldfastError(
            f"{origin} --optim.accumulate={parts}: {ranks} ranks cannot share {parts} micro-batches equally. "
            f"Use {' or '.join(fits)} ranks, or start a run with a multiple of {ranks}."
        )
    if config.batch_size % parts:
        raise HoldfastError(
            f"--batch_size={config.batch_size}, the batch of all ranks together, cannot be split equally over {ranks} "
            f"ranks in {parts} micro-batches. Use a multiple of {parts}."
        )
    return replace(config, optim=replace(config.optim, accumulate=parts))


def _micro_batches(run: Path) -> int | None:
    try:
        begun: int = read_settings(RunPaths(run).settings).config["optim"]["accumulate"]
    except (HoldfastError, KeyError, TypeError):
        return None  # not started, or damaged: `begin` will report it
    return begun

"""Whether the trainings of a recipe fit the GPUs they will run on, and what would fit if they do not.

For recipes that train all of pi0.5; `train/memory.py` has the formula.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.table import Table

from holdfast import catalog
from holdfast.core.errors import require
from holdfast.recipes.recipe import Recipe, steps_of
from holdfast.train.config import Parallel, TrainConfig
from holdfast.train.distributed.micro_batches import deal
from holdfast.train.memory import GIB, Load, training_memory, usable

MOST = 64  # GPUs that are suggested at most
PARALLEL: dict[Parallel, str] = {"ddp": "", "fsdp": " --parallel fsdp"}  # and the flag for it


@dataclass(frozen=True)
class Gpus:
    """The GPUs of one training: how many, and the memory of each in GiB."""

    count: int
    gib: float

    def __post_init__(self) -> None:
        require(self.count >= 1, "gpus", self.count, "at least 1")
        require(self.gib > 0, "gpu-memory", self.gib, "above 0")

    def __str__(self) -> str:
        return f"{self.count} GPU{'s' if self.count > 1 else ''} of {self.gib:.0f} GiB"

    @classmethod
    def chosen(cls, count: int | None, gib: float | None, here: Gpus | None) -> Self:
        """What the user named; what is not named is as `here`, or one GPU of 80 GiB."""
        here = here or REFERENCE[0]
        return cls(here.count if count is None else count, here.gib if gib is None else gib)


# What a plan shows where there is no GPU and none was named.
REFERENCE = (Gpus(1, 80), Gpus(8, 80))


def found() -> Gpus | None:
    """The GPUs of this machine that torch sees, with the memory of the smallest."""
    import torch  # takes seconds

    count = torch.cuda.device_count()
    sizes = [torch.cuda.get_device_properties(number).total_memory for number in range(count)]
    return Gpus(count, min(sizes) / GIB) if sizes else None


def with_gpus(recipe: Recipe, parallel: Parallel, accumulate: int | None) -> Recipe:
    """The recipe with every training sharded and split into micro-batches as asked for."""

    def change(config: TrainConfig) -> TrainConfig:
        return replace(config, parallel=parallel, optim=replace(config.optim, accumulate=accumulate))

    return replace(recipe, parts={name: tuple(map(change, part)) for name, part in recipe.parts.items()})


def memory(config: TrainConfig, gpus: int) -> float:
    """GiB that each rank of a training needs at most."""
    config = deal(config, gpus)
    return _gib(config, gpus, config.optim.micro_batches, config.parallel)


def refusal(recipe: Recipe, gpus: Gpus) -> str | None:
    """Why a recipe does not fit, and what would; None if it does."""
    limit = usable(gpus.gib)
    config = max(recipe.train, key=lambda config: memory(config, gpus.count))
    needed = memory(config, gpus.count)
    if needed <= limit:
        return None
    ways = [f"{flags} ({gib:.1f} GiB)" for flags, gib in _ways(config, gpus)]
    batch = _largest_batch(config, gpus)
    return (
        f"{recipe.name} does not fit {gpus}: a batch of {config.batch_size} takes {needed:.1f} GiB on each, and "
        f"{limit:.1f} can be used. The same training fits with {' or '.join(ways) or 'no number of GPUs of that size'}."
        + (f" As it is, a batch of {batch} fits at most; that would be another training." if batch else "")
    )


def table(recipe: Recipe, machines: Sequence[Gpus]) -> Table:
    """Every training once, with the parts that need it, its steps, and the memory of a rank."""
    first = recipe.train[0]
    out = Table(box=SIMPLE_HEAD, show_edge=False, title=f"{recipe.name}, seed {first.seed}", title_justify="left")
    out.add_column("training", no_wrap=True)
    out.add_column("parts")
    for heading in ("steps", *(f"a rank on {gpus}" for gpus in machines)):
        out.add_column(heading, justify="right")
    total = 0
    for config in recipe.train:
        steps = steps_of(config)
        total += steps
        parts = ", ".join(name for name, part in recipe.parts.items() if config in part)
        cells = (_cell(memory(config, gpus.count), gpus) for gpus in machines)
        out.add_row(config.folder.rpartition("/")[2], parts, f"{steps:,}", *cells)
    work = f"{len(recipe.train)} trainings, {total:,} steps of {first.batch_size} samples"
    out.caption, out.caption_justify = f"{work}; the least memory, with every layer recomputed", "left"
    return out


def _cell(gib: float, gpus: Gpus) -> str:
    return f"{gib:.1f} GiB" if gib <= usable(gpus.gib) else f"[red]{gib:.1f} GiB, too much[/]"


def _gib(
    config: TrainConfig, gpus: int, micro_batches: int, parallel: Parallel, batch_size: int | None = None
) -> float:
    average, cameras = config.optim.ema > 0, len(catalog.cameras())
    load = Load(batch_size or config.batch_size, gpus, micro_batches, parallel, average, cameras)
    return training_memory(load).gib


def _ways(config: TrainConfig, gpus: Gpus) -> Iterator[tuple[str, float]]:
    """Flags with which the same training fits, and the memory it then needs: the fewest micro-batches, or GPUs."""
    batch, limit = config.batch_size, usable(gpus.gib)
    micro_batches = [n for n in range(gpus.count, batch + 1, gpus.count) if batch % n == 0]
    counts = [n for n in range(gpus.count + 1, MOST + 1) if batch % n == 0]
    for parallel, flag in PARALLEL.items():
        for n in micro_batches if parallel == "ddp" or gpus.count > 1 else ():
            if (gib := _gib(config, gpus.count, n, parallel)) <= limit:
                yield (f"--accumulate {n}{flag}" if n > gpus.count else flag.strip()), gib
                break
        for n in counts:
            if (gib := _gib(config, n, n, parallel)) <= limit:
                yield f"--gpus {n}{flag}", gib
                break


def _largest_batch(config: TrainConfig, gpus: Gpus) -> int:
    """The largest batch of which every GPU can take its part at once; 0 if there is none."""
    batches = range(config.batch_size - config.batch_size % gpus.count, 0, -gpus.count)
    limit = usable(gpus.gib)
    return next((n for n in batches if _gib(config, gpus.count, gpus.count, config.parallel, n) <= limit), 0)

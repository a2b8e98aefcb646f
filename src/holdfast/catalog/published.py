"""The published study as data: scores, settings, what was varied and what was collected."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from holdfast.catalog.reader import build, convert, read
from holdfast.core.records import Matrix

_FILE = Path(__file__).parent / "paper.toml"


@dataclass(frozen=True)
class PublishedRow:
    """Published scores of one method after the last stage of one stream; empty or None if not published."""

    stream: str
    method: str
    source: str
    schedule: str = ""  # of `schedules`; empty: the shared settings
    scores: tuple[float, ...] = ()
    average_score: float | None = None
    bwt: float | None = None
    fwt: float | None = None


@dataclass(frozen=True)
class PublishedAblation:
    """Published final BWT of a method at one budget ratio and one replay frequency."""

    stream: str
    method: str
    ratio: float
    frequency: float
    bwt: float
    source: str


@dataclass(frozen=True)
class PublishedSchedule:
    """How a stream was replayed; `weights` compare groups of tasks, and without them samples come as they are kept."""

    name: str
    stream: str
    ratio: float
    frequency: float
    source: str
    weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedSweeps:
    """What was varied, one thing at a time: budget ratio and replay frequency on `streams`, and the normalization."""

    streams: tuple[str, ...]
    ratios: tuple[float, ...]
    frequencies: tuple[float, ...]
    normalization_streams: tuple[str, ...]
    normalizations: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class PublishedDataset:
    """What was collected: demonstrations in all and of every one-arm and two-arm task, size, frames a second."""

    demonstrations: int
    demonstrations_single: int
    demonstrations_bimanual: int
    gigabytes: int
    fps: int
    source: str


@dataclass(frozen=True)
class PublishedMatrix:
    """A published matrix: `rows[j - 1]` lists the scores of tasks 1..j after stage j."""

    method: str
    tasks: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    source: str
    ratio: float | None = None
    frequency: float | None = None

    @property
    def matrix(self) -> Matrix:
        """The scores as a matrix with one value per cell and no baseline."""
        cells: dict[tuple[int, int], tuple[float, ...]] = {
            (i, j): (score,) for j, row in enumerate(self.rows, 1) for i, score in enumerate(row, 1)
        }
        return Matrix(self.tasks, cells)


@dataclass(frozen=True)
class PublishedHyperparameters:
    """Settings shared by all published runs."""

    base_model: str
    gpus: str
    batch_size: int
    optimizer: str
    betas: tuple[float, ...]
    precision: str
    learning_rate: float
    schedule: str
    warmup_steps: int
    steps_per_task: int
    joint_steps: int
    gradient_clip: float
    ema_decay: float
    seed: int
    quantiles: tuple[float, ...]
    chunk_size: int
    cameras: int
    image_size: int
    patch_tokens: int
    patch_size: int
    replay_ratio: float
    replay_frequency: float


class Paper(TypedDict):
    """Everything `paper()` returns."""

    title: str
    code: str
    rows: tuple[PublishedRow, ...]
    ablations: tuple[PublishedAblation, ...]
    schedules: dict[str, PublishedSchedule]
    sweeps: PublishedSweeps
    dataset: PublishedDataset
    matrices: tuple[PublishedMatrix, ...]
    hyperparameters: PublishedHyperparameters


def paper() -> Paper:
    """The published figures and settings, each with its source."""
    table = read(_FILE)
    schedules: tuple[PublishedSchedule, ...] = convert(tuple[PublishedSchedule, ...], table["schedule"], "schedule")
    return Paper(
        title=table["title"],
        code=table["code"],
        rows=convert(tuple[PublishedRow, ...], table["row"], "row"),
        ablations=convert(tuple[PublishedAblation, ...], table["ablation"], "ablation"),
        schedules={schedule.name: schedule for schedule in schedules},
        sweeps=build(PublishedSweeps, table["sweeps"], "sweeps"),
        dataset=build(PublishedDataset, table["dataset"], "dataset"),
        matrices=convert(tuple[PublishedMatrix, ...], table["matrix"], "matrix"),
        hyperparameters=build(PublishedHyperparameters, table["hyperparameters"], "hyperparameters"),
    )

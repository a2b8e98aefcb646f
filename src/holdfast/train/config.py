"""Everything `holdfast train` can be told. Fields are checked where they are declared, before any work starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.errors import HoldfastError, unknown
from holdfast.data.cache.config import CacheConfig
from holdfast.methods import METHODS
from holdfast.norm.strategies import STRATEGIES
from holdfast.policies.config import AugmentConfig, PolicyChoice
from holdfast.replay.selection import SELECTIONS


def _require(ok: bool, flag: str, value: object, wanted: str) -> None:
    if not ok:
        raise HoldfastError(f"--{flag} must be {wanted}, got {value}.")


@dataclass(frozen=True)
class ReplayConfig:
    """Experience replay (method er)."""

    # rho: share of all episodes the buffer may hold, split equally among the tasks seen.
    ratio: float = 0.2
    # f_r: probability that a step takes its batch from the buffer; stages grow by 1 / (1 - f_r).
    frequency: float = 0.2
    # How a replay batch is split: equal (per task), group (by `weights`), frames (by what is kept).
    share: str = "equal"
    # Weights of the groups, used with share=group. The paper's asymmetric schedule is 2 : 1 with frequency 0.3.
    weights: dict[str, float] = field(default_factory=lambda: {"bimanual": 2.0, "single": 1.0})
    # plain: an independent coin per step; stratified: exactly round(f_r * steps) replay steps.
    coin: str = "plain"
    # Which episodes are kept.
    selection: str = "random"
    # reference: kept episodes are read from their datasets, which must stay where they are; copy: the run copies
    # them at the end of each stage, and the stage's dataset may be deleted.
    store: str = "reference"

    def __post_init__(self) -> None:
        _require(0 < self.ratio <= 1, "replay.ratio", self.ratio, "above 0 and at most 1")
        _require(0 <= self.frequency < 1, "replay.frequency", self.frequency, "at least 0 and below 1")
        if self.share not in ("equal", "group", "frames"):
            raise unknown("--replay.share", self.share, ("equal", "group", "frames"))
        if self.coin not in ("plain", "stratified"):
            raise unknown("--replay.coin", self.coin, ("plain", "stratified"))
        if self.selection not in SELECTIONS:
            raise unknown("--replay.selection", self.selection, SELECTIONS)
        if self.store not in ("reference", "copy"):
            raise unknown("--replay.store", self.store, ("reference", "copy"))
        _require(all(w > 0 for w in self.weights.values()), "replay.weights", self.weights, "all above 0")


@dataclass(frozen=True)
class NormConfig:
    """Normalization of state and action to [-1, 1] by quantiles."""

    # per-task (I), frozen-first (II, the paper's best), mixed (III), calibrated (IV, from the embodiment).
    strategy: str = "frozen-first"
    # A norm_stats.json (openpi, the paper's released code), a folder that holds one, or nano-base: takes the place of
    # the first task's statistics, so that a pretrained policy goes on in the space it knows.
    stats: str = ""
    # Every dimension gets at least this share of the embodiment's range; 0 switches the rule off.
    floor: float = 0.2
    # A normalized magnitude above this stops the run before its first step.
    limit: float = 10.0
    # Dimensions allowed beyond the limit, by name.
    allow: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise unknown("--norm.strategy", self.strategy, STRATEGIES)
        first = "first" in (STRATEGIES[self.strategy].train, STRATEGIES[self.strategy].test)
        _require(first or not self.stats, "norm.stats", self.stats, "given with --norm.strategy=frozen-first or mixed")
        _require(0 <= self.floor <= 1, "norm.floor", self.floor, "between 0 and 1")
        _require(self.limit > 1, "norm.limit", self.limit, "above 1")


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with linear warmup and cosine decay to the stage's own last step; EMA of the weights."""

    # Peak learning rate; empty takes the policy's own preset.
    lr: float | None = None
    # Learning rate at a stage's end, as a share of the peak.
    final: float = 0.1
    # Steps of linear warmup (at most a tenth of the stage).
    warmup: int = 200
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 1e-10
    # Largest global norm of the gradient.
    clip: float = 1.0
    # Decay of the moving average that is evaluated, saved and passed to the next stage; 0 switches it off.
    ema: float = 0.998
    # Micro-batches a batch is cut into when it does not fit, each with noise of its own. Ranks share them, so the same
    # number trains alike on any number of ranks that divides it. Empty takes one per rank, or what the run began with.
    accumulate: int | None = None
    # auto: bf16 compute on a GPU, fp32 elsewhere; weights are always kept in fp32.
    precision: str = "auto"

    def __post_init__(self) -> None:
        _require(self.lr is None or self.lr > 0, "optim.lr", self.lr, "above 0")
        _require(0 <= self.final <= 1, "optim.final", self.final, "between 0 and 1")
        _require(self.warmup >= 0, "optim.warmup", self.warmup, "at least 0")
        _require(0 <= self.beta1 < 1, "optim.beta1", self.beta1, "at least 0 and below 1")
        _require(0 <= self.beta2 < 1, "optim.beta2", self.beta2, "at least 0 and below 1")
        _require(self.eps > 0, "optim.eps", self.eps, "above 0")
        _require(self.weight_decay >= 0, "optim.weight_decay", self.weight_decay, "at least 0")
        _require(0 <= self.ema < 1, "optim.ema", self.ema, "at least 0 and below 1")
        _require(self.clip > 0, "optim.clip", self.clip, "above 0")
        _require(self.micro_batches >= 1, "optim.accumulate", self.accumulate, "at least 1")
        if self.precision not in ("auto", "fp32", "bf16"):
            raise unknown("--optim.precision", self.precision, ("auto", "fp32", "bf16"))

    @property
    def micro_batches(self) -> int:
        """Into how many a batch is cut."""
        return 1 if self.accumulate is None else self.accumulate


@dataclass(frozen=True)
class CheckpointConfig:
    """How often progress is saved and how much of it is kept."""

    # Steps between two saves; what a kill can cost.
    every: int = 500
    # Progress checkpoints kept per stage; with 2, a damaged newest one falls back to the one before.
    keep: int = 2

    def __post_init__(self) -> None:
        _require(self.every >= 1, "checkpoint.every", self.every, "at least 1")
        _require(self.keep >= 1, "checkpoint.keep", self.keep, "at least 1")


@dataclass(frozen=True)
class LogConfig:
    """Where losses are written, beside metrics.jsonl in every stage's folder."""

    # Steps between two lines.
    every: int = 20
    tensorboard: bool = False
    wandb: bool = False

    def __post_init__(self) -> None:
        _require(self.every >= 1, "log.every", self.every, "at least 1")


@dataclass(frozen=True)
class TrainConfig:
    """Train a policy on a stream of tasks, one stage after the other."""

    # A stream of the catalog (single_arm, bimanual, heterogeneous) or a .toml file that lists your tasks.
    stream: str = ""
    # er (experience replay), sequential, joint, or finetune (every task on its own).
    method: str = "er"
    # The run's folder. Running the same command again goes on where it stopped.
    output: str = ""
    # Folder that holds the datasets of a catalog stream, one per task.
    data_root: str = "data"
    # Train only these tasks of the stream, in this order.
    tasks: list[str] = field(default_factory=list)
    policy: PolicyChoice = field(default_factory=PolicyChoice)
    # K: updates with new data per stage.
    steps: int = 4000
    # K of tasks that need more or fewer, like {fold_towel: 8000}.
    task_steps: dict[str, int] = field(default_factory=dict)
    # Samples of one update, over all ranks.
    batch_size: int = 128
    seed: int = 42
    # hold: an idle arm is trained to stay where it is (the paper); mask: it is left out of the loss.
    idle: str = "hold"
    # cpu, cuda, or auto.
    device: str = "auto"
    # With torchrun: ddp (every rank holds the policy) or fsdp (every rank holds a part of it, for large ones).
    parallel: str = "ddp"
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    norm: NormConfig = field(default_factory=NormConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)
    # Print the plan and stop: stages, steps, kept episodes, disk and time.
    dry_run: bool = False
    # Print the plan as JSON (with --dry-run).
    json: bool = False

    def __post_init__(self) -> None:
        _require(bool(self.stream), "stream", "nothing", "given: a catalog stream or a .toml file")
        if self.method not in METHODS:
            raise unknown("--method", self.method, METHODS)
        _require(self.steps >= 1, "steps", self.steps, "at least 1")
        enough = all(steps >= 1 for steps in self.task_steps.values())
        _require(enough, "task_steps", self.task_steps, "at least 1 for every task")
        _require(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        _require(self.seed >= 0, "seed", self.seed, "at least 0")
        if self.idle not in ("hold", "mask"):
            raise unknown("--idle", self.idle, ("hold", "mask"))
        if self.parallel not in ("ddp", "fsdp"):
            raise unknown("--parallel", self.parallel, ("ddp", "fsdp"))
        divides = self.batch_size % self.optim.micro_batches == 0
        _require(divides, "optim.accumulate", self.optim.accumulate, f"a divisor of the batch size {self.batch_size}")
        _require(self.dry_run or not self.json, "json", "without --dry-run", "given together with --dry-run")

    @property
    def folder(self) -> str:
        """Where the run lives: `output`, or a name made of stream and method under runs/."""
        return self.output or f"runs/{Path(self.stream).stem}-{self.method}"

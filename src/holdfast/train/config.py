"""All settings of `holdfast train`. They are checked where they are declared, before any work starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdfast.core.errors import require, require_choice
from holdfast.core.json_records import to_json
from holdfast.core.names import check_path
from holdfast.core.own_code import is_own, own_label
from holdfast.data.cache.config import CacheConfig
from holdfast.methods import Method, build_method
from holdfast.norm.config import NormConfig
from holdfast.policies.config import AugmentConfig, PolicyChoice
from holdfast.replay.config import ReplayConfig

Precision = Literal["auto", "fp32", "bf16"]
Idle = Literal["hold", "mask"]
Parallel = Literal["ddp", "fsdp"]


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
    # The average follows faster at first, with decay (1 + t) / (10 + t) until that exceeds `ema`, so that short stages
    # do not average in their start; false: the same decay from the first step on (the paper).
    ema_warmup: bool = True
    # Micro-batches per batch, for batches that do not fit into memory. Ranks share them, so the same number gives the
    # same training on any number of ranks that divides it. Empty: one per rank, or what the run was started with.
    accumulate: int | None = None
    # auto: bf16 compute on a GPU, fp32 elsewhere; weights are always kept in fp32.
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        require(self.lr is None or self.lr > 0, "optim.lr", self.lr, "above 0")
        require(0 <= self.final <= 1, "optim.final", self.final, "between 0 and 1")
        require(self.warmup >= 0, "optim.warmup", self.warmup, "at least 0")
        require(0 <= self.beta1 < 1, "optim.beta1", self.beta1, "at least 0 and below 1")
        require(0 <= self.beta2 < 1, "optim.beta2", self.beta2, "at least 0 and below 1")
        require(self.eps > 0, "optim.eps", self.eps, "above 0")
        require(self.weight_decay >= 0, "optim.weight_decay", self.weight_decay, "at least 0")
        require(0 <= self.ema < 1, "optim.ema", self.ema, "at least 0 and below 1")
        require(self.clip > 0, "optim.clip", self.clip, "above 0")
        require(self.micro_batches >= 1, "optim.accumulate", self.accumulate, "at least 1")
        require_choice("optim.precision", self.precision, Precision)

    @property
    def micro_batches(self) -> int:
        """Micro-batches per batch."""
        return 1 if self.accumulate is None else self.accumulate


@dataclass(frozen=True)
class CheckpointConfig:
    """How often progress is saved and how much of it is kept."""

    # Steps between two saves: the most that a kill can lose.
    every: int = 500
    # How many of them are kept per stage; with 2, a run can fall back if the newest is damaged.
    keep: int = 2

    def __post_init__(self) -> None:
        require(self.every >= 1, "checkpoint.every", self.every, "at least 1")
        require(self.keep >= 1, "checkpoint.keep", self.keep, "at least 1")


@dataclass(frozen=True)
class LogConfig:
    """Where losses are written, beside metrics.jsonl in every stage's folder."""

    # Steps between two lines.
    every: int = 20
    tensorboard: bool = False
    wandb: bool = False

    def __post_init__(self) -> None:
        require(self.every >= 1, "log.every", self.every, "at least 1")


@dataclass(frozen=True)
class TrainConfig:
    """Train a policy on a stream of tasks, one stage after the other."""

    # A stream of the catalog (single_arm, bimanual, heterogeneous) or a .toml file that lists your tasks.
    stream: str = ""
    # Method against forgetting: one of those below, or one of your own as file.py:Class (which runs the file).
    method: str = "er"
    # Filled from the --method.* flags, which belong to the method.
    method_options: dict[str, Any] = field(default_factory=dict)
    # The run's folder. Running the same command again continues where it stopped.
    output: str = ""
    # Folder for stages that several runs have in common: the first run trains them, the others take them over.
    share: str = ""
    # Folder that holds the datasets of a catalog stream, one per task.
    data_root: str = "data"
    # Wait for folders of datasets that are not there yet, each before its stage: `holdfast record` may still make them.
    wait: bool = False
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
    idle: Idle = "hold"
    # cpu, cuda, or auto.
    device: str = "auto"
    # With torchrun: ddp (every rank holds the policy) or fsdp (every rank holds a part of it, for large ones).
    parallel: Parallel = "ddp"
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
        require(bool(self.stream), "stream", "nothing", "given: a catalog stream or a .toml file")
        check_path(self.folder, "--output")
        object.__setattr__(self, "method_options", to_json(build_method(self.method, self.method_options)))
        require(self.steps >= 1, "steps", self.steps, "at least 1")
        enough = all(steps >= 1 for steps in self.task_steps.values())
        require(enough, "task_steps", self.task_steps, "at least 1 for every task")
        require(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        require(self.seed >= 0, "seed", self.seed, "at least 0")
        require_choice("idle", self.idle, Idle)
        require_choice("parallel", self.parallel, Parallel)
        divides = self.batch_size % self.optim.micro_batches == 0
        require(divides, "optim.accumulate", self.optim.accumulate, f"a divisor of the batch size {self.batch_size}")
        require(self.dry_run or not self.json, "json", "without --dry-run", "given together with --dry-run")

    def make_method(self) -> Method:
        """The method with its options."""
        return build_method(self.method, self.method_options)

    @property
    def folder(self) -> str:
        """The run's folder: `output`, or a name made of stream and method under runs/."""
        method = own_label(self.method) if is_own(self.method) else self.method
        return self.output or f"runs/{Path(self.stream).stem}-{method}"

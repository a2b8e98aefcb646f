"""The plan of a run before any work: stages, steps, kept episodes, replay shares. Arithmetic only, light to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from rich.table import Table
from rich.text import Text

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.core.names import check_name
from holdfast.core.records import Stage, Stream, StreamTask
from holdfast.core.tables import without_empty_columns
from holdfast.methods.method import Method, learned_visits
from holdfast.replay.buffer import quota
from holdfast.replay.schedule import shares
from holdfast.runs.paths import RunPaths
from holdfast.runs.settings import FREE
from holdfast.train.config import TrainConfig

_THROUGH_STAGE = ("tasks", "steps", "task_steps")
_OF_REPLAY = ("method", "method_options", "replay")
_COUNTED = 10_000  # steps of a stage; of a longer one so many are drawn


@dataclass(frozen=True)
class PlannedStage:
    """One line of the plan. `kept` is the buffer after the stage, `replay_share` splits its replayed samples.

    `replay_steps` have at least one replayed sample. Both counts of replay are estimates for long stages.
    """

    number: int
    name: str
    steps: int
    batch_size: int
    samples: int
    start: str
    replay_frequency: float
    replay_steps: int
    replay_samples: int
    replay_share: dict[str, float]
    kept: dict[str, int | None]


@dataclass(frozen=True)
class TrainingPlan:
    """What a run will do. An unknown episode count is None."""

    stream: str
    method: str
    output: str
    policy: str
    normalization: str
    total_steps: int
    episodes: dict[str, int | None]
    stages: tuple[PlannedStage, ...]
    notes: tuple[str, ...]
    ranks: int
    samples_per_rank: int
    parallel: str
    replay_alarm: float | None = None  # then counts of replay are the most there can be


def stages_of(config: TrainConfig, stream: Stream) -> tuple[Stage, ...]:
    """The stages that a configuration makes of a stream.

    Refuses those of a method that do not fit its arrangement: scores would go to wrong places of the matrix.
    """
    method, names = config.make_method(), stream.names
    arranged = method.arrangement
    steps = [config.task_steps.get(name, config.steps) for name in names]
    stages = _given_by(method, config, stream, steps)
    wanted = [Stage(n, names[visits[0]], visits, 0) for n, visits in enumerate(learned_visits(arranged, names), 1)]
    for stage, right in zip_longest(stages, wanted):
        alike = stage and right and (stage.number, stage.learns) == (right.number, right.learns)
        if not alike or (arranged != "together" and stage.name != right.name):
            raise HoldfastError(
                f"--method={config.method} has the arrangement {arranged!r}, so its stages() must give {_say(right)}, "
                f"but it gives {_say(stage)}. Correct one of them; docs/tutorials/add_a_method.md says what fits."
            )
    return stages


def _given_by(method: Method, config: TrainConfig, stream: Stream, steps: Sequence[int]) -> tuple[Stage, ...]:
    """The stages of a method, which may be a stranger's code."""
    whose = f"stages() of --method={config.method}"
    try:
        stages = tuple(method.stages(stream, steps, config.replay.frequency))
        return tuple(_checked(stage, whose) for stage in stages)
    except HoldfastError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise HoldfastError(f"{whose} must give a tuple of stages, but it failed: {reason:.200}.") from error


def _checked(stage: Stage, whose: str) -> Stage:
    """A stage whose fields are what they should be; the visits that it learns may be any sequence."""
    if not isinstance(stage, Stage):
        raise HoldfastError(f"{whose} must give objects of holdfast.core.records.Stage, got {stage!r:.80}.")
    check_name(stage.name, whose)
    stage = replace(stage, learns=tuple(stage.learns))
    whole = all(type(number) is int for number in (stage.number, stage.steps, *stage.learns))
    rules = {
        "number, steps and learns must be whole numbers": whole,
        "steps must be at least 1": whole and stage.steps >= 1,
        "frequency must be at least 0 and below 1": isinstance(stage.frequency, int | float)
        and 0 <= stage.frequency < 1,
        "start must be 'base' or 'previous'": stage.start in ("base", "previous"),
    }
    for rule, holds in rules.items():
        if not holds:
            raise HoldfastError(f"{whose} gives {stage!r:.300}: {rule}.")
    return stage


def settings_of_steps(config: TrainConfig, stage: Stage) -> dict[str, Any]:
    """The settings that a stage's steps depend on: those of replay only if it replays, some only through the stage."""
    elsewhere = (*FREE, *_THROUGH_STAGE, *(() if stage.frequency else _OF_REPLAY))
    return {key: value for key, value in to_json(config).items() if key not in elsewhere}


def _say(stage: Stage | None) -> str:
    if stage is None:
        return "no further stage"
    visits = ", ".join(str(position + 1) for position in stage.learns)
    return f"stage {stage.number} {stage.name!r}, which learns visit {visits} of the stream"


def needed(config: TrainConfig, stream: Stream) -> list[StreamTask]:
    """Tasks whose datasets a run still reads: those to be learned, and those replayed from their datasets."""
    if config.make_method().replays and config.replay.store == "reference":
        return list(stream.distinct)
    positions = {stream.names[position]: position for stage in ahead(config, stream) for position in stage.learns}
    return [stream.tasks[position] for position in positions.values()]


def ahead(config: TrainConfig, stream: Stream) -> list[Stage]:
    """The stages that a run has not finished yet."""
    files = RunPaths(Path(config.folder))
    return [stage for stage in stages_of(config, stream) if not files.stage(stage).checkpoint.folder.is_dir()]


def make_plan(config: TrainConfig, stream: Stream, *, look: bool, ranks: int = 1) -> TrainingPlan:
    """Plan a run. With `look` all datasets' headers are read, including later tasks'; a real run must not do that."""
    stages = stages_of(config, stream)
    learned = _learned(config, stages) if look else {}
    sizes = {entry.task.name: _size(entry, look, learned) for entry in stream.tasks}
    notes = tuple(_note(entry, learned) for entry in stream.distinct if look and not _header(entry).is_file())
    return TrainingPlan(
        stream.name,
        config.method,
        config.folder,
        config.policy.path or config.policy.type,
        config.norm.strategy,
        sum(stage.steps for stage in stages),
        {name: size[0] for name, size in sizes.items()},
        tuple(_planned(config, stream, stage, sizes) for stage in stages),
        notes,
        ranks,
        config.batch_size // ranks,
        config.parallel,
        config.replay.alarm,
    )


def _planned(
    config: TrainConfig, stream: Stream, stage: Stage, sizes: dict[str, tuple[int | None, int]]
) -> PlannedStage:
    seen = tuple(dict.fromkeys(stream.names[: stage.number])) if config.make_method().replays else ()
    kept = {
        name: None if sizes[name][0] is None else quota(sizes[name][0] or 0, config.replay.ratio, len(seen))
        for name in seen
    }
    known = list(dict.fromkeys(stream.names[: stage.number - 1]))
    before = [name for name in known if name != stage.name] if seen else []
    split: dict[str, float] = {}
    if before and stage.frequency:
        weights = shares(
            before,
            config.replay.share,
            frames={
                name: sizes[name][1] * quota(sizes[name][0] or 1, config.replay.ratio, len(known)) for name in before
            },
            groups={entry.task.name: entry.task.group for entry in stream.tasks},
            weights=config.replay.weights,
        )
        split = {name: round(float(w), 4) for name, w in zip(before, weights, strict=True)}
    return PlannedStage(
        stage.number,
        stage.name,
        stage.steps,
        config.batch_size,
        stage.steps * config.batch_size,
        stage.start,
        stage.frequency,
        *(_replayed(config, stage) if split else (0, 0)),
        split,
        kept,
    )


def _replayed(config: TrainConfig, stage: Stage) -> tuple[int, int]:
    """Steps of a stage that replay something, and their replayed samples, as the method decides them."""
    method = config.make_method()
    some = Random(0).sample(range(stage.steps), min(stage.steps, _COUNTED))
    rows = [method.replayed_rows(stage, step, config.batch_size, config.replay, config.seed) for step in some]
    times = stage.steps / max(1, len(some))
    return round(times * sum(map(bool, rows))), round(times * sum(rows))


def _header(entry: StreamTask) -> Path:
    return Path(entry.dataset) / "meta" / "info.json"


def _learned(config: TrainConfig, stages: tuple[Stage, ...]) -> dict[str, int]:
    """Episode counts of tasks that a run has learned already: their datasets may be gone."""
    sizes: dict[str, int] = {}
    for stage in stages:
        try:
            buffer = RunPaths(Path(config.folder)).stage(stage).checkpoint.buffer
        except HoldfastError:
            break  # not finished, or damaged: the run itself will report it
        sizes |= {kept.task: kept.total for kept in buffer.tasks}
    return sizes


def _note(entry: StreamTask, learned: dict[str, int]) -> str:
    if entry.task.name in learned:
        return f"{entry.dataset} is not here; the run has learned it already, {learned[entry.task.name]} episodes."
    declared = entry.task.demonstrations
    known = f"assuming the catalog's {declared} demonstrations." if declared else "its size is not known."
    return f"{entry.dataset} is not here; {known}"


def _size(entry: StreamTask, look: bool, learned: dict[str, int]) -> tuple[int | None, int]:
    """Episodes of a dataset and frames per episode, from its header, or else from the run or the catalog."""
    if not look:
        return None, 1
    try:
        info = outside.read_json(_header(entry))
        return int(info["total_episodes"]), max(1, int(info["total_frames"]) // max(1, int(info["total_episodes"])))
    except (HoldfastError, ValueError, KeyError, TypeError):
        return learned.get(entry.task.name, entry.task.demonstrations), 1


def table(plan: TrainingPlan) -> Table:
    """Render a plan as a table."""
    title = f"{plan.method} on {plan.stream} with {plan.policy}, {plan.normalization}"
    out = Table(title=Text(title), title_justify="left")  # names may hold what rich takes for markup
    for heading in ("stage", "learns", "steps", "of them replay", "replayed samples", "episodes kept after it"):
        out.add_column(heading, justify="right" if heading in ("stage", "steps", "of them replay") else "left")
    about = "~" if plan.replay_alarm is None else "at most "
    for stage in plan.stages:
        split = ", ".join(f"{name} {share:.0%}" for name, share in stage.replay_share.items())
        kept = ", ".join(f"{name} {count}" for name, count in stage.kept.items() if count is not None)
        replayed = f"{about}{stage.replay_steps}" if stage.replay_frequency else ""
        split = f"{about}{stage.replay_samples}: {split}" if stage.replay_frequency else ""
        out.add_row(str(stage.number), Text(stage.name), str(stage.steps), replayed, Text(split), Text(kept))
    shared = f", {plan.samples_per_rank} samples on each of {plan.ranks} ranks ({plan.parallel})"
    out.caption = Text(f"{plan.total_steps} steps in all{shared if plan.ranks > 1 else ''}, into {plan.output}")
    out.caption_justify = "left"
    return without_empty_columns(out)

"""Finds faults in a dataset before they cost a training run, and says what to do about each.

A check is a function that looks at one opened dataset and yields findings; `CHECKS` lists them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow.parquet as pq

from holdfast.core.errors import HoldfastError
from holdfast.data.doctor.findings import Expected, Finding, Severity, Summary, say_delete, say_dimensions, say_episodes
from holdfast.data.doctor.pictures import blind_cameras, lost_frames
from holdfast.data.lerobot.source import STATE, Source, open_source
from holdfast.data.mapping import apply


@dataclass(frozen=True)
class Examination:
    """All that was found in one dataset; there is no summary of one that cannot be opened."""

    dataset: str
    summary: Summary | None
    findings: tuple[Finding, ...]


def examine(dataset: str, expected: Expected | None = None) -> Examination:
    """Open a dataset, whatever its state, and look for every kind of fault."""
    expected = expected or Expected()
    try:
        raw = open_source(dataset, check_values=False)
    except Exception as error:  # a damaged dataset raises anything, and the doctor must not die of it
        return Examination(dataset, None, (_unreadable(dataset, error),))
    try:
        source = apply(raw, expected.mapping, expected.embodiment.names if expected.embodiment else None)
    except HoldfastError as error:
        advice = "Correct what the stream file says of this task's cameras, dimensions or fps."
        return Examination(dataset, None, (Finding("error", dataset, "mapping", "stream file", str(error), advice),))
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            with np.errstate(invalid="ignore", divide="ignore"):  # NaN has a check of its own; the others look past it
                findings.extend(check(source, expected))
        except Exception as error:
            findings.append(_unreadable(dataset, error))
    # What one broken video does to several checks is still one fault.
    return Examination(dataset, Summary.of(source), tuple(dict.fromkeys(findings)))


def _unreadable(dataset: str, error: Exception) -> Finding:
    reason = " ".join(str(error).split())
    detail = reason if isinstance(error, HoldfastError) else f"{type(error).__name__}: {reason}"
    advice = "Training would stop here too. Do what the message says, or restore the files from where they came from."
    return Finding("error", dataset, "unreadable", "files", detail, advice)


def _nan(source: Source, expected: Expected) -> Iterator[Finding]:
    for feature, values in _features(source):
        frames, dimensions = np.nonzero(~np.isfinite(values))
        if len(frames):
            episodes = np.unique(source.episode_of(frames))
            where = f"{say_episodes(episodes)}: {feature} {say_dimensions(source, dimensions)}"
            detail = f"NaN or infinite values: {len(frames)}. A single one turns all weights into NaN."
            yield Finding("error", source.dataset, "nan", where, detail, say_delete(source, episodes))


def _own_dimensions(source: Source, expected: Expected) -> Iterator[Finding]:
    states, actions = source.state.shape[1], source.action.shape[1]
    named = source.info["features"][STATE].get("names")
    if states != actions:
        detail = f"The state has {states} dimensions, the action {actions}; they must describe the same joints."
        advice = "Record or convert the dataset again with the same joints in both."
        yield Finding("error", source.dataset, "dimensions", "state and action", detail, advice)
    elif isinstance(named, list) and tuple(named) != source.names and set(named) == set(source.names):
        detail = f"The state lists {', '.join(named)}; the action lists the same in another order."
        advice = "Convert the dataset so that both use one order."
        yield Finding("error", source.dataset, "dimensions", "state and action", detail, advice)


def _robot_dimensions(source: Source, expected: Expected) -> Iterator[Finding]:
    robot = expected.embodiment
    if robot is None or source.names == robot.names:
        return
    if len(source.names) != len(robot.names):
        detail = f"The action has {len(source.names)} dimensions, embodiment {robot.name!r} has {len(robot.names)}."
        advice = "Name the right embodiment in the stream, or the right dataset."
        yield Finding("error", source.dataset, "dimensions", "action", detail, advice)
    elif set(source.names) == set(robot.names):
        detail = f"The dimensions of embodiment {robot.name!r} are stored in another order: {', '.join(source.names)}."
        advice = "Write under its [[task]]: dimensions = [" + ", ".join(f'"{name}"' for name in robot.names) + "]."
        yield Finding("error", source.dataset, "dimensions", "action", detail, advice)
    else:
        detail = f"Embodiment {robot.name!r} has other names for {', '.join(source.names)}."
        advice = f"Limits are applied by position, so these must mean, in order: {', '.join(robot.names)}."
        yield Finding("warning", source.dataset, "dimensions", "action", detail, advice)


def _unlike_the_first(source: Source, expected: Expected) -> Iterator[Finding]:
    """All tasks of a stream share one policy, so their datasets must agree in cameras, dimensions and rate."""
    if expected.first is None:
        return
    here, first = Summary.of(source), expected.first
    advice = "All datasets of a stream must agree. Say under its [[task]] how this one is to be seen (cameras, "
    advice += "dimensions, fps: see `holdfast train --help`), or record it again."
    for key in sorted(here.cameras.keys() ^ first.cameras.keys()):
        has, lacks = (here.dataset, first.dataset) if key in here.cameras else (first.dataset, here.dataset)
        detail = f"{has} has this camera, {lacks} does not."
        yield Finding("error", source.dataset, "missing-camera", key, detail, advice)
    for key in sorted(here.cameras.keys() & first.cameras.keys()):
        if here.cameras[key] != first.cameras[key]:
            detail = "Height and width are {}x{}, in {} they are {}x{}.".format(
                *here.cameras[key], first.dataset, *first.cameras[key]
            )
            yield Finding("error", source.dataset, "camera-size", key, detail, advice)
    if here.names != first.names:
        detail = f"The dimensions are {', '.join(here.names)}; in {first.dataset} they are {', '.join(first.names)}."
        yield Finding("error", source.dataset, "dimensions", "action", detail, advice)
    if here.fps != first.fps:
        detail = f"{here.fps:g} frames per second, {first.dataset} has {first.fps:g}."
        yield Finding("error", source.dataset, "wrong-fps", "meta/info.json", detail, advice)


def _clock(source: Source, expected: Expected) -> Iterator[Finding]:
    source = source.raw
    begins = np.repeat(source.starts, source.lengths)
    elapsed = source.timestamps - source.timestamps[begins]
    due = (np.arange(len(begins)) - begins) / source.fps
    off = np.flatnonzero(~(np.abs(elapsed - due) <= 0.5 / source.fps))
    if len(off):
        rate = 1 / np.nanmedian(np.diff(source.timestamps))
        detail = f"info.json says {source.fps:g} frames per second, timestamps mostly {rate:.4g}."
        advice = "Correct fps in meta/info.json if that is wrong. If frames are missing, delete the episodes."
        where = say_episodes(np.unique(source.episode_of(off)))
        yield Finding("error", source.dataset, "wrong-fps", where, detail, advice)


def _frozen(source: Source, expected: Expected) -> Iterator[Finding]:
    robot, active = expected.robot(source), expected.active(source)
    for feature, values in _features(source):
        moved = _range(values)
        tiny = 1e-3 * moved if robot is None else np.array([d.step / 4 for d in robot.dimensions])
        still = np.flatnonzero(active & (moved < tiny)) if robot is not None else np.array([])
        if len(still):
            detail = "Belongs to an arm the task uses and never moves in the whole dataset."
            advice = "Check its encoder and cable. Fine if the task really does not need it."
            where = f"{feature} {say_dimensions(source, still)}"
            yield Finding("warning", source.dataset, "frozen-joint", where, detail, advice)
        within = np.fmax.reduceat(values, source.starts) - np.fmin.reduceat(values, source.starts)
        asleep = np.flatnonzero((within <= tiny)[:, slice(None) if robot is None else active].all(axis=1))
        if len(asleep):
            where = f"{say_episodes(asleep)}: {feature}"
            detail = "No joint of the task's arms moves at all."
            yield Finding("warning", source.dataset, "frozen-joint", where, detail, say_delete(source, asleep))


def _jumping(source: Source, expected: Expected) -> Iterator[Finding]:
    robot = expected.robot(source)
    for feature, values in _features(source):
        steps = np.nan_to_num(np.abs(np.diff(values, axis=0)), posinf=0)
        steps[source.ends[:-1] - 1] = 0  # from one episode to the next
        limit = np.maximum(_largest_plausible(steps), 0.01 * np.nanmax(_range(values)))
        if robot is not None:
            # A gripper may be commanded from open to closed at once; nothing can be there at once.
            commanded = [feature == "action" and d.kind == "gripper" for d in robot.dimensions]
            limit = np.where(commanded, np.inf, [4 * d.step for d in robot.dimensions])
        frames, dimensions = np.nonzero(steps > limit)
        if len(frames):
            worst = np.argmax(steps[frames, dimensions] / limit[dimensions])
            step, most = steps[frames, dimensions][worst], limit[dimensions][worst]
            detail = f"{say_dimensions(source, [dimensions[worst]])} moves by {step:.3g} in one frame (frame "
            detail += f"{frames[worst]} of the dataset); more than {most:.3g} is not plausible."
            episodes = np.unique(source.episode_of(frames))
            where = f"{say_episodes(episodes)}: {feature} {say_dimensions(source, dimensions)}"
            severity: Severity = "error" if robot is not None and feature == "state" else "warning"
            yield Finding(severity, source.dataset, "jumping-joint", where, detail, say_delete(source, episodes))


def _largest_plausible(steps: np.ndarray) -> np.ndarray:
    """Twenty times the steps that are larger than nearly all others; the few largest may be the fault itself."""
    few = min(len(steps), max(4, len(steps) // 1000) + 1)
    usual = np.partition(steps, -few, axis=0)[-few] if few else np.zeros(steps.shape[1])
    # A dimension that nearly always rests is a switch, such as a gripper command: it may jump.
    return np.where(usual > 0, 20 * usual, np.inf)


def _mismatch(source: Source, expected: Expected) -> Iterator[Finding]:
    if source.state.shape != source.action.shape:
        return
    robot = expected.robot(source)
    seen = _range(source.state)
    moved = np.fmax(seen, _range(source.action))
    # An idle arm sags a little below its command, and a frozen joint is a fault of its own: only what moves can tell.
    floor = 0.01 * np.nanmax(seen) if robot is None else np.array([4 * d.step for d in robot.dimensions])
    within = np.ones(len(source.state) - 1, dtype=bool)
    within[source.ends[:-1] - 1] = False
    apart = np.abs(source.action[:-1] - source.state[1:])[within] > 0.25 * moved
    share = apart.mean(axis=0) * (seen > floor) if len(apart) else np.zeros_like(moved)
    far = np.flatnonzero(expected.active(source) & (share > 0.5))
    if len(far):
        detail = f"The action is far from the next state in up to {share[far].max():.0%} of the frames."
        advice = "Actions are taken as absolute targets in the units of the state: check for increments, velocities, "
        advice += "degrees against radians, or another order of the joints."
        yield Finding("warning", source.dataset, "action-state", say_dimensions(source, far), detail, advice)


def _short(source: Source, expected: Expected) -> Iterator[Finding]:
    lengths = np.array(source.lengths)
    least = max(expected.chunk, 0.2 * float(np.median(lengths)))
    short = np.flatnonzero(lengths < least)
    if len(short):
        detail = f"Down to {lengths.min()} frames; the median is {np.median(lengths):g}, a chunk {expected.chunk}."
        advice = f"Probably started or stopped by mistake. {say_delete(source, short)}"
        yield Finding("warning", source.dataset, "short-episode", say_episodes(short), detail, advice)


def _instruction(source: Source, expected: Expected) -> Iterator[Finding]:
    if expected.task is None:
        return
    table = pq.read_table(source.root / "meta" / "tasks.parquet")
    # The instruction is the index of the data frame LeRobot writes, so its column goes by several names.
    texts = {text for column in table.columns for text in column.to_pylist() if isinstance(text, str)}
    others = sorted(texts - {expected.task.instruction})
    if others:
        detail = f"Recorded with {', '.join(map(repr, others))}; the stream says {expected.task.instruction!r}."
        advice = "Training and serving use the stream's. Is it the right dataset? Then nothing is to be done."
        yield Finding("warning", source.dataset, "instruction", "meta/tasks.parquet", detail, advice)


def _duplicates(source: Source, expected: Expected) -> Iterator[Finding]:
    seen: dict[bytes, list[int]] = {}
    for episode, (start, end) in enumerate(zip(source.starts, source.ends, strict=True)):
        digest = hashlib.sha256(source.action[start:end].tobytes()).digest()
        seen.setdefault(digest, []).append(episode)
    twins = [episodes for episodes in seen.values() if len(episodes) > 1]
    if twins:
        detail = "Same actions, byte for byte: " + "; ".join(say_episodes(episodes) for episodes in twins[:5]) + "."
        advice = f"Copies count double in training. {say_delete(source, chain(*(episodes[1:] for episodes in twins)))}"
        where = say_episodes(chain(*twins))
        yield Finding("warning", source.dataset, "duplicate", where, detail, advice)


def _range(values: np.ndarray) -> np.ndarray:
    """Largest minus smallest value of every dimension, NaN left out."""
    return np.fmax.reduce(values) - np.fmin.reduce(values)


def _features(source: Source) -> tuple[tuple[str, np.ndarray], ...]:
    return ("state", source.state), ("action", source.action)


CHECKS: tuple[Callable[[Source, Expected], Iterator[Finding]], ...] = (
    _nan,
    _own_dimensions,
    _robot_dimensions,
    _unlike_the_first,
    _clock,
    lost_frames,
    blind_cameras,
    _frozen,
    _jumping,
    _mismatch,
    _short,
    _instruction,
    _duplicates,
)

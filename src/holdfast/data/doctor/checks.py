"""Finds faults in a dataset before training, and says what to do about each.

A check is a function that takes one opened dataset and yields findings; `CHECKS` lists the quick ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.data.doctor.findings import Expected, Finding, Severity, Summary, say_delete, say_dimensions, say_episodes
from holdfast.data.doctor.kinds import unlike_targets, unlike_their_kind
from holdfast.data.doctor.pictures import blind_cameras, lost_frames
from holdfast.data.doctor.whole import Advance, altered_files, damaged_images
from holdfast.data.lerobot.folder import read_words
from holdfast.data.lerobot.source import Source, is_image, open_source
from holdfast.data.mapping import apply


@dataclass(frozen=True)
class Examination:
    """All findings of one dataset; a dataset that cannot be opened has no summary."""

    dataset: str
    summary: Summary | None
    findings: tuple[Finding, ...]


def examine(
    dataset: str, expected: Expected | None = None, *, fast: bool = False, advance: Advance = lambda more, total: None
) -> Examination:
    """Open a dataset, whatever its state, and look for every kind of fault; if `fast`, without reading all of it.

    `advance` is told how decoding goes on.
    """
    expected = expected or Expected()
    try:
        raw = open_source(dataset, check_values=False)
    except Exception as error:  # a damaged dataset can raise anything, and the doctor must not crash
        return Examination(dataset, None, (_unreadable(dataset, error),))
    try:
        source = apply(raw, expected.mapping, expected.embodiment)
    except HoldfastError as error:
        advice = "Correct this task's cameras, dimensions or fps in the stream file."
        return Examination(dataset, None, (Finding("error", dataset, "mapping", "stream file", str(error), advice),))
    findings: list[Finding] = []
    whole = () if fast else (altered_files, partial(damaged_images, advance=advance))
    for check in (*CHECKS, *whole):
        try:
            # NaN has its own check; the others ignore it, and what is too large for a float is infinite.
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                findings.extend(check(source, expected))
        except Exception as error:
            findings.append(_unreadable(dataset, error))
    # A broken video can fail several checks, but is reported once.
    return Examination(dataset, Summary.of(source), tuple(dict.fromkeys(findings)))


def _unreadable(dataset: str, error: Exception) -> Finding:
    reason = " ".join(str(error).split())
    detail = reason if isinstance(error, HoldfastError) else f"{type(error).__name__}: {reason}"
    advice = "Training would stop here too. Do what the message says, or restore the files from a backup."
    return Finding("error", dataset, "unreadable", "files", detail, advice)


def _counts(source: Source, expected: Expected) -> Iterator[Finding]:
    """Plans read the header's counts only, before the tables are there."""
    raw = source.raw
    for what, found in (("total_episodes", len(raw.starts)), ("total_frames", len(raw.action))):
        if raw.info[what] != found:
            detail = f"It says {raw.info[what]:,}; the tables have {found:,}."
            advice = f"Set {what} to {found} in meta/info.json, or restore files that are missing."
            yield Finding("warning", source.dataset, "wrong-counts", f"meta/info.json: {what}", detail, advice)


def _nan(source: Source, expected: Expected) -> Iterator[Finding]:
    for feature in expected.features(source):
        frames, dimensions = np.nonzero(~np.isfinite(feature.values))
        if len(frames):
            episodes = np.unique(source.episode_of(frames))
            where = f"{say_episodes(episodes)}: {feature.word} {say_dimensions(feature.names, dimensions)}"
            detail = f"NaN or infinite values: {len(frames)}. A single one turns all weights into NaN."
            yield Finding("error", source.dataset, "nan", where, detail, say_delete(source, episodes))


def _camera_keys(source: Source, expected: Expected) -> Iterator[Finding]:
    for camera in source.cameras:
        if not is_image(camera.key):
            detail = "Policies read cameras under observation.image or observation.images.NAME only."
            advice = (
                f'Write under its [[task]] in a stream file: [task.cameras] top = "{camera.key}" (or another name).'
            )
            yield Finding("error", source.dataset, "camera-key", camera.key, detail, advice)


def _robot_dimensions(source: Source, expected: Expected) -> Iterator[Finding]:
    robot = expected.embodiment
    names = source.action_names
    if robot is None or names == robot.names:
        return
    if len(names) != len(robot.names):
        detail = f"The action has {len(names)} dimensions, embodiment {robot.name!r} has {len(robot.names)}."
        advice = "Name the right embodiment in the stream, or the right dataset."
        yield Finding("error", source.dataset, "dimensions", "action", detail, advice)
    elif set(names) == set(robot.names):
        detail = f"The dimensions of embodiment {robot.name!r} are stored in another order: {', '.join(names)}."
        advice = "Write under its [[task]]: dimensions = [" + ", ".join(f'"{name}"' for name in robot.names) + "]."
        yield Finding("error", source.dataset, "dimensions", "action", detail, advice)
    else:
        detail = f"Embodiment {robot.name!r} has other names for {', '.join(names)}."
        advice = f"Limits are applied by position, so these must mean, in order: {', '.join(robot.names)}."
        yield Finding("warning", source.dataset, "dimensions", "action", detail, advice)


def _unlike_the_first(source: Source, expected: Expected) -> Iterator[Finding]:
    """All tasks of a stream share one policy, so their datasets must agree in cameras, dimensions and rate."""
    if expected.first is None:
        return
    here, first = Summary.of(source), expected.first
    advice = "All datasets of a stream must agree. Add a mapping below its [[task]] (cameras, "
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
    both = (("action", here.names, first.names), ("state", here.state_names, first.state_names))
    for word, names, others in both if here.names != here.state_names or first.names != first.state_names else both[:1]:
        if names != others:
            detail = f"The dimensions are {', '.join(names)}; in {first.dataset} they are {', '.join(others)}."
            yield Finding("error", source.dataset, "dimensions", word, detail, advice)
    if here.fps != first.fps:
        detail = f"{here.fps:g} frames per second, {first.dataset} has {first.fps:g}."
        yield Finding("error", source.dataset, "wrong-fps", "meta/info.json", detail, advice)


def _clock(source: Source, expected: Expected) -> Iterator[Finding]:
    source = source.raw
    first = np.repeat(source.starts, source.lengths)
    elapsed = source.timestamps - source.timestamps[first]
    due = (np.arange(len(first)) - first) / source.fps
    off = np.flatnonzero(~(np.abs(elapsed - due) <= 0.5 / source.fps))
    if len(off):
        rate = 1 / np.nanmedian(np.diff(source.timestamps))
        detail = f"info.json says {source.fps:g} frames per second, timestamps mostly {rate:.4g}."
        advice = "Correct fps in meta/info.json if that is wrong. If frames are missing, delete the episodes."
        where = say_episodes(np.unique(source.episode_of(off)))
        yield Finding("error", source.dataset, "wrong-fps", where, detail, advice)


def _frozen(source: Source, expected: Expected) -> Iterator[Finding]:
    for feature in expected.features(source):
        values, moved = feature.values, _range(feature.values)
        tiny = feature.limits(1 / 4, 1e-3 * moved)
        still = np.flatnonzero(feature.known & feature.active & (moved < tiny))
        for found, does in (
            (still[feature.targets[still]], "never moves"),
            (still[~feature.targets[still]], "has the same value"),
        ):
            if not len(found):
                continue
            motors = {d.kind for d in map(feature.dimensions.__getitem__, found) if d} & {"joint", "gripper"}
            detail = f"Belongs to an arm the task uses, and {does} in the whole dataset."
            advice = "This is fine if the task does not need it."
            advice += " On a real robot, check its encoder and cable." if motors else ""
            where = f"{feature.word} {say_dimensions(feature.names, found)}"
            yield Finding("warning", source.dataset, "frozen-joint", where, detail, advice)
        within = np.fmax.reduceat(values, source.starts) - np.fmin.reduceat(values, source.starts)
        asleep = np.flatnonzero((within <= tiny)[:, feature.active].all(axis=1))
        if len(asleep):
            where = f"{say_episodes(asleep)}: {feature.word}"
            joints = feature.targets[feature.active].all()
            detail = "No joint of the task's arms moves." if joints else "No value of the task's arms changes."
            yield Finding("warning", source.dataset, "frozen-joint", where, detail, say_delete(source, asleep))


def _jumping(source: Source, expected: Expected) -> Iterator[Finding]:
    for feature in expected.features(source):
        steps = np.nan_to_num(np.abs(np.diff(feature.values, axis=0)), posinf=0)
        steps[source.ends[:-1] - 1] = 0  # from one episode to the next
        limit = np.maximum(_largest_plausible(steps), 0.01 * np.nanmax(_range(feature.values)))
        limit = feature.limits(4, limit)
        # A gripper command may jump from open to closed, and only targets move; a measured state cannot jump.
        rigid = ("joint", "target")
        free = [feature.word == "action" and d is not None and d.kind not in rigid for d in feature.dimensions]
        limit = np.where(free, np.inf, limit)
        frames, dimensions = np.nonzero(steps > limit)
        if len(frames):
            worst = np.argmax(steps[frames, dimensions] / limit[dimensions])
            step, most = steps[frames, dimensions][worst], limit[dimensions][worst]
            detail = f"{feature.names[dimensions[worst]]} moves by {step:.3g} in one frame (frame "
            detail += f"{frames[worst]} of the dataset); more than {most:.3g} is not plausible."
            episodes = np.unique(source.episode_of(frames))
            where = f"{say_episodes(episodes)}: {feature.word} {say_dimensions(feature.names, dimensions)}"
            certain = feature.word == "state" and feature.known[dimensions].any()
            severity: Severity = "error" if certain else "warning"
            yield Finding(severity, source.dataset, "jumping-joint", where, detail, say_delete(source, episodes))


def _largest_plausible(steps: np.ndarray) -> np.ndarray:
    """Twenty times a step that is larger than nearly all others; the few largest may be the fault itself."""
    few = min(len(steps), max(4, len(steps) // 1000) + 1)
    usual = np.partition(steps, -few, axis=0)[-few] if few else np.zeros(steps.shape[1])
    # A dimension that nearly always rests is a switch, such as a gripper command, and may jump.
    return np.where(usual > 0, 20 * usual, np.inf)


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
    others = sorted(set(read_words(source.root)) - {expected.task.instruction})
    if others:
        detail = f"Recorded with {', '.join(map(repr, others))}; the stream says {expected.task.instruction!r}."
        advice = "Training and serving use the stream's. If it is the right dataset, nothing needs to be done."
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


CHECKS: tuple[Callable[[Source, Expected], Iterator[Finding]], ...] = (
    _counts,
    _nan,
    _camera_keys,
    _robot_dimensions,
    _unlike_the_first,
    _clock,
    lost_frames,
    blind_cameras,
    _frozen,
    _jumping,
    unlike_targets,
    unlike_their_kind,
    _short,
    _instruction,
    _duplicates,
)

"""What differs between two bundles, in words: the question before a policy is replaced on a robot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Task
from holdfast.norm.strategies import ACTION, STATE, Space
from holdfast.runs.checkpoint import WEIGHTS
from holdfast.serve.bundle import Bundle

_SHOWN = 5  # tensors named; the rest are counted
_PLAIN = ("run", "method", "stage", "learned", "policy", "holdfast", "lerobot", "idle", "fps", "cameras", "names")


def differences(old: Bundle, new: Bundle) -> Iterator[str]:
    """One line for each thing that changes when `new` takes the place of `old`; none when they are the same."""
    for key in _PLAIN:
        if old.about[key] != new.about[key]:
            yield f"{key}: {_said(old.about[key])} -> {_said(new.about[key])}"
    yield from _embodiments(old, new)
    for name, steps in old.about["transforms"].items():
        others = new.about["transforms"].get(name, [])
        if steps != others:
            yield f"transforms, {name}: {', '.join(steps)} -> {', '.join(others)}"
    yield from _tasks(old, new)
    if old.normalization.hash != new.normalization.hash:
        yield from _statistics(old, new)
    if old.weights != new.weights:
        yield from _weights(old.path / WEIGHTS, new.path / WEIGHTS)


def _tasks(old: Bundle, new: Bundle) -> Iterator[str]:
    for name in old.tasks.keys() - new.tasks.keys():
        yield f"task {name}: no longer known"
    for name, task in new.tasks.items():
        if name not in old.tasks:
            yield f"task {name}: new, {task.instruction!r} with {' and '.join(task.arms)}"
        else:
            yield from _task(old.tasks[name], task)


def _task(old: Task, new: Task) -> Iterator[str]:
    if old.instruction != new.instruction:
        yield f"task {new.name}, prompt: {old.instruction!r} -> {new.instruction!r}"
    if old.arms != new.arms:
        yield f"task {new.name}, arms: {' and '.join(old.arms)} -> {' and '.join(new.arms)}"
    if old.final != new.final:
        yield f"task {new.name}, rubric, final: {old.final!r} -> {new.final!r}"
    for kind, before, after in (
        ("milestone", {m.name: m for m in old.milestones}, {m.name: m for m in new.milestones}),
        ("penalty", {p.name: p for p in old.penalties}, {p.name: p for p in new.penalties}),
    ):
        for name in [*before, *(n for n in after if n not in before)]:
            one, other = before.get(name), after.get(name)
            if one != other:
                change = "dropped" if other is None else "new" if one is None else f"{one} -> {other}"
                yield f"task {new.name}, rubric, {kind} {name}: {change}"
        if list(before) != list(after) and set(before) == set(after):
            yield f"task {new.name}, rubric: order of {kind}s {', '.join(before)} -> {', '.join(after)}"


def _embodiments(old: Bundle, new: Bundle) -> Iterator[str]:
    one, other = old.embodiment, new.embodiment
    if one is None or other is None or one.name != other.name:
        if one != other:
            yield f"embodiment: {one.name if one else 'none'} -> {other.name if other else 'none'}"
        return
    for before, after in zip(one.dimensions, other.dimensions, strict=False):
        if before != after:
            yield f"embodiment {one.name}, {before.name}: {before} -> {after}"


def _statistics(old: Bundle, new: Bundle) -> Iterator[str]:
    """Spaces as they are used, by task: a changed number here changes the meaning of every weight."""
    if old.normalization.strategy != new.normalization.strategy:
        yield f"normalization: {old.normalization.strategy} -> {new.normalization.strategy}"
    said: set[tuple[str, str]] = set()
    for name in [name for name in new.tasks if name in old.tasks]:
        before, after = old.normalization.execute(name), new.normalization.execute(name)
        if before.hash == after.hash or (before.hash, after.hash) in said:
            continue
        said.add((before.hash, after.hash))
        for line in _space(before, after, {STATE: new.state_names, ACTION: new.names}):
            yield f"statistics of task {name}, {line}"


def _space(old: Space, new: Space, names: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for feature in (STATE, ACTION):
        before, after = old.of(feature), new.of(feature)
        if len(before.q01) != len(after.q01):
            yield f"{feature}: {len(before.q01)} -> {len(after.q01)} dimensions"
            continue
        ranges = zip(names[feature], before.q01, before.q99, after.q01, after.q99, strict=False)
        for name, low, high, new_low, new_high in ranges:
            if (low, high) != (new_low, new_high):
                yield f"{feature} {name}: {low:.4g}..{high:.4g} -> {new_low:.4g}..{new_high:.4g}"


def _weights(old: Path, new: Path) -> Iterator[str]:
    """Which tensors differ and by how much, relative to their own size: the most changed ones by name."""
    before, after = _tensors(old), _tensors(new)
    for name in sorted(before.keys() ^ after.keys()):
        yield f"weights, {name}: {'new' if name in after else 'no longer there'}"
    changes: dict[str, float] = {}
    same = 0
    for name in sorted(before.keys() & after.keys()):
        one, other = before[name], after[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            yield f"weights, {name}: {_kind(one)} -> {_kind(other)}"
        elif np.array_equal(one, other):
            same += 1
        else:
            changes[name] = float(np.linalg.norm(other - one) / max(float(np.linalg.norm(one)), 1e-12))
    if changes:
        most = sorted(changes, key=lambda name: -changes[name])[:_SHOWN]
        shown = ", ".join(f"{name} by {100 * changes[name]:.3g} %" for name in most)
        yield f"weights: {len(changes)} of {len(changes) + same} tensors differ; most changed: {shown}"


def _tensors(file: Path) -> dict[str, np.ndarray]:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return {name: np.asarray(tensor.to(torch.float64)) for name, tensor in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise HoldfastError(f"{file} cannot be read: {error}.") from None


def _kind(tensor: np.ndarray) -> str:
    return "x".join(map(str, tensor.shape))


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {'x'.join(map(str, size))}" for name, size in value.items())
    return str(value)

"""Trials that would be the same are run once: runs that share a stage have the same policy after it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from holdfast.core.files import replacing
from holdfast.core.records import Trial
from holdfast.evaluate.rollout import TrialOrder
from holdfast.evaluate.workers import Done, Workers
from holdfast.runs.checkpoint import Checkpoint


def each_once(
    workers: Workers, orders: Iterator[TrialOrder], copied: Callable[[TrialOrder, Trial], None]
) -> Iterator[Done]:
    """Run orders, but of equal ones only the first.

    `copied` is called with each of the others and with its trial, which is that of the first, as is its film. That is
    done before further orders are drawn, since these may turn out to be unnecessary.
    """
    running: dict[Hashable, list[TrialOrder]] = {}  # with the orders that wait for the same trial
    ended: dict[Hashable, Done] = {}

    def different() -> Iterator[TrialOrder]:
        for order in orders:
            trial = _identity(order)
            if trial in ended:
                copied(order, _copy(*ended[trial], order))
            elif trial in running:
                running[trial].append(order)
            else:
                running[trial] = []
                yield order

    for done in workers(different()):
        trial = _identity(done[0])
        ended[trial] = done
        yield done
        for order in running.pop(trial):
            copied(order, _copy(*done, order))


def _identity(order: TrialOrder) -> Hashable:
    """All that decides a trial."""
    policy = order.weights, _settings(order.checkpoint), order.normalization
    return *policy, order.task, order.seed, order.level, order.protocol, order.robot


@lru_cache(maxsize=256)
def _settings(checkpoint: Path) -> str:
    return json.dumps(Checkpoint(checkpoint).policy_config, sort_keys=True)


def _copy(order: TrialOrder, trial: Trial, other: TrialOrder) -> Trial:
    if trial.video:
        film = other.run / other.video
        film.parent.mkdir(parents=True, exist_ok=True)
        with (order.run / order.video).open("rb") as source, replacing(film) as target:
            shutil.copyfileobj(source, target)
    video = other.video if trial.video else ""
    return replace(trial, run=other.run.name, stage=other.stage, video=video)

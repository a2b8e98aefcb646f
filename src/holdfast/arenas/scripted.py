"""Scores of scripted policies: they show whether a task can be done, and that it cannot be done blindly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast import arenas, rubric
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.core.processes import worker_pool
from holdfast.core.records import Task, Trial


@dataclass(frozen=True)
class Tally:
    """Scores of a scripted policy, one trial for each seed."""

    trials: tuple[Trial, ...]
    scores: tuple[float, ...]
    milestones: dict[str, int]
    penalties: dict[str, int]

    @property
    def full(self) -> int:
        """How many trials have full score."""
        return sum(score == 100 for score in self.scores)


def score(
    arena: str, task: str, policy: str, level: str, seeds: Sequence[int], processes: int = 1, jitter: bool = False
) -> Tally:
    """Score a scripted policy on one trial for each seed; the number of processes affects only the time.

    Args:
        arena: Name of an arena.
        task: Name of one of its tasks.
        policy: One of its scripted policies.
        level: One of its levels.
        seeds: One for each trial.
        processes: How many run in parallel.
        jitter: Vary the expert's motions as demonstrations are varied.
    """
    loaded = arenas.load(arena)
    record = loaded.task(task)
    loaded.check_policy(policy)
    shares = [list(seeds[k::processes]) for k in range(min(processes, len(seeds)))]
    if len(shares) > 1:
        with worker_pool(len(shares), [__name__]) as pool:
            jobs = [pool.submit(_trials, arena, task, policy, level, share, jitter) for share in shares]
            found = {seed: trial for job in jobs for seed, trial in job.result().items()}
    else:
        found = _trials(arena, task, policy, level, list(seeds), jitter)
    return _tally(record, [found[seed] for seed in seeds])


def _trials(arena: str, task: str, policy: str, level: str, seeds: list[int], jitter: bool) -> dict[int, Trial]:
    loaded = arenas.load(arena)
    episode = ScoredEpisode(loaded, loaded.task(task))
    trials = {}
    for seed in seeds:
        episode.begin(seed, level)
        acting = episode.policy(policy, seed if jitter else None)
        while not episode.over and (action := acting.act()) is not None:
            episode.step(action)
        trials[seed] = episode.trial()
    episode.close()
    return trials


def _tally(task: Task, trials: list[Trial]) -> Tally:
    counted = [rubric.awarded(task, trial.milestones, trial.final) if task.milestones else () for trial in trials]
    return Tally(
        trials=tuple(trials),
        scores=tuple(trial.score for trial in trials if trial.score is not None),
        milestones={m.name: sum(m.name in names for names in counted) for m in task.milestones},
        penalties={p.name: sum(min(t.penalties.get(p.name, 0), p.most) for t in trials) for p in task.penalties},
    )

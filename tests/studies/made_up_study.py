"""Results of studies that were never run: every score comes from a function."""

from pathlib import Path

from holdfast import catalog
from holdfast.core.records import Matrix, Trial
from holdfast.methods import method_class
from holdfast.report.gather import RunResults
from holdfast.studies.results import RunGroup, StudyResults
from holdfast.studies.study import Study

NAMES = ("stack_bowls", "hang_cup", "press_button")


def study(*methods, seeds=(1, 2, 3), claims=(), **flags):
    """A study of methods on a stream, with other flags that may vary."""
    grid = {"method": list(methods), **flags}
    return Study("made-up", {"stream": "s"}, "Why?", seeds=tuple(seeds), grids=(grid,), claims=tuple(claims))


def results(study, score, trials=8, names=NAMES, cells="all", visits=()):
    """All runs of a study. `score(flags, seed, task, stage, layout)` has tasks and stages from 1, 0 for tasks alone.

    `names` may be a function of a group's flags. `visits` has the task of every stage, from 1, where tasks come back.
    """
    groups = []
    for label, flags in study.groups:
        learned = names(flags) if callable(names) else names
        runs = {seed: _run(flags, seed, learned, score, trials, cells, visits) for seed in study.seeds}
        groups.append(RunGroup(label, flags, runs))
    return StudyResults(study, tuple(groups))


def _run(flags, seed, names, score, trials, cells, visits):
    size, arrangement = len(names), method_class(flags["method"]).arrangement
    learned = visits or range(1, size + 1)
    stages = [(j, i, sorted(set(learned[:j]))) for j, i in enumerate(learned, 1)]
    found = [(i, j) for j, own, seen in stages for i in seen if cells == "all" or i == own or j == len(learned)]
    if arrangement != "stream":
        visits = ()
        found = [(i, size) for i in range(1, size + 1)]
    made = tuple(
        Trial(names[i - 1], j, (), source="twin", seed=layout, level="standard", score=float(value))
        for i, j in found
        for layout in range(trials)
        if (value := score(flags, seed, i, 0 if arrangement == "alone" else j, layout)) is not None
    )
    return RunResults(
        path=Path(f"runs/{seed}"),
        name=f"run-{seed}",
        method=flags["method"],
        arrangement=arrangement,
        tasks=tuple(catalog.task(name) for name in names),
        config={"seed": seed},
        matrix=Matrix(names, {}, visits=tuple(visits)),
        trials=made,
        heldout=None,
        range_checks=(),
        stages=(),
    )

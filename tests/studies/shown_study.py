"""A made-up study: `sequential` forgets, `er` keeps the more the more it replays, and other seeds differ a little."""

from pathlib import Path

import numpy as np

from holdfast import catalog
from holdfast.arenas.board import PANEL
from holdfast.core.film import Film
from holdfast.core.records import Matrix, Trial
from holdfast.methods import METHODS
from holdfast.report.gather import RunResults, StageLog
from holdfast.rubric import score
from holdfast.studies import Study
from holdfast.studies.results import RunGroup, StudyResults

FLAGS = {"stream": "single_arm", "steps": 400}
GRIDS = (
    {"method": "er", "replay.frequency": [0.05, 0.2, 0.5]},
    {"method": ["sequential", "joint", "finetune"]},
)


def made_up(folder, train=FLAGS, grids=GRIDS, seeds=(1, 2, 3), trials=20, cells="all", video=None, **more):
    """The results of a study. `video(path)` writes a video of the first trial of every task after the last stage,
    in the runs of the first seed.
    """
    study = Study("made-up", dict(train), "How often must old tasks be replayed?", seeds=seeds, grids=grids, **more)
    groups = {}
    for run in study.runs():
        group = groups.setdefault(run.label, RunGroup(run.label, run.flags, {}))
        film = video if run.seed == seeds[0] else None
        group.runs[run.seed] = _results(Path(folder) / run.name, run.flags, run.seed, trials, cells, film)
    return StudyResults(study, tuple(groups.values()))


def write_film(path):
    """Two seconds of a square that moves to the right, with a white rubric beside it, as evaluation films trials."""
    with Film(path, rate=10) as film:
        for n in range(20):
            picture = np.full((360, 480 + PANEL, 3), 255, np.uint8)
            picture[:, :480] = 40
            picture[160:200, 20 * n : 20 * n + 40] = 200
            film.add(picture)


def _results(path, flags, seed, trials, cells, video):
    method = flags.get("method", "er")
    tasks = [
        entry.task for entry in catalog.load_stream(flags["stream"], data_root=".").only(flags.get("tasks", [])).tasks
    ]
    frequency = flags.get("replay.frequency", 0.2)
    size, found = len(tasks), []
    for i, j in _cells(method, size, cells):
        skill = _skill(method, i, j, frequency, seed)
        found += [
            _trial(path, tasks[i - 1], i, j, n, seed, skill, video if n == 0 and j == size else None)
            for n in range(trials)
        ]
    scores = {}
    for trial in found:
        key = [task.name for task in tasks].index(trial.task) + 1, trial.stage
        scores[key] = (*scores.get(key, ()), trial.score)
    config = {"method": method, "seed": seed, "steps": 400, "replay": {"ratio": 0.2, "frequency": frequency}}
    return RunResults(
        path=path,
        name=path.name,
        method=method,
        arrangement=METHODS[method].arrangement,
        tasks=tuple(tasks),
        config=config | {"norm": {"strategy": flags.get("norm.strategy", "frozen-first")}},
        matrix=Matrix(tuple(task.name for task in tasks), scores),
        trials=tuple(found),
        heldout=None,
        range_checks=(),
        stages=tuple(_stage(n, task, tasks[: n - 1], seed) for n, task in enumerate(tasks, 1)),
    )


def _cells(method, size, cells):
    """As `RunResults` has them: without stages, all scores are in the last row."""
    if method in ("joint", "finetune"):
        return [(i, size) for i in range(1, size + 1)]
    whole = [(i, j) for j in range(1, size + 1) for i in range(1, j + 1)]
    return whole if cells == "all" else [(i, j) for i, j in whole if j in (i, size)]


def _skill(method, i, j, frequency, seed):
    """How likely each next milestone is."""
    rng = np.random.default_rng((i, seed))
    kept = {"sequential": 0.0, "er": 1.16 * frequency**0.09, "ewc": 0.2}.get(method, 1.0)
    loss = 0 if method in ("joint", "finetune") else 0.5 * (j - i) * max(0.0, 1 - kept)
    learned = {"joint": 0.9, "finetune": 0.86}.get(method, 0.95 - 0.1 * frequency)
    return float(np.clip(learned - loss + rng.normal(0, 0.03), 0.05, 1))


def _trial(path, task, i, j, layout, seed, skill, video):
    rng = np.random.default_rng((i, j, layout, seed))
    reached = []
    for milestone in task.milestones:
        if rng.random() > skill:
            break
        reached.append(milestone.name)
    name = ""
    if video:
        name = f"videos/{j:02d}-{task.name}.mp4"
        (path / "videos").mkdir(parents=True, exist_ok=True)
        video(path / name)
    return Trial(
        task=task.name,
        stage=j,
        milestones=tuple(reached),
        source="twin",
        seed=layout,
        level="standard",
        times={milestone: 0.4 * (n + 1) for n, milestone in enumerate(reached)},
        seconds=2.0,
        score=score(task, reached, {}),
        video=name,
    )


def _stage(number, task, old, seed):
    lines = []
    for step in range(20, 401, 20):
        falling = 0.02 + 0.8 * np.exp(-step / 90) + 0.004 * (seed + step % 3)
        arms = {"left": falling, "right": falling if len(task.arms) == 2 else 0.05 * falling}
        samples = {task.name: 512} | {one.name: 32 for one in old}
        lines.append({"step": step, "steps": 20, "samples": samples, "loss_by_arm": arms})
    return StageLog(number, task.name, tuple(lines), {})

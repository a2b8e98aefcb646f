"""Made-up run folders: `sequential` forgets, `er` keeps. Written as training and evaluation write them."""

import json
from dataclasses import asdict

import av
import numpy as np
import yaml

from holdfast import catalog
from holdfast.core.records import Trial
from holdfast.rubric import score
from holdfast.runs.trials import Trials

NAMES = ("stack_bowls", "hang_cup", "press_button", "fold_towel", "push_box")


def write_run(folder, method="er", names=NAMES, trials=8, heldout=True, video=None, evaluated=True):
    """A run of `method` on catalog tasks. `video(path)` writes a video file for the first trial of every cell."""
    tasks = [catalog.task(name) for name in names]
    folder.mkdir(parents=True)
    config = {"method": method, "seed": 42, "steps": 400, "norm": {"strategy": "frozen-first", "limit": 10.0}}
    described = json.loads(json.dumps([asdict(task) for task in tasks]))
    (folder / "run.yaml").write_text(yaml.safe_dump({"config": config, "tasks": described}, sort_keys=False))
    _write_training(folder, method, tasks)
    cells = list(_cells(method, len(tasks)))
    if evaluated:
        stored = Trials(folder / "trials.sqlite")
        for i, j in cells:
            for seed in range(trials):
                stored.add(_trial(folder, method, tasks[i - 1], i, j, seed, video if seed == 0 else None))
    if heldout:
        scores = {f"{i},{j}": [100 * _skill(method, i, j) - 5 + n for n in range(3)] for i, j in cells}
        (folder / "heldout.json").write_text(json.dumps({"tasks": list(names), "cells": scores}))
    return folder


def judge_by_hand(folder, cells, operator="Ada"):
    """Add an operator's trials: `cells` has the scores by task and stage."""
    names = [task["name"] for task in yaml.safe_load((folder / "run.yaml").read_text())["tasks"]]
    with Trials(folder / "trials.sqlite") as stored:
        for (i, j), scores in cells.items():
            for number, value in enumerate(scores, 1):
                by_hand = {"source": "operator", "operator": operator, "seconds": 20.0, "when": 1.7e9 + number}
                stored.add(Trial(names[i - 1], j, (), score=value, **by_hand))


def write_video(path, frames=30, size=64):
    """A small h264 video of a moving square, as evaluation writes them."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=15)
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        for n in range(frames):
            picture = np.full((size, size, 3), 40, np.uint8)
            picture[20:36, n : n + 12] = 200
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode(None))


def _cells(method, size):
    if method == "joint":
        return [(i, 1) for i in range(1, size + 1)]
    if method == "finetune":
        return [(i, i) for i in range(1, size + 1)]
    return [(i, j) for j in range(1, size + 1) for i in range(1, j + 1)]


def _skill(method, i, j):
    """How likely each next milestone is."""
    if method == "finetune":
        return 0.9
    return 0.95 if method != "sequential" or i == j else max(0.15, 0.7 - 0.25 * (j - i))


def _trial(folder, method, task, i, j, seed, video):
    rng = np.random.default_rng((i, j, seed))
    reached = []
    for milestone in task.milestones:
        if rng.random() > _skill(method, i, j):
            break
        reached.append(milestone.name)
    penalties = {task.penalties[0].name: 1} if task.penalties and seed % 4 == 3 and reached else {}
    name = ""
    if video:
        name = f"videos/{j:02d}-{task.name}-{seed}.mp4"
        (folder / "videos").mkdir(exist_ok=True)
        video(folder / name)
    return Trial(
        task=task.name,
        stage=j,
        milestones=tuple(reached),
        penalties=penalties,
        source="twin",
        seed=seed,
        level="standard",
        seconds=12.0,
        score=score(task, reached, penalties),
        video=name,
    )


def _write_training(folder, method, tasks):
    events = []
    stages = [(1, "joint", tasks)] if method == "joint" else [(n, t.name, [t]) for n, t in enumerate(tasks, 1)]
    for number, name, learned in stages:
        stage = folder / "stages" / f"{number:02d}-{name}"
        (stage / "checkpoint").mkdir(parents=True)
        old = tasks[: number - 1] if method == "er" else []
        lines = [_line(step, learned, old) for step in range(20, 401, 20)]
        (stage / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        kept = [
            {"task": t.name, "fingerprint": "x", "total": 100, "episodes": list(range(20 // number))}
            for t in (tasks[:number] if method == "er" else [])
        ]
        (stage / "checkpoint" / "buffer.json").write_text(json.dumps({"ratio": 0.2, "tasks": kept}))
        (stage / "checkpoint" / "manifest.json").write_text("{}")
        for task in learned:
            rows = [_dimension(f"left_joint_{d}.pos", d, number) for d in range(1, 7)]
            events.append({"time": 0.0, "stage": number, "event": "open", "dataset": task.name, "root": "data"})
            events.append({"stage": number, "event": "audit", "space": "abc", "task": task.name, "rows": rows})
    (folder / "audit.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def _line(step, learned, old):
    share = {t.name: 256 // len(learned) for t in learned} | {t.name: 64 // len(old) for t in old}
    loss = {t.name: 0.9 * np.exp(-step / 120) + 0.05 for t in learned} | {t.name: 0.08 + step / 20000 for t in old}
    replayed = 4 if old else 0
    return {"step": step, "loss": 0.1, "steps": 20, "replay_steps": replayed, "samples": share, "loss_by_task": loss}


def _dimension(name, d, number):
    return {
        "feature": "action", "name": name, "low": -0.1 * d, "high": 0.1 * d, "outside": 0.01 * d,
        "largest": 1.0 + 0.2 * d * number, "widened": d == 6,
    }  # fmt: skip

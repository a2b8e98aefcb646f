"""Episodes to look at: a policy in the cell or a recorded episode, moment by moment, as a video or in the viewer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast import rubric
from holdfast.catalog import task as catalog_task
from holdfast.core.errors import HoldfastError
from holdfast.core.film import Film
from holdfast.core.records import Task, Trial
from holdfast.data.lerobot.source import IMAGES, Source, open_source
from holdfast.twin.board import board
from holdfast.twin.cell import CAMERAS, CONTROL_HZ
from holdfast.twin.env import CellEnv
from holdfast.twin.recording_shards import read_notes
from holdfast.twin.scripted import ScriptedPolicy


@dataclass(frozen=True)
class Moment:
    """One picture of an episode: what the cameras saw, and what had been reached; no trial where nobody scored."""

    seconds: float
    images: dict[str, np.ndarray]
    trial: Trial | None


def moments(env: CellEnv, policy: ScriptedPolicy, size: tuple[int, int]) -> Iterator[Moment]:
    """A policy's episode in an environment just reset, from the first moment to the last."""
    yield _moment(env, size)
    while not env.over and (action := policy.act()) is not None:
        env.step(action)
        yield _moment(env, size)


def recorded_moments(dataset: str, episode: int) -> tuple[Task, Iterator[Moment]]:
    """A recorded episode and its task; one of the twin is scored by repeating its actions in the cell."""
    source = open_source(dataset)
    if not 0 <= episode < len(source.starts):
        raise HoldfastError(f"{dataset} has episodes 0 to {len(source.starts) - 1}, got {episode}.")
    notes = read_notes(source.root)
    if notes is None:
        return Task(source.root.name, "Recorded elsewhere: not scored.", ("any",)), _shown(source, episode, None)
    env = CellEnv(notes["order"]["task"])
    env.reset(notes["seeds"][episode], notes["order"]["level"])
    return catalog_task(env.task.name), _shown(source, episode, env)


def write_video(path: Path, task: Task, shown: Iterable[Moment]) -> Moment:
    """Draw moments into a video; returns the last one."""
    with Film(path, CONTROL_HZ) as film:
        for moment in shown:
            film.add(board(task, moment.images, moment.trial, moment.seconds))
    return moment


def show(env: CellEnv, policy: ScriptedPolicy, say: Callable[[str], None]) -> None:
    """Play an episode in MuJoCo's interactive viewer at its real pace, and say what is reached; needs a screen."""
    import mujoco.viewer

    with mujoco.viewer.launch_passive(env.world.model, env.world.data) as viewer:
        due, said = time.monotonic(), set[str]()
        while viewer.is_running() and not env.over and (action := policy.act()) is not None:
            env.step(action)
            viewer.sync()
            for line in sorted(_events(env.task.record, env.trial()) - said):
                said.add(line)
                say(f"{env.seconds:5.1f} s  {line}")
            due += 1 / CONTROL_HZ
            time.sleep(max(0.0, due - time.monotonic()))
        say(f"score {env.score():.0f} of 100; close the window to end")
        while viewer.is_running():
            time.sleep(0.05)


def _moment(env: CellEnv, size: tuple[int, int]) -> Moment:
    return Moment(env.seconds, env.observe(size, CAMERAS).images, env.trial())


def _shown(source: Source, episode: int, env: CellEnv | None) -> Iterator[Moment]:
    frames = np.arange(source.starts[episode], source.ends[episode])
    views = {
        camera.key.removeprefix(IMAGES): source.images(camera, frames).permute(0, 2, 3, 1).numpy()
        for camera in source.cameras
    }
    for i, frame in enumerate(frames):
        images = {name: view[i] for name, view in views.items()}
        yield Moment(i / source.fps, images, env.trial() if env else None)
        if env:
            env.step(source.action[frame])
    if env:  # what the last action brought about was seen by no camera, but it counts
        yield Moment(len(frames) / source.fps, images, env.trial())


def _events(task: Task, trial: Trial) -> set[str]:
    reached = {f"+ {name}" for name in rubric.awarded(task, trial.milestones, trial.final)}
    return reached | {f"- {name}" for name in trial.penalties}

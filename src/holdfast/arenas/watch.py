"""Shows episodes, of a policy in an arena or of a recording, as a video or in a window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast import arenas, rubric
from holdfast.arenas.arena import ActingPolicy
from holdfast.arenas.board import board
from holdfast.arenas.recording_shards import read_notes
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.core.errors import HoldfastError
from holdfast.core.film import Film
from holdfast.core.records import Reached, Task
from holdfast.data.lerobot.source import Source, camera_name, open_source

_RATE = 15  # pictures per second of an episode that is acted


@dataclass(frozen=True)
class Moment:
    """One picture of an episode: what the cameras saw, and what had been reached; None if it is not scored."""

    seconds: float
    images: dict[str, np.ndarray]
    reached: Reached | None


@dataclass(frozen=True)
class Shown:
    """An episode to be shown: its task, its pictures per second, and its moments."""

    task: Task
    rate: int
    moments: Iterator[Moment]


def acted(episode: ScoredEpisode, policy: ActingPolicy, size: tuple[int, int]) -> Shown:
    """A policy's episode, which has just begun, from its first moment to its last; a few steps apart."""
    every = max(1, episode.arena.rate // _RATE)

    def moments() -> Iterator[Moment]:
        yield _moment(episode, size)
        while not episode.over and (action := policy.act()) is not None:
            episode.step(action)
            if episode.steps % every == 0:
                yield _moment(episode, size)
        if episode.steps % every:
            yield _moment(episode, size)

    return Shown(episode.task, episode.arena.rate // every, moments())


def recorded(dataset: str, number: int, arena: str) -> Shown:
    """A recorded episode; one of this arena is scored by repeating its actions there.

    If the dataset names another arena, that arena is not loaded, since loading it would run its code.
    """
    source = open_source(dataset)
    if not 0 <= number < len(source.starts):
        raise HoldfastError(f"{dataset} has episodes 0 to {len(source.starts) - 1}, got {number}.")
    notes = read_notes(source.root)
    origin = None if notes is None else notes["order"].get("arena", "twin")
    if notes is None or origin != arena:
        note = "Recorded elsewhere: not scored." if notes is None else f"Scored only with --arena {origin}."
        return Shown(Task(source.root.name, note, ("any",)), round(source.fps), _repeated(source, number, None))
    if number >= len(notes["seeds"]):
        raise HoldfastError(f"{dataset} does not say which layout episode {number} was recorded in.")
    loaded = arenas.load(arena)
    episode = ScoredEpisode(loaded, loaded.task(notes["order"]["task"]))
    episode.begin(notes["seeds"][number], notes["order"]["level"])
    return Shown(episode.task, round(source.fps), _repeated(source, number, episode))


def write_video(path: Path, shown: Shown) -> Moment:
    """Draw an episode into a video; returns its last moment."""
    with Film(path, shown.rate) as film:
        for moment in shown.moments:
            film.add(board(shown.task, moment.images, moment.reached, moment.seconds))
    return moment


def show(episode: ScoredEpisode, policy: ActingPolicy, say: Callable[[str], None]) -> None:
    """Play an episode in the arena's window in real time, and print what is reached; needs a display."""
    with episode.arena.view(episode.environment) as viewer:
        due, said = time.monotonic(), set[str]()
        while viewer.is_running() and not episode.over and (action := policy.act()) is not None:
            episode.step(action)
            viewer.sync()
            for line in sorted(set(_events(episode.task, episode.reached)) - said):
                said.add(line)
                say(f"{episode.seconds:5.1f} s  {line}")
            due += 1 / episode.arena.rate
            time.sleep(max(0.0, due - time.monotonic()))
        say(f"score {episode.score:.0f} of 100; close the window to end")
        while viewer.is_running():
            time.sleep(0.05)


def _moment(episode: ScoredEpisode, size: tuple[int, int]) -> Moment:
    return Moment(episode.seconds, episode.show(size), episode.reached)


def _repeated(source: Source, number: int, episode: ScoredEpisode | None) -> Iterator[Moment]:
    frames = np.arange(source.starts[number], source.ends[number])
    views = {
        camera_name(camera.key): source.images(camera, frames).permute(0, 2, 3, 1).numpy() for camera in source.cameras
    }
    for i, frame in enumerate(frames):
        images = {name: view[i] for name, view in views.items()}
        yield Moment(i / source.fps, images, episode.reached if episode else None)
        if episode:
            episode.step(source.action[frame])
    if episode:  # the result of the last action counts, though no camera recorded it
        yield Moment(len(frames) / source.fps, images, episode.reached)


def _events(task: Task, reached: Reached) -> Iterable[str]:
    if not task.milestones:
        return ["+ success"] if reached.final else []
    counted = rubric.awarded(task, reached.milestones, reached.final)
    return [*(f"+ {name}" for name in counted), *(f"- {name}" for name in reached.penalties)]

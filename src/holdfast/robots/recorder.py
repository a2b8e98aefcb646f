"""What is kept of an attempt: a video to score it by, a live picture, and its frames as a LeRobot episode."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from PIL import Image

from holdfast.core.errors import HoldfastError
from holdfast.core.film import Film
from holdfast.core.observation import Observation
from holdfast.core.records import Task
from holdfast.data.lerobot.writer import add_patiently, dataset_writer, frame
from holdfast.robots.limits import Command
from holdfast.robots.robot import Robot

_FILM_STEP = 3  # control steps between two pictures of the video
_LIVE_STEP = 9  # and between two live ones
_QUALITY = 26


class Dataset:
    """A new LeRobot dataset with one episode per attempt; actions are the commands sent to the arms."""

    def __init__(self, root: Path, patient: bool = False) -> None:
        """Check the folder; `open` creates the dataset.

        Args:
            root: Folder that does not exist yet.
            patient: Whether adding a frame may wait for the video encoders; not while a real robot moves.
        """
        if root.exists():
            raise HoldfastError(f"{root} exists already. Give --record a new folder.")
        self._root, self._add = root, add_patiently if patient else _add
        self._stack = ExitStack()
        self._writer: Any = None
        self._frames = 0
        self.episodes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self, robot: Robot) -> None:
        """Create the dataset for a robot's cameras, once. It takes seconds, so do it before the arms move."""
        if self._writer is not None:
            return
        images = robot.observe().images
        sizes = {image.shape for image in images.values()}
        if len(sizes) != 1:
            raise HoldfastError(f"A dataset needs cameras of one size, these have {sorted(sizes)}.")
        height, width, _ = sizes.pop()
        self._writer = self._stack.enter_context(
            dataset_writer(
                self._root,
                fps=robot.rate,
                names=robot.embodiment.names,
                cameras=tuple(images),
                height=height,
                width=width,
                robot=robot.embodiment.name,
            )
        )

    def add(self, task: Task, seen: Observation, pose: np.ndarray) -> None:
        """Add a frame to the episode."""
        self._add(self._writer, frame(task.instruction, seen.state, pose, seen.images))
        self._frames += 1

    def end(self) -> int | None:
        """End the episode and return its number; None if it has no frames."""
        if not self._frames:
            return None
        self._writer.save_episode()
        self._frames = 0
        self.episodes += 1
        return self.episodes - 1


def _add(dataset: Any, sample: dict[str, Any]) -> None:
    dataset.add_frame(sample)


class Recorder:
    """Keeps one attempt."""

    def __init__(self, robot: Robot, task: Task, film: Path | None, live: Path | None, dataset: Dataset | None) -> None:
        """Open the video and the dataset.

        Args:
            robot: Gives the pictures.
            task: The task of the attempt.
            film: Video to write.
            live: File with the latest picture, for as long as the attempt lasts.
            dataset: Gets the frames.
        """
        self._robot, self._task, self._live, self._dataset = robot, task, live, dataset
        self._film = Film(film, robot.rate // _FILM_STEP, _QUALITY) if film else None
        self._steps = 0
        if dataset:
            dataset.open(robot)
        self._shoot(True)  # the first picture takes longest, so it is taken before the arms move

    def see(self, seen: Observation, command: Command) -> None:
        """Keep one control step."""
        if self._dataset:
            self._dataset.add(self._task, seen, command.pose)
        self._steps += 1
        if self._steps % _FILM_STEP == 0:
            self._shoot(self._steps % _LIVE_STEP == 0)

    def close(self) -> int | None:
        """End the video and the episode; returns the episode's number, if there is one."""
        if self._film:
            self._shoot(False)
            self._film.close()
        if self._live:
            self._live.unlink(missing_ok=True)
        return self._dataset.end() if self._dataset else None

    def _shoot(self, live: bool) -> None:
        if self._film is None:
            return
        picture = self._robot.picture()
        self._film.add(picture)
        if live and self._live:
            aside = self._live.with_name(f".{self._live.name}.{os.getpid()}")
            aside.unlink(missing_ok=True)  # a link would be written through
            Image.fromarray(picture).save(aside, "JPEG", quality=80)
            aside.replace(self._live)

"""The paths of all files of a run. Only this package builds them.

```
run.yaml            settings that decide the weights, and the tasks; a different command is refused
embodiment.json     the robot, with its SHA-256; a changed robot is refused
method.json         a method of the user's own, with the SHA-256 of its file; a changed file is refused
selection.json      a selection of the user's own, likewise
frames.json         image format of each task's cache
data_files.json     each task's dataset as it was trained on, with a hash of every file
audit.jsonl         the run log: datasets opened, mappings, range checks, disk, each with its stage
buffer/NAME/20/     copies of 20 kept episodes, with `--replay.store=copy` (see replay/store.py)
stages/02-NAME/
    checkpoint/     what the stage has learned (see checkpoint.py)
    progress/step-00000500/     training.safetensors, state.json, manifest.json: to go on from after a kill
                    (sharded: a .distcp file for every rank and .metadata instead)
    metrics.jsonl   losses
    tensorboard/    with `--log.tensorboard`
trials.sqlite       all trials, append-only
videos/02-NAME/twin/*.mp4       filmed trials, by stage and arena
rollouts/0001/      video.mp4 and rollout.json of an attempt on a robot
live.jpg            the robot's latest image, while an attempt runs
scoring.sqlite      every tick of every scoring sheet, append-only
next.json           which checkpoints operators wait for
heldout.json        scores on held-out demonstrations, by cell
report/             index.html, metrics.json, figures/
```
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.checked_folder import check_no_link
from holdfast.core.records import Stage
from holdfast.runs.checkpoint import Checkpoint

_VIDEOS, _ROLLOUTS, _VIDEO, _ROLLOUT = "videos", "rollouts", "video.mp4", "rollout.json"


@dataclass(frozen=True)
class StagePaths:
    """The files of one stage."""

    folder: Path

    @property
    def number(self) -> int:
        """The stage's number, from 1."""
        return int(self.folder.name.partition("-")[0])

    @property
    def name(self) -> str:
        """The stage's name: in a stream, the task it learns."""
        return self.folder.name.partition("-")[2]

    @property
    def metrics(self) -> Path:
        """Losses, a line for every few steps."""
        return self.folder / "metrics.jsonl"

    @property
    def progress(self) -> Path:
        """Checkpoints to continue from after a kill."""
        return self.folder / "progress"

    @property
    def tensorboard(self) -> Path:
        """What TensorBoard shows, with `--log.tensorboard`."""
        return self.folder / "tensorboard"

    @property
    def checkpoint(self) -> Checkpoint:
        """The final checkpoint, which may not exist yet."""
        return Checkpoint(self.folder / "checkpoint")


@dataclass(frozen=True)
class RolloutPaths:
    """The files of one attempt on a robot."""

    folder: Path

    @property
    def video(self) -> Path:
        """Its video."""
        return self.folder / _VIDEO

    @property
    def record(self) -> Path:
        """The attempt's record, written at its end."""
        return self.folder / _ROLLOUT


@dataclass(frozen=True)
class RunPaths:
    """The files of a run."""

    root: Path

    @property
    def settings(self) -> Path:
        """Settings and tasks."""
        return self.root / "run.yaml"

    @property
    def embodiment(self) -> Path:
        """The robot that the run is trained for."""
        return self.root / "embodiment.json"

    @property
    def method(self) -> Path:
        """A method of the user's own."""
        return self.root / "method.json"

    @property
    def selection(self) -> Path:
        """A selection of the user's own."""
        return self.root / "selection.json"

    @property
    def log(self) -> Path:
        """The run's log."""
        return self.root / "audit.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the process that trains."""
        return self.root / ".lock"

    @property
    def frame_formats(self) -> Path:
        """Format of the cached frames by task."""
        return self.root / "frames.json"

    @property
    def data_files(self) -> Path:
        """The tasks' datasets, with a hash of every file."""
        return self.root / "data_files.json"

    @property
    def trials(self) -> Path:
        """All trials."""
        return self.root / "trials.sqlite"

    @property
    def heldout(self) -> Path:
        """Scores on held-out demonstrations."""
        return self.root / "heldout.json"

    @property
    def sheets(self) -> Path:
        """The operators' scoring sheets."""
        return self.root / "scoring.sqlite"

    @property
    def next_attempts(self) -> Path:
        """Which checkpoints operators wait for."""
        return self.root / "next.json"

    @property
    def live_picture(self) -> Path:
        """The current camera picture of a rollout."""
        return self.root / "live.jpg"

    @property
    def rollouts(self) -> Path:
        """Folder of all attempts on a robot."""
        return self.root / _ROLLOUTS

    @property
    def report(self) -> Path:
        """The page of `holdfast report`, beside its numbers and figures."""
        return self.root / "report" / "index.html"

    @property
    def stages(self) -> Path:
        """Folder of all stages; `run.py` says which of its folders are some."""
        return self.root / "stages"

    @property
    def buffer(self) -> Path:
        """The run's own copies of kept episodes."""
        return self.root / "buffer"

    def stage(self, stage: Stage) -> StagePaths:
        """The files of a stage."""
        return StagePaths(self.stages / stage.folder)

    @property
    def videos(self) -> Path:
        """The videos of evaluated trials."""
        return self.root / _VIDEOS

    def evaluation_video(self, stage: str, source: str, task: str, seed: int) -> str:
        """The video of an evaluated trial, relative to the run; `stage` is the name of the stage's folder."""
        return f"{_VIDEOS}/{stage}/{source}/{task}-{seed:04d}.mp4"

    def finished_rollouts(self) -> Iterator[RolloutPaths]:
        """The attempts that are over, in order."""
        for file in sorted(self.rollouts.glob(f"*/{_ROLLOUT}")):
            yield RolloutPaths(file.parent)

    def new_rollout(self) -> RolloutPaths:
        """A new folder for an attempt; two processes that call this at once get different ones."""
        check_no_link(self.rollouts, self.root)
        self.rollouts.mkdir(exist_ok=True)
        number = max((int(path.name) for path in self.rollouts.iterdir() if path.name.isdecimal()), default=0)
        while True:
            number += 1
            try:
                (self.rollouts / f"{number:04d}").mkdir()
            except FileExistsError:
                continue
            return RolloutPaths(self.rollouts / f"{number:04d}")

    def find_video(self, video: str, kinds: Container[str] = (".mp4",)) -> Path | None:
        """The file of a trial's video if it can be read and has one of these suffixes."""
        file = self.find_file(video)
        return file if file and file.suffix.lower() in kinds else None

    def find_file(self, name: str) -> Path | None:
        """A regular file inside the run's folder: no pipe, no link to the outside, no name that no file can have."""
        root = self.root.resolve()
        try:
            file = (root / name).resolve()
            return file if file.is_relative_to(root) and file.is_file() else None
        except (OSError, ValueError):
            return None

    def relative(self, file: Path) -> str:
        """A file's path as trials store it, relative to the run."""
        return file.relative_to(self.root).as_posix()


def is_evaluation_video(video: str) -> bool:
    """Whether a trial's video was filmed by `holdfast evaluate`, which draws the rubric beside the picture."""
    return video.startswith(f"{_VIDEOS}/")

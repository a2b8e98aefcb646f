"""A bundle: one folder with all that a policy needs to act, and nothing that can be changed unnoticed.

```
bundle/policy/               weights and processors, as LeRobot saves and loads them
       normalization.json    every space of the run, with its hash
       bundle.json           tasks with prompts and rubrics, embodiment, cameras, transforms, versions
       manifest.json         SHA-256 of every other file; its own SHA-256 is the bundle's name in the world
```
The first two lie as in a stage's checkpoint, so whatever loads a checkpoint loads a bundle.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from holdfast import __version__, catalog, embodiments
from holdfast.core import checked_folder as checkpoint
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json, read_content, to_json
from holdfast.core.records import Task
from holdfast.data.lerobot.folder import camera_name
from holdfast.embodiments.embodiment import Embodiment
from holdfast.norm.strategies import Normalization
from holdfast.runs.checkpoint import NORMALIZATION, POLICY, WEIGHTS, Checkpoint
from holdfast.runs.embodiment import find_embodiment
from holdfast.runs.run import FinishedStage, Run, read_run
from holdfast.runs.settings import read_task

FORMAT = 1
ABOUT = "bundle.json"
IDLE = "hold at the measured pose"
_KINDS = (".json", ".safetensors", ".md", ".txt")
_ONLY = f"files of the kinds {', '.join(_KINDS)} only, as loading them runs no code"


@dataclass(frozen=True)
class Bundle:
    """A bundle whose every byte was checked."""

    path: Path
    hash: str
    weights: str  # their SHA-256
    normalization: Normalization
    tasks: dict[str, Task]
    embodiment: Embodiment | None
    names: tuple[str, ...]  # of the action
    state_names: tuple[str, ...]
    cameras: dict[str, tuple[int, int]]  # height and width
    fps: float
    about: dict[str, Any]  # bundle.json


def make(run: Path, number: int | None, output: Path, embodiment: str | None = None) -> Bundle:
    """Write the bundle of a run's stage; it appears whole or not at all.

    Args:
        run: A run's folder.
        number: The stage; None takes the last finished one.
        output: The new folder.
        embodiment: Name or file of the robot; None takes the one that the run was trained for.
    """
    if output.exists():
        raise HoldfastError(f"{output} exists already. Name another --output, or delete it first.")
    read = read_run(run)
    stage = _stage(read, number)
    files = stage.checkpoint
    problem = checkpoint.verify(files.folder)
    if problem:
        raise HoldfastError(
            f"Checkpoint {files.folder} is damaged: {problem}. Run the same `holdfast train` command again to mend it."
        )
    about = _about(read, stage, embodiment)

    def fill(target: Path) -> None:
        shutil.copytree(files.policy, target / POLICY)
        shutil.copyfile(files.normalization_file, target / NORMALIZATION)
        (target / ABOUT).write_text(json.dumps(about, indent=1))
        for name in sorted(_files(target)):
            if Path(name).suffix not in _KINDS:
                raise HoldfastError(f"{files.folder / name} has no place in a bundle: {_ONLY}.")

    checkpoint.write(output, fill, needed=sum(p.stat().st_size for p in files.policy.rglob("*")))
    return load(output)


def load(folder: Path) -> Bundle:
    """Read a bundle; one that was altered or is incomplete is refused, with the file that is to blame."""
    folder = folder.resolve()  # where `current` points to now
    problem = verify(folder)
    if problem:
        raise HoldfastError(f"{folder} is no sound bundle: {problem}. Make it again: holdfast bundle RUN --stage K")
    about = json.loads((folder / ABOUT).read_text())
    if about["format"] != FORMAT:
        raise HoldfastError(
            f"{folder} was written by holdfast {about['holdfast']} in format {about['format']}; this is holdfast "
            f"{__version__}, which reads format {FORMAT}. Update it, or make the bundle again."
        )
    tasks = [read_task(table) for table in about["tasks"]]
    return Bundle(
        path=folder,
        hash=checkpoint.file_hash(folder / checkpoint.MANIFEST),
        weights=checkpoint.file_hash(folder / WEIGHTS),
        normalization=Checkpoint(folder).normalization,
        tasks={task.name: task for task in tasks},
        embodiment=_embodiment(about["embodiment"], folder / ABOUT),
        names=tuple(about["names"]),
        state_names=tuple(about.get("state_names", about["names"])),
        cameras={name: (height, width) for name, (height, width) in about["cameras"].items()},
        fps=about["fps"],
        about=about,
    )


def verify(folder: Path) -> str | None:
    """Say what is wrong with a bundle, or None when it has every file with its bytes, and no other."""
    file = folder / checkpoint.MANIFEST
    if not file.is_file() or file.is_symlink():
        return f"there is no {checkpoint.MANIFEST}" if folder.is_dir() else "there is no such folder"
    try:
        text = file.read_text()
        manifest: dict[str, str] = json.loads(text)
        if text != json.dumps(manifest, indent=1):
            return f"{checkpoint.MANIFEST} was altered"
    except (OSError, ValueError):
        return f"{checkpoint.MANIFEST} cannot be read"
    found = _files(folder) - {checkpoint.MANIFEST}
    for name in sorted({ABOUT, NORMALIZATION, WEIGHTS, *manifest} - found):
        return f"{name} is missing"
    for name in sorted(found - manifest.keys()):
        return f"{name} is not of it"
    for name, digest in manifest.items():
        if (folder / name).is_symlink():
            return f"{name} is a link"
        if Path(name).suffix not in _KINDS:
            return f"{name} has no place in it: {_ONLY}"
        if checkpoint.file_hash(folder / name) != digest:
            return f"{name} does not have the bytes that were written"
    return None


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def _stage(run: Run, number: int | None) -> FinishedStage:
    finished = {stage.number: stage for stage in run.stages}
    if number is not None and number not in finished:
        raise unknown(f"finished stage of {run.path}", number, finished)
    return finished[max(finished) if number is None else number]


def _about(run: Run, stage: FinishedStage, asked: str | None) -> dict[str, Any]:
    """Everything but weights and statistics, as plain values."""
    files = stage.checkpoint
    schema, policy = files.schema, files.policy_config
    robot = _find_embodiment(run, files, asked)
    reads = [key for key in policy["input_features"] if key in schema["cameras"]]
    tasks = [task for task in run.tasks if task.name in stage.seen]
    if robot is not None:
        for task in tasks:
            robot.active(task.arms)  # arms it does not have are named
    return {
        "format": FORMAT,
        "holdfast": __version__,
        "lerobot": version("lerobot"),
        "run": run.path.resolve().name,
        "method": run.method,
        "stage": stage.number,
        "learned": stage.name,
        "policy": policy["type"],
        "normalization": files.normalization.hash,
        "tasks": [to_json(task) for task in tasks],
        "embodiment": to_json(robot),
        "idle": IDLE,
        "names": schema["names"],
        **{key: schema[key] for key in ("state_names",) if key in schema},  # where they are not the action's
        "cameras": {camera_name(key): schema["cameras"][key] for key in reads},
        "fps": schema["fps"],
        "transforms": {name: _steps(files.policy, name) for name in ("preprocessor", "postprocessor")},
    }


def _find_embodiment(run: Run, files: Checkpoint, asked: str | None) -> Embodiment | None:
    """The robot that was asked for, or the one stored in the run, or for older runs the one their stream names."""

    def of_stream() -> Embodiment | None:
        try:
            stream = catalog.load_stream(files.config["stream"], files.config["data_root"])
            return embodiments.load(stream.embodiment) if stream.embodiment else None
        except HoldfastError as error:
            raise HoldfastError(f"{error} Or say which robot it is: --embodiment=piper_x_pair, or a file.") from None

    names = files.schema["names"]
    robot = embodiments.load(asked) if asked else find_embodiment(run.paths.embodiment, of_stream)
    if robot is not None and robot.names != tuple(names):
        raise HoldfastError(
            f"Embodiment {robot.name!r} has the dimensions {', '.join(robot.names)}; the run was trained on "
            f"{', '.join(names)}. Name the right one with --embodiment."
        )
    return robot


def _embodiment(content: dict[str, Any] | None, file: Path) -> Embodiment | None:
    return None if content is None else from_json(Embodiment, content, str(file))


def _steps(folder: Path, name: str) -> list[str]:
    """Names of a pipeline's steps, in order."""
    content = read_content(folder / f"policy_{name}.json")
    return [str(step.get("registry_name") or step.get("class")) for step in content["steps"]]


def short(digest: str) -> str:
    """Enough of a hash to tell bundles apart by eye."""
    return digest[:12]

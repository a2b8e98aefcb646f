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
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from holdfast import __version__, catalog, embodiments
from holdfast.core import checked_folder as checkpoint
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import Task
from holdfast.embodiments.embodiment import Dimension, Embodiment
from holdfast.norm.strategies import Normalization
from holdfast.runs.run import WEIGHTS, FinishedStage, Run, read_run, read_task
from holdfast.train.config import plain

FORMAT = 1
ABOUT, NORMALIZATION, POLICY = "bundle.json", "normalization.json", "policy"
IDLE = "hold at the measured pose"
_IMAGES = "observation.images."
_KINDS = (".json", ".safetensors", ".md", ".txt")
_ONLY = f"files of the kinds {', '.join(_KINDS)} only, as loading them runs no code"


@dataclass(frozen=True)
class Bundle:
    """A bundle whose every byte was checked."""

    path: Path
    hash: str
    policy: str  # SHA-256 of the weights
    normalization: Normalization
    tasks: dict[str, Task]
    embodiment: Embodiment | None
    names: tuple[str, ...]
    cameras: dict[str, tuple[int, int]]  # height and width
    fps: float
    about: dict[str, Any]  # bundle.json


def make(run: Path, number: int | None, output: Path, embodiment: str | None = None) -> Bundle:
    """Write the bundle of a run's stage; it appears whole or not at all.

    Args:
        run: A run's folder.
        number: The stage; None takes the last finished one.
        output: The new folder.
        embodiment: Name or file of the robot; None takes the one the run's stream names.
    """
    if output.exists():
        raise HoldfastError(f"{output} exists already. Name another --output, or delete it first.")
    read = read_run(run)
    stage = _stage(read, number)
    problem = checkpoint.verify(stage.checkpoint)
    if problem:
        raise HoldfastError(
            f"Checkpoint {stage.checkpoint} is damaged: {problem}. Run the same `holdfast train` command again to "
            "mend it."
        )
    about = _about(read, stage, embodiment)

    def fill(target: Path) -> None:
        shutil.copytree(stage.checkpoint / POLICY, target / POLICY)
        shutil.copyfile(stage.checkpoint / NORMALIZATION, target / NORMALIZATION)
        (target / ABOUT).write_text(json.dumps(about, indent=1))
        for name in sorted(_files(target)):
            if Path(name).suffix not in _KINDS:
                raise HoldfastError(f"{stage.checkpoint / name} has no place in a bundle: {_ONLY}.")

    checkpoint.write(output, fill, needed=sum(p.stat().st_size for p in (stage.checkpoint / POLICY).rglob("*")))
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
        policy=checkpoint.file_hash(folder / WEIGHTS),
        normalization=Normalization.from_json(json.loads((folder / NORMALIZATION).read_text())),
        tasks={task.name: task for task in tasks},
        embodiment=_read_embodiment(about["embodiment"]),
        names=tuple(about["names"]),
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
    schema = _read(stage.checkpoint / "schema.json")
    robot = _find_embodiment(stage.checkpoint, schema["names"], asked)
    policy = _read(stage.checkpoint / POLICY / "config.json")
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
        "normalization": stage.normalization.hash,
        "tasks": [plain(task) for task in tasks],
        "embodiment": plain(robot) if robot else None,
        "idle": IDLE,
        "names": schema["names"],
        "cameras": {key.removeprefix(_IMAGES): schema["cameras"][key] for key in reads},
        "fps": schema["fps"],
        "transforms": {name: _steps(stage.checkpoint / POLICY, name) for name in ("preprocessor", "postprocessor")},
    }


def _find_embodiment(folder: Path, names: Iterable[str], asked: str | None) -> Embodiment | None:
    if asked is None:
        config = _read(folder / "config.json")
        try:
            stream = catalog.load_stream(config["stream"], config["data_root"])
            robot = embodiments.load(stream.embodiment) if stream.embodiment else None
        except HoldfastError as error:
            raise HoldfastError(f"{error} Or say which robot it is: --embodiment=piper_x_pair, or a file.") from None
    else:
        robot = embodiments.load(asked)
    if robot is not None and robot.names != tuple(names):
        raise HoldfastError(
            f"Embodiment {robot.name!r} has the dimensions {', '.join(robot.names)}; the run was trained on "
            f"{', '.join(names)}. Name the right one with --embodiment."
        )
    return robot


def _read_embodiment(content: dict[str, Any] | None) -> Embodiment | None:
    if content is None:
        return None
    return Embodiment(content["name"], tuple(Dimension(**row) for row in content["dimensions"]))


def _steps(folder: Path, name: str) -> list[str]:
    """Names of a pipeline's steps, in order."""
    content = _read(folder / f"policy_{name}.json")
    return [str(step.get("registry_name") or step.get("class")) for step in content["steps"]]


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise HoldfastError(f"{file} cannot be read: {error}. Only a checkpoint of `holdfast train` has it.") from None


def short(digest: str) -> str:
    """Enough of a hash to tell bundles apart by eye."""
    return digest[:12]

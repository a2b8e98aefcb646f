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
from holdfast.core import checked_folder, outside
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json, to_json
from holdfast.core.names import check_path
from holdfast.core.records import Task
from holdfast.data.lerobot.folder import camera_name
from holdfast.data.lerobot.header import check_pictures
from holdfast.embodiments.embodiment import Embodiment
from holdfast.norm.strategies import ACTION, STATE, Normalization
from holdfast.policies.saved_folder import POSTPROCESSOR, PREPROCESSOR, check_folder, read_pipeline
from holdfast.runs.checkpoint import NORMALIZATION, POLICY, WEIGHTS, Checkpoint
from holdfast.runs.embodiment import find_embodiment
from holdfast.runs.run import FinishedStage, Run, read_run
from holdfast.runs.settings import read_task

FORMAT = 1
ABOUT = "bundle.json"
IDLE = "hold at the measured pose"
_KINDS = (".json", ".safetensors", ".md", ".txt")
_LARGEST_SIDE = 2**13
_FASTEST = 10_000  # frames a second
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


@dataclass(frozen=True)
class Description:
    """The content of bundle.json."""

    format: int
    holdfast: str
    lerobot: str
    run: str
    method: str
    stage: int
    learned: str
    policy: str
    normalization: str
    tasks: tuple[dict[str, Any], ...]
    embodiment: Embodiment | None
    idle: str
    names: tuple[str, ...]
    cameras: dict[str, tuple[int, int]]
    fps: float
    transforms: dict[str, tuple[str, ...]]
    state_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for what, names in (("names", self.names), ("state_names", self.state_names), ("tasks", self.tasks)):
            if names is not None and not names:
                raise HoldfastError(f"{what} must list at least one.")
        for what, names in (("names", self.names), ("state_names", self.state_names or ())):
            if len(set(names)) < len(names):
                raise HoldfastError(f"{what} must be different, got {str(names)[:80]}.")
        for name in (*self.names, *(self.state_names or ()), *self.cameras):
            if not name.strip() or not name.isprintable():
                raise HoldfastError(f"{name!r} must be the name of a dimension or camera, like 'left_joint_1'.")
        if not 0 < self.fps <= _FASTEST:
            raise HoldfastError(f"fps must be above 0 and at most {_FASTEST:,}, got {self.fps:g}.")
        for name, size in self.cameras.items():
            if not all(0 < side <= _LARGEST_SIDE for side in size):
                raise HoldfastError(f"camera {name!r} must be 1 to {_LARGEST_SIDE} pixels high and wide, got {size}.")


def make(run: Path, number: int | None, output: Path, embodiment: str | None = None) -> Bundle:
    """Write the bundle of a run's stage; it appears whole or not at all.

    Args:
        run: A run's folder.
        number: The stage; None takes the last finished one.
        output: The new folder.
        embodiment: Name or file of the robot; None takes the one that the run was trained for.
    """
    check_path(output, "--output")
    if output.exists():
        raise HoldfastError(f"{output} exists already. Name another --output, or delete it first.")
    read = read_run(run)
    stage = _stage(read, number)
    files = stage.checkpoint
    problem = checked_folder.verify(files.folder)
    if problem:
        raise HoldfastError(
            f"Checkpoint {files.folder} is damaged: {problem}. Run the same `holdfast train` command again to mend it."
        )
    check_folder(files.policy)
    try:
        about = _about(read, stage, embodiment)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HoldfastError(f"{files.folder} is not as `holdfast train` writes it: {error!r}.") from None

    def fill(target: Path) -> None:
        shutil.copytree(files.policy, target / POLICY)
        shutil.copyfile(files.normalization_file, target / NORMALIZATION)
        (target / ABOUT).write_text(json.dumps(about, indent=1))
        for name in sorted(_files(target)):
            if Path(name).suffix not in _KINDS:
                raise HoldfastError(f"{files.folder / name} has no place in a bundle: {_ONLY}.")

    checked_folder.write(output, fill, needed=sum(p.stat().st_size for p in files.policy.rglob("*")))
    return load(output)


def load(folder: Path) -> Bundle:
    """Read a bundle; one that was altered or is incomplete is refused, with the file that is to blame."""
    folder = folder.resolve()  # where `current` points to now
    problem = verify(folder)
    if problem:
        raise HoldfastError(f"{folder} is no sound bundle: {problem}. Make it again: holdfast bundle RUN --stage K")
    content = outside.read_json(folder / ABOUT)
    if isinstance(content, dict) and content.get("format") != FORMAT:
        raise HoldfastError(
            f"{folder} was written by holdfast {content.get('holdfast')} in format {content.get('format')}; this is "
            f"holdfast {__version__}, which reads format {FORMAT}. Update it, or make the bundle again."
        )
    about = from_json(Description, content, str(folder / ABOUT))
    tasks = {task.name: task for task in map(read_task, about.tasks)}
    if len(tasks) < len(about.tasks):
        raise HoldfastError(f"{folder / ABOUT} lists a task twice; it has {', '.join(tasks)}.")
    normalization = Checkpoint(folder).normalization
    _check_dimensions(about, normalization, folder / ABOUT)
    check_pictures(about.cameras, folder / ABOUT)
    return Bundle(
        path=folder,
        hash=checked_folder.file_hash(folder / checked_folder.MANIFEST),
        weights=checked_folder.file_hash(folder / WEIGHTS),
        normalization=normalization,
        tasks=tasks,
        embodiment=about.embodiment,
        names=about.names,
        state_names=about.state_names or about.names,
        cameras=about.cameras,
        fps=about.fps,
        about=content,
    )


def _check_dimensions(about: Description, normalization: Normalization, file: Path) -> None:
    """Refuse names that are more or fewer than the dimensions of the statistics and of the robot."""
    names = (("names", about.names, ACTION), ("state_names", about.state_names or about.names, STATE))
    spaces = [space for space in (*normalization.measured.values(), normalization.calibrated) if space]
    counts = [
        (what, own, len(space.of(feature).q01), NORMALIZATION) for space in spaces for what, own, feature in names
    ]
    if about.embodiment:
        counts.append(("names", about.names, len(about.embodiment.names), f"embodiment {about.embodiment.name!r}"))
    for what, own, count, whose in counts:
        if len(own) != count:
            raise HoldfastError(f"{file} lists {len(own)} {what}, {whose} has {count} dimensions.")


def verify(folder: Path) -> str | None:
    """Say what is wrong with a bundle; None if it has every file with its bytes, no other, and none that runs code."""
    file = folder / checked_folder.MANIFEST
    if not file.is_file() or file.is_symlink():
        return f"there is no {checked_folder.MANIFEST}" if folder.is_dir() else "there is no such folder"
    try:
        manifest = checked_folder.read_manifest(folder)
        with outside.open_file(file) as content:
            altered = content.read() != json.dumps(manifest, indent=1).encode()
        if altered:
            return f"{checked_folder.MANIFEST} was altered"
        problem = _compare(folder, manifest)
        if problem is None:
            check_folder(folder / POLICY)
        return problem
    except HoldfastError as error:
        return str(error).rstrip(".")
    except (OSError, ValueError) as error:
        return f"it cannot be read ({error})"


def _compare(folder: Path, manifest: dict[str, str]) -> str | None:
    """What differs between the files of a folder and its manifest."""
    found = _files(folder) - {checked_folder.MANIFEST}
    for name in sorted({ABOUT, NORMALIZATION, WEIGHTS, *manifest} - found):
        return f"{name} is missing"
    for name in sorted(found - manifest.keys()):
        return f"{name} is not of it"
    for name, digest in manifest.items():
        if (folder / name).is_symlink():
            return f"{name} is a link"
        if not (folder / name).is_file() or Path(name).suffix not in _KINDS:
            return f"{name} has no place in it: {_ONLY}"
        if checked_folder.file_hash(folder / name) != digest:
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
        "transforms": {
            "preprocessor": _steps(files.policy / PREPROCESSOR),
            "postprocessor": _steps(files.policy / POSTPROCESSOR),
        },
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
    # A run takes its own robot's dimensions in order, whatever the dataset calls them.
    if robot is not None and (robot.names != tuple(names) if asked else len(robot.names) != len(names)):
        raise HoldfastError(
            f"Embodiment {robot.name!r} has the dimensions {', '.join(robot.names)}; the run was trained on "
            f"{', '.join(names)}. Name the right one with --embodiment."
        )
    return robot


def _steps(file: Path) -> list[str]:
    """Names of a pipeline's steps, in order."""
    return [step["registry_name"] for step in read_pipeline(file)["steps"]]


def short(digest: str) -> str:
    """Enough of a hash to tell bundles apart by eye."""
    return digest[:12]

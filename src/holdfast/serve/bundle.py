"""A bundle: one folder with all that a policy needs to act, and nothing that can be changed unnoticed.

```
bundle/policy/               weights and processors, as LeRobot saves and loads them
       normalization.json    every space of the run, with its hash
       bundle.json           tasks with prompts and rubrics, embodiment, cameras, transforms, versions
       manifest.json         SHA-256 of every other file; its own SHA-256 identifies the bundle
```
The first two lie as in a stage's checkpoint, so whatever loads a checkpoint loads a bundle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.core import checked_folder, outside
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json
from holdfast.core.records import Task
from holdfast.data.lerobot.header import check_pictures
from holdfast.embodiments.embodiment import Embodiment
from holdfast.norm.strategies import ACTION, STATE, Normalization
from holdfast.policies.saved_folder import NORMALIZATION, POLICY, check_folder
from holdfast.runs.checkpoint import WEIGHTS, Checkpoint
from holdfast.runs.settings import read_task

FORMAT = 1
ABOUT = "bundle.json"
IDLE = "hold at the measured pose"
KINDS = (".json", ".safetensors", ".md", ".txt")
_LARGEST_SIDE = 2**13
_FASTEST = 10_000  # frames a second
ONLY = f"files of the kinds {', '.join(KINDS)} only, as loading them runs no code"


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


def load(folder: Path) -> Bundle:
    """Read a bundle; one that was altered or is incomplete is refused, with the file that is to blame."""
    folder = folder.resolve()  # where `current` points to now
    problem = verify(folder)
    if problem:
        raise HoldfastError(
            f"{folder} is not an intact bundle: {problem}. Make it again: holdfast bundle RUN --stage K"
        )
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
    found = files_of(folder) - {checked_folder.MANIFEST}
    for name in sorted({ABOUT, NORMALIZATION, WEIGHTS, *manifest} - found):
        return f"{name} is missing"
    for name in sorted(found - manifest.keys()):
        return f"{name} does not belong to it"
    for name, digest in manifest.items():
        if (folder / name).is_symlink():
            return f"{name} is a link"
        if not (folder / name).is_file() or Path(name).suffix not in KINDS:
            return f"{name} has no place in it: {ONLY}"
        if checked_folder.file_hash(folder / name) != digest:
            return f"{name} does not have the bytes that were written"
    return None


def files_of(folder: Path) -> set[str]:
    """Paths of all files and links in a folder, relative to it."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def short(digest: str) -> str:
    """Enough of a hash to tell bundles apart by eye."""
    return digest[:12]

"""Makes the bundle of a run's stage. What is in it: `bundle.py`."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

from holdfast import __version__, catalog, embodiments
from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import to_json
from holdfast.core.names import check_path
from holdfast.data.lerobot.folder import camera_name
from holdfast.embodiments.embodiment import Embodiment
from holdfast.policies.saved_folder import (
    NORMALIZATION,
    POLICY,
    POSTPROCESSOR,
    PREPROCESSOR,
    check_folder,
    read_pipeline,
)
from holdfast.runs.checkpoint import Checkpoint
from holdfast.runs.embodiment import find_embodiment
from holdfast.runs.run import FinishedStage, Run, read_run
from holdfast.serve.bundle import ABOUT, FORMAT, IDLE, KINDS, ONLY, Bundle, files_of, load


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
        for name in sorted(files_of(target)):
            if Path(name).suffix not in KINDS:
                raise HoldfastError(f"{files.folder / name} has no place in a bundle: {ONLY}.")

    checked_folder.write(output, fill, needed=sum(p.stat().st_size for p in files.policy.rglob("*")))
    return load(output)


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

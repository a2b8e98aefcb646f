"""What travels between machines that share no disk: files and folders of a study, each as a tar archive."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path

from holdfast import catalog
from holdfast.policies.config import SHIPPED
from holdfast.runs.trials import Trials
from holdfast.studies.jobs import StudyFolder, StudyJob

OUTSIDE = "outside"  # where files go that a job reads from elsewhere, like the file of its stream
_FILES = ("--stream", "--policy.path", "--norm.stats")  # flags that may name one


def pack(path: Path) -> bytes:
    """A file or folder as an archive. Hidden entries stay here: locks, and what was never finished."""

    def chosen(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if Path(entry.name).name.startswith(".") else entry

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(path, arcname="content", filter=chosen)
    return archive.getvalue()


def unpack(archive: bytes, target: Path) -> None:
    """Put an archive's content in the place of `target`, all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh, old = (target.with_name(f".{word}-{target.name}") for word in ("receiving", "replaced"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(fresh, filter="data")
    if target.is_dir():
        target.rename(old)  # killed here, the job is simply done again
    elif target.suffix == ".sqlite" and target.exists():
        with Trials(target):
            pass  # what a killed process has left beside the file goes into it
    os.replace(fresh / "content", target)
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)


def inputs(job: StudyJob, folder: StudyFolder) -> Iterator[str]:
    """What a job reads that is there, by its path in the study's folder."""
    for path in job.reads:
        found = folder.root / path
        if found == folder.shared:
            yield from (f"{path}/{stage.name}" for stage in _stages(folder))
        elif found.exists():
            yield path


def outputs(job: StudyJob, folder: StudyFolder, known: Container[str]) -> dict[str, bytes]:
    """What a job has written, packed, by its path in the study's folder; shared stages only if they are new."""
    own = [*job.writes, folder.inside(folder.log(job))]
    paths = [path for path in own if (folder.root / path).exists() and folder.root / path != folder.shared]
    stages = [f"{folder.shared.name}/{stage.name}" for stage in _stages(folder)]
    paths += [stage for stage in stages if stage not in known]
    return {path: pack(folder.root / path) for path in paths}


def outside(job: StudyJob, start: Path, root: Path) -> dict[str, str]:
    """Files and folders outside the study's folder that a job's flags name, with their places in it."""
    words = (word.partition("=") for word in job.command)
    known = (*SHIPPED, *catalog.streams())
    values = dict.fromkeys(value for flag, _, value in words if flag in _FILES and value not in known)
    found = [value for value in values if (start / value).exists() and not (start / value).is_relative_to(root)]
    return {value: f"{OUTSIDE}/{number}/{Path(value).name}" for number, value in enumerate(found)}


def moved(job: StudyJob, root: str, places: dict[str, str], scratch: str) -> StudyJob:
    """The job with the study's folder in another place."""

    def there(part: str) -> str:
        flag, equals, value = part.partition("=")
        if equals and value in places:
            return f"{flag}={scratch}/{places[value]}"
        return part.replace(root, scratch)

    return replace(job, command=tuple(there(part) for part in job.command))


def _stages(folder: StudyFolder) -> list[Path]:
    return sorted(path for path in folder.shared.glob("*") if not path.name.startswith("."))

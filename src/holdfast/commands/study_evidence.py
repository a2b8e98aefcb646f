"""`holdfast study report`, `pack` and `merge`: the evidence of a study and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.commands.flags import parse
from holdfast.core.checked_folder import check_no_link
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import read_content, to_json
from holdfast.core.own_code import is_own
from holdfast.studies import Study, load_study, shipped
from holdfast.studies.evidence import gather_evidence
from holdfast.studies.evidence_file import SUFFIX, write_evidence
from holdfast.studies.jobs import StudyFolder, train_flags
from holdfast.studies.merge import merge_files
from holdfast.studies.results import StudyResults, evidence_results, study_results
from holdfast.studies.study import StudyRun, study_from_json
from holdfast.train.config import TrainConfig


def find_study(name: str, output: Path | None) -> tuple[Study, StudyFolder]:
    """A study by its name, its TOML file or its folder; and its folder, which `output` may name."""
    if output and output.exists() and not output.is_dir():
        raise HoldfastError(f"--output {output} is a file. Name the folder of a study, or one to make.")
    begun = StudyFolder(Path(name))
    if name.endswith(".toml") or name in shipped():
        study = load_study(name)
        return study, StudyFolder(output or Path("runs") / study.name)
    if not begun.settings.exists():
        raise unknown("study", name, (*shipped(), "a .toml file", "the folder of a study that was started"))
    return _settled(begun), StudyFolder(output) if output else begun


def refuse_own_code(study: Study, name: str) -> None:
    """Refuse to load a file that a folder names: the folder may come from anywhere, and loading runs the file."""
    for _, flags in study.groups:
        for value in map(str, flags.values()):
            if is_own(value):
                raise HoldfastError(
                    f"{name} uses {value}, which is loaded only for the study's own file. Name that: "
                    f"`holdfast study ... {study.name}.toml --output={name}`."
                )


def check_settled(study: Study, folder: StudyFolder) -> None:
    """Check that the folder was started with these settings of the study, if at all; claims may change at any time."""
    if folder.settings.exists() and replace(_settled(folder), claims=study.claims) != study:
        raise HoldfastError(
            f"{folder.root} holds another version of study {study.name!r}. Name another folder, put the file of the "
            f"study back as it was, or name {folder.root} in its place to see what it holds."
        )


def _settled(folder: StudyFolder) -> Study:
    return study_from_json(read_content(folder.settings), str(folder.settings))


def report(study: Study, folder: StudyFolder, source: str | None) -> None:
    """Write the page about the runs in a study's folder."""
    _write(study_results(study, folder, source), folder, str(folder.root))


def report_evidence(names: Sequence[str], output: Path | None, source: str | None) -> None:
    """Write the page about the runs in files of evidence."""
    files = _files(names)
    evidence, _ = merge_files(files)
    folder = StudyFolder(output or Path("runs") / evidence.study.name)
    _write(evidence_results(evidence, files[0], source), folder, ", ".join(names))


def pack(study: Study, folder: StudyFolder, output: Path | None) -> None:
    """Write the evidence in a study's folder to a file."""
    if not folder.settings.exists():
        raise HoldfastError(f"{folder.root} holds no study. Start it with `holdfast study run`, or name its folder.")
    check_settled(study, folder)
    evidence = gather_evidence(study, folder)
    if not evidence.runs:
        raise HoldfastError(f"No run in {folder.root} has a finished stage yet. Go on with `holdfast study run`.")
    file = write_evidence(evidence, output or folder.root / f"{study.name}{SUFFIX}")
    print(f"{file}: {_size(file)}, {len(evidence.runs)} of {len(study.runs())} runs")


def merge(names: Sequence[str], output: Path | None) -> None:
    """Join files of evidence; a study before them takes the runs that it has in common with theirs."""
    if output is None:
        raise HoldfastError(f"`holdfast study merge` needs --output=WHOLE{SUFFIX}, the file to write.")
    study = None if names[0].endswith(SUFFIX) or len(names) == 1 else load_study(names[0])
    evidence, shared = merge_files(_files(names[1:] if study else names), settings_of, study)
    file = write_evidence(evidence, output)
    again = f", {len(shared)} of them in several files" if shared else ""
    print(f"{file}: {_size(file)}, {len(evidence.runs)} of {len(evidence.study.runs())} runs{again}")


def settings_of(study: Study, run: StudyRun) -> dict[str, Any]:
    """The settings with which a run of a study would begin on one GPU."""
    config = parse(TrainConfig, "train", train_flags(study, StudyFolder(Path(study.name)), run), "")
    whole = replace(config, optim=replace(config.optim, accumulate=config.optim.micro_batches))
    settings: dict[str, Any] = to_json(whole)
    return settings


def _files(names: Sequence[str]) -> list[Path]:
    for name in names:
        if not name.endswith(SUFFIX):
            raise HoldfastError(f"{name} is not a file of evidence, whose name ends in {SUFFIX}. Make one with `pack`.")
    return [Path(name) for name in names]


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1000:,.0f} kB"


def _write(results: StudyResults, folder: StudyFolder, origin: str) -> None:
    from holdfast.studies.page import write

    if not results.groups:
        raise HoldfastError(f"No run in {origin} has trials yet. Start it with `holdfast study run`.")
    check_no_link(folder.report.parent / "figures", folder.root)
    write(results, folder.report)
    print_report(folder, Console(highlight=False))


def print_report(folder: StudyFolder, console: Console) -> None:
    """Print the tables of the report that was written, and where its page is."""
    from holdfast.studies.summary_table import summary_tables

    console.print(summary_tables(json.loads(folder.metrics.read_text())))
    console.print(f"Report: {folder.report}", soft_wrap=True, markup=False)

"""Converts datasets in other formats with the converters that LeRobot installs.

LeRobot 0.6.1 installs one: from its own v2.1. It has none for HDF5 (ALOHA) and RLDS; its repository only has
an example for DROID in examples/port_datasets.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.header import check_header, read_header

_OWN_SCRIPT = (
    "LeRobot 0.6.1 installs no converter for it. Write a short script that reads your files and calls "
    "LeRobotDataset.create, add_frame, save_episode and finalize (its repository has one for DROID in "
    "examples/port_datasets, openpi one for ALOHA in examples/aloha_real), then run `holdfast doctor` on the result."
)


def check_convertible(folder: Path) -> None:
    """Refuse what LeRobot cannot convert, and say what to do instead."""
    if not folder.is_dir():
        raise HoldfastError(f"{folder} is not a folder. Give the folder of a LeRobot v2.1 dataset.")
    header = folder / "meta" / "info.json"
    if not header.is_file():
        for kind, pattern in (("HDF5", "*.hdf5"), ("HDF5", "*.h5"), ("RLDS", "*.tfrecord*")):
            if next(folder.rglob(pattern), None):
                raise HoldfastError(f"{folder} holds {kind} files. {_OWN_SCRIPT}")
        raise HoldfastError(f"{folder} is not a LeRobot dataset: {header} is missing.")
    info = read_header(header)
    version = str(info.get("codebase_version"))
    if version.startswith("v3"):
        raise HoldfastError(f"{folder} already has version {version} and needs no import: use it in a stream.")
    if version != "v2.1":
        raise HoldfastError(
            f"{folder} has version {version}; LeRobot 0.6.1 converts v2.1 only. Convert it to v2.1 first, with "
            "convert_dataset_v20_to_v21 of a LeRobot before 0.4."
        )
    check_header(info, header)


def convert(folder: Path, target: Path) -> None:
    """Convert a v2.1 dataset into the empty folder `target`; the original is never written."""
    from lerobot.scripts.convert_dataset_v21_to_v30 import convert_dataset

    # The script converts in place and moves the old dataset aside; given a link, it moves only the link.
    work = target / "converting"
    work.mkdir()
    link = work / "dataset"
    link.symlink_to(folder.resolve(), target_is_directory=True)
    output = io.StringIO()
    level = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            convert_dataset(f"local/{folder.name}", root=link, push_to_hub=False)
    except OSError:
        raise  # a full disk, reported by checked_folder
    except Exception as error:  # a broken dataset can raise anything
        raise HoldfastError(
            f"LeRobot's converter failed on {folder} ({type(error).__name__}: {error}). The dataset is untouched."
        ) from None
    finally:
        logging.disable(level)
    for path in link.iterdir():
        path.rename(target / path.name)
    shutil.rmtree(work)

"""A deployment: the bundles a robot has been given, the one it uses, and the way back.

```
robot/current             link to the bundle in use: `holdfast serve robot/current`
      3f2a9c81d04e/       bundles by their hash, copies
      history.jsonl       what was done when; `stack` is what a rollback goes back through
```
The link decides what is in use, and is replaced in one step. A line of the history is written before it: a kill in
between leaves a line about a bundle that `current` does not point to, and such lines are passed over.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.core import checked_folder, outside
from holdfast.core.errors import HoldfastError
from holdfast.core.files import open_log
from holdfast.core.json_records import from_json
from holdfast.core.names import check_path
from holdfast.serve.bundle import Bundle, load, short

CURRENT, HISTORY = "current", "history.jsonl"
_HASH = re.compile("[0-9a-f]{64}")
_AFRESH = "Move it away to deploy anew; the bundles beside it stay."


@dataclass(frozen=True)
class Deployed:
    """A line of the history. `stack` are hashes of bundles, the one in use last."""

    when: str
    action: str
    stack: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.stack or not all(_HASH.fullmatch(digest) for digest in self.stack):
            raise HoldfastError("its stack must list hashes of bundles.")


def deploy(bundle: Path, folder: Path) -> Bundle:
    """Copy a bundle into a deployment and make it the current one."""
    check_path(folder, "--to")
    found = load(bundle)
    stack = _stack(folder)
    if stack and stack[-1] == found.hash:
        raise HoldfastError(f"{short(found.hash)} is what {folder} uses already.")
    copy = folder / short(found.hash)
    with _writing(folder):
        if not os.path.lexists(copy):
            _copy(found, copy)
        placed = _load(folder, found.hash)  # the copy, not the original, is what will act
        _point(folder, "deploy", [*stack, placed.hash])
    return placed


def rollback(folder: Path) -> Bundle:
    """Go back to the bundle that was in use before the current one."""
    stack = _stack(folder)
    if not stack:
        raise HoldfastError(f"{folder} is no deployment. Make one: holdfast bundle deploy BUNDLE --to {folder}")
    if len(stack) == 1:
        raise HoldfastError(f"{folder} has used nothing before {short(stack[0])}: there is nothing to go back to.")
    before = _load(folder, stack[-2])
    with _writing(folder):
        _point(folder, "rollback", stack[:-1])
    return before


def _load(folder: Path, digest: str) -> Bundle:
    """A bundle of the deployment, which must be the one with this hash."""
    found = load(folder / short(digest))
    if found.hash != digest:
        raise HoldfastError(f"{found.path} is not the bundle that was deployed: it is {found.hash}.")
    return found


def _stack(folder: Path) -> list[str]:
    """Hashes of the bundles in use one after the other, the current one last; none if nothing is deployed."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise HoldfastError(f"{folder} is not a folder, so nothing can be deployed to it. Name another.")
    link, history = folder / CURRENT, folder / HISTORY
    lines = list(_lines(history))
    if not os.path.lexists(link):
        return []
    if not link.is_symlink():
        raise HoldfastError(f"{link} is not the link that `holdfast bundle deploy` makes. {_AFRESH}")
    target = os.readlink(link)
    for line in reversed(lines):
        if short(line.stack[-1]) == target:
            return list(line.stack)
    raise HoldfastError(f"{link} points to {target[:80]!r}, which {history} does not know. {_AFRESH}")


def _lines(history: Path) -> Iterator[Deployed]:
    """The lines of the history, without those that a kill cut short."""
    if not os.path.lexists(history):
        return
    for number, line in enumerate(outside.read_text(history).splitlines(), 1):
        if line.endswith("}"):
            what = f"{history}, line {number},"
            yield from_json(Deployed, outside.parse_json(line, what), what)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HoldfastError(f"{folder} cannot be written: {error}. {CURRENT} is as it was.") from None


def _copy(bundle: Bundle, folder: Path) -> None:
    # The bundle's own manifest comes along: written anew over the same files it has the same bytes.
    def fill(target: Path) -> None:
        without = shutil.ignore_patterns(checked_folder.MANIFEST)
        shutil.copytree(bundle.path, target, ignore=without, dirs_exist_ok=True)

    checked_folder.write(folder, fill, needed=sum(path.stat().st_size for path in bundle.path.rglob("*")))


def _point(folder: Path, action: str, stack: list[str]) -> None:
    line = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "action": action, "stack": stack}
    with open_log(folder / HISTORY) as file:
        file.write("\n" * _torn(folder / HISTORY) + json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary = folder / f".{CURRENT}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(short(stack[-1]))
    temporary.rename(folder / CURRENT)


def _torn(history: Path) -> bool:
    """Whether a kill left the last line without its end."""
    text = outside.read_text(history) if history.exists() else ""
    return bool(text) and not text.endswith("\n")

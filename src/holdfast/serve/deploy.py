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
import shutil
import time
from pathlib import Path

from holdfast.core import checked_folder as checkpoint
from holdfast.core.errors import HoldfastError
from holdfast.serve.bundle import Bundle, load, short

CURRENT, HISTORY = "current", "history.jsonl"


def deploy(bundle: Path, folder: Path) -> Bundle:
    """Copy a bundle into a deployment and make it the current one."""
    found = load(bundle)
    stack = _stack(folder)
    if stack and stack[-1] == found.hash:
        raise HoldfastError(f"{short(found.hash)} is what {folder} uses already.")
    copy = folder / short(found.hash)
    if not copy.exists():
        _copy(found, copy)
    placed = load(copy)  # the copy, not the original, is what will act
    _point(folder, "deploy", [*stack, placed.hash])
    return placed


def rollback(folder: Path) -> Bundle:
    """Go back to the bundle that was in use before the current one."""
    stack = _stack(folder)
    if not stack:
        raise HoldfastError(f"{folder} is no deployment. Make one: holdfast bundle deploy BUNDLE --to {folder}")
    if len(stack) == 1:
        raise HoldfastError(f"{folder} has used nothing before {short(stack[0])}: there is nothing to go back to.")
    before = load(folder / short(stack[-2]))
    if before.hash != stack[-2]:
        raise HoldfastError(f"{before.path} is not the bundle that was deployed: it is {before.hash}.")
    _point(folder, "rollback", stack[:-1])
    return before


def _stack(folder: Path) -> list[str]:
    """Hashes of the bundles in use one after the other, the current one last."""
    link, history = folder / CURRENT, folder / HISTORY
    if not link.is_symlink() or not history.exists():
        return []
    target = os.readlink(link)
    stacks = [json.loads(line)["stack"] for line in history.read_text().splitlines() if line.endswith("}")]
    return next((list(stack) for stack in reversed(stacks) if short(stack[-1]) == target), [])


def _copy(bundle: Bundle, folder: Path) -> None:
    # The bundle's own manifest comes along: written anew over the same files it has the same bytes.
    def fill(target: Path) -> None:
        without = shutil.ignore_patterns(checkpoint.MANIFEST)
        shutil.copytree(bundle.path, target, ignore=without, dirs_exist_ok=True)

    checkpoint.write(folder, fill, needed=sum(path.stat().st_size for path in bundle.path.rglob("*")))


def _point(folder: Path, action: str, stack: list[str]) -> None:
    line = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "action": action, "stack": stack}
    with (folder / HISTORY).open("a") as file:
        file.write("\n" * _torn(folder / HISTORY) + json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary = folder / f".{CURRENT}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(short(stack[-1]))
    temporary.rename(folder / CURRENT)


def _torn(history: Path) -> bool:
    """Whether a kill left the last line without its end."""
    text = history.read_text() if history.exists() else ""
    return bool(text) and not text.endswith("\n")

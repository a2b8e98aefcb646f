"""Imports LeRobot in two thirds of the time. Import this module before LeRobot's own.

LeRobot and what it needs are 5,000 modules. While they are imported, Python's garbage collector searches their objects
again and again and finds nothing, and two of the packages list everything that is installed, file by file.
"""

from __future__ import annotations

import gc
import importlib.metadata
import re
from collections import defaultdict
from functools import cache
from inspect import getmodulename


@cache
def _list_packages() -> dict[str, list[str]]:
    """What `importlib.metadata.packages_distributions` returns, without looking for every installed file."""
    found = defaultdict(list)
    for distribution in importlib.metadata.distributions():
        named = re.search(r"^Name: (.+)$", distribution.read_text("METADATA") or "", re.MULTILINE)
        name = named[1] if named else distribution.name
        for package in (distribution.read_text("top_level.txt") or "").split() or _modules(distribution):
            found[package].append(name)
    return dict(found)


def _modules(distribution: importlib.metadata.Distribution) -> set[str]:
    files = (distribution.read_text("RECORD") or "").splitlines() or map(str, distribution.files or ())
    parts = {file.partition(",")[0].partition("/")[::2] for file in files}
    names = {first if rest else getmodulename(first) for first, rest in parts}
    return {name for name in names if name and "." not in name}


_collects, _list_slowly = gc.isenabled(), importlib.metadata.packages_distributions
gc.disable()
importlib.metadata.packages_distributions = _list_packages
try:
    import lerobot.policies.factory  # noqa: F401
finally:
    importlib.metadata.packages_distributions = _list_slowly
    gc.freeze()  # these objects stay: later searches leave them out
    if _collects:
        gc.enable()

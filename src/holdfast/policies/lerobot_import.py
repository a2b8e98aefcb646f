"""Imports LeRobot in seven eighths of the time. Import this module before LeRobot's own.

LeRobot and what it needs are 5,000 modules. While they are imported, Python's garbage collector searches their objects
again and again and finds nothing, and two of the packages list everything that is installed.
"""

from __future__ import annotations

import gc
import importlib.metadata
from functools import cache

_collects, _list_packages = gc.isenabled(), importlib.metadata.packages_distributions
gc.disable()
importlib.metadata.packages_distributions = cache(_list_packages)
try:
    import lerobot.policies.factory  # noqa: F401
finally:
    importlib.metadata.packages_distributions = _list_packages
    if _collects:
        gc.enable()

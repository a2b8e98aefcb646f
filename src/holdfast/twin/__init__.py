"""The twin: the benchmark's two-arm cell in MuJoCo, with its tasks, scripted demonstrators and scorers."""

import os
import sys
from ctypes.util import find_library
from importlib.util import find_spec

from holdfast.core.errors import HoldfastError

# MuJoCo chooses its renderer when it is first imported; without a screen only EGL and OSMesa can draw.
if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
    os.environ.setdefault("MUJOCO_GL", "egl" if find_library("EGL") else "osmesa")


def require_mujoco() -> None:
    """Raise an error if MuJoCo is not installed; all that opens a cell asks first."""
    if find_spec("mujoco") is None:
        raise HoldfastError("The twin needs MuJoCo. Install it with: pip install 'holdfast[twin]'")

"""The twin: the benchmark's two-arm cell in MuJoCo, with its tasks, scripted demonstrators and scorers."""

import os
import sys
from ctypes import CDLL
from importlib.util import find_spec

from holdfast.core.errors import HoldfastError


def _renderer() -> str:
    """What draws without a screen. ctypes.util.find_library would start a process, also in every training."""
    try:
        CDLL("libEGL.so.1")
    except OSError:
        return "osmesa"
    return "egl"


# MuJoCo chooses its renderer when it is first imported; without a screen only EGL and OSMesa can draw.
_HAS_SCREEN = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
if sys.platform == "linux" and not _HAS_SCREEN and "MUJOCO_GL" not in os.environ:
    os.environ["MUJOCO_GL"] = _renderer()


def require_mujoco() -> None:
    """Raise an error if MuJoCo is not installed; all that opens a cell asks first."""
    if find_spec("mujoco") is None:
        raise HoldfastError("The twin needs MuJoCo. Install it with: pip install 'holdfast[twin]'")

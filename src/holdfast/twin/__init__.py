"""The twin: the benchmark's two-arm cell in MuJoCo, with its tasks, scripted demonstrators and scorers."""

import os
import sys
from ctypes.util import find_library

# MuJoCo chooses its renderer when it is first imported; without a screen only EGL and OSMesa can draw.
if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
    os.environ.setdefault("MUJOCO_GL", "egl" if find_library("EGL") else "osmesa")

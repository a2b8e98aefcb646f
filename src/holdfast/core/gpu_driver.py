"""Whether this machine can have a GPU, found out without torch."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def has_gpu_driver() -> bool:
    """Whether the driver of a GPU is there; without one, torch sees no GPU either, and takes seconds to say so."""
    if sys.platform != "linux" or Path("/dev/kfd").exists():  # elsewhere, and with AMD's driver, torch has to say
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True

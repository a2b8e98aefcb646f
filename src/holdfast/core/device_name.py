"""Checks the name of a device without torch, which takes seconds to import."""

from __future__ import annotations

import re

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.gpu_driver import has_gpu_driver

VALID = ("auto", "cpu", "cuda", "cuda:0", "mps", "xpu")
_NAME = re.compile(r"auto|cpu|(cuda|mps|xpu)(:\d+)?")


def check_device(asked: str) -> None:
    """Refuse a device that torch does not know, and cuda on a machine without a driver for it."""
    if not _NAME.fullmatch(asked):
        raise unknown("device", asked, VALID, meant="cuda" if asked.lower().startswith("gpu") else None)
    if asked.startswith("cuda") and not has_gpu_driver():
        raise HoldfastError(
            f"--device={asked} was asked for, but this machine has no CUDA driver. Use --device=cpu or auto."
        )

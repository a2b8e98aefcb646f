"""Worker processes: they end with their parent, and start fast."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process


def end_with_parent() -> None:
    """Exit when the parent process ends: a parent that is killed cannot stop its workers."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Import what a process keeps to its end without garbage collection, and never collect it.

    LeRobot's import makes hundreds of thousands of lasting objects; looking through them would add a sixth.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def killed_with_parent(parent: int) -> None:
    """In a forked child, before it runs a program: kill it when the process `parent` ends. Only Linux can."""
    set_death_signal = 1  # of prctl
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)

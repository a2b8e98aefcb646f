"""Worker processes that end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from multiprocessing import parent_process


def end_with_parent() -> None:
    """Exit when the parent process ends: a parent that is killed cannot stop its workers."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def killed_with_parent(parent: int) -> None:
    """In a forked child, before it runs a program: kill it when the process `parent` ends. Only Linux can."""
    set_death_signal = 1  # of prctl
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)

"""Worker processes: they end with their parent, import what they share once, and do not run its script again."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import parent_process, spawn
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from typing import Any

_told_by_python = spawn.get_preparation_data
_here = threading.local()  # `apart`: whether this thread starts a process that does not run the script


def _told(name: str) -> dict[str, Any]:
    """What a new process is told of this one: without the script, if it is one of ours."""
    told: dict[str, Any] = _told_by_python(name)
    if getattr(_here, "apart", False):
        for key in ("init_main_from_name", "init_main_from_path"):
            told.pop(key, None)
    return told


spawn.get_preparation_data = _told


@contextmanager
def _apart() -> Iterator[None]:
    _here.apart = True
    try:
        yield
    finally:
        _here.apart = False


class _ForkedProcess(ForkServerProcess):
    def start(self) -> None:
        with _apart():
            super().start()


class _SpawnedProcess(SpawnProcess):
    def start(self) -> None:
        with _apart():
            super().start()


# Python's own processes run the script that has started them once more, unless it says `if __name__ == "__main__":`.
# These do not. Locks and shared values of workers belong to FORKED.
FORKED, SPAWNED = ForkServerContext(), SpawnContext()
FORKED.Process, SPAWNED.Process = _ForkedProcess, _SpawnedProcess  # type: ignore[misc]


def end_with_parent() -> None:
    """Exit when the parent process ends: a parent that is killed cannot stop its workers."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def worker_pool(
    processes: int,
    preload: Sequence[str] = (),
    begin: Callable[..., None] | None = None,
    *values: Any,
    on_gpu: bool = False,
) -> ProcessPoolExecutor:
    """Worker processes, forked from a server that imports once what they all need.

    Args:
        processes: How many.
        preload: Modules that the server imports when the first pool starts it. None may import MuJoCo, which opens the
            GPU's display.
        begin: Prepares a worker; called in it.
        values: What `begin` gets.
        on_gpu: Whether workers compute on a GPU. Then each starts anew: a fork may not, once its server has looked for
            one, as importing LeRobot does.
    """
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # torch then looks without opening the GPU
    context = SPAWNED if on_gpu else FORKED
    FORKED.set_forkserver_preload(list(preload))
    return ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(dict(os.environ), begin, values))


def _begin(environment: dict[str, str], begin: Callable[..., None] | None, values: Sequence[Any]) -> None:
    os.environ.update(environment)  # the server has that of its start
    end_with_parent()
    if begin:
        begin(*values)


def killed_with_parent(parent: int) -> None:
    """In a forked child, before it runs a program: kill it when the process `parent` ends. Only Linux can."""
    set_death_signal = 1  # of prctl
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)

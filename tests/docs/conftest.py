"""Trials of pages and notebooks: in this process, and short, since they show only that the commands work."""

from concurrent.futures import Executor, Future

import pytest

from holdfast.evaluate import workers
from holdfast.twin.tasks import TASKS, task_class


class InThisProcess(Executor):
    """Runs trials here."""

    def __init__(self, *start, **named): ...

    def submit(self, run, *given):
        future = Future()
        future.set_result(run(*given))
        return future


@pytest.fixture(scope="module")
def short_trials():
    """Trials end after a second. Demonstrations are recorded by other processes, to their end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "worker_pool", InThisProcess)
        for task in TASKS:
            patch.setattr(task_class(task), "max_steps", 30)
        yield

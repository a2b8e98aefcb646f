"""Trials of pages and notebooks run in this process: they are few."""

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
def trials_in_this_process():
    """No process is started for trials. Demonstrations are recorded by other processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "worker_pool", InThisProcess)
        yield


@pytest.fixture
def short_trials(trials_in_this_process, monkeypatch):
    """Trials end after two seconds. Lanes that are open know their time, so no other test gets one of these."""
    for task in TASKS:
        monkeypatch.setattr(task_class(task), "max_steps", 60)
    workers._lanes.cache_clear()
    yield
    workers._lanes.cache_clear()

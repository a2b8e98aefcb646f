"""Assignments that can be started again, with a clock of their own."""

import pytest

from holdfast.console.assignments import Assignments
from holdfast.runs.run import read_run


class Clock:
    def __init__(self):
        self.now = 1.8e9

    def __call__(self):
        self.now += 0.001
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_runs(clock):
    """A function that opens the assignments of runs; a second call is a restart."""
    opened = []

    def open_them(*folders, target=0):
        opened.append(Assignments([read_run(folder) for folder in folders], target, clock))
        return opened[-1]

    yield open_them
    for assignments in opened:
        assignments.close()

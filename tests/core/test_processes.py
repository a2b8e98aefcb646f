"""Worker processes know what their parent knows now, not what it knew when their server started."""

import os

from holdfast.core.processes import worker_pool

NAME = "HOLDFAST_TEST_OF_WORKERS"
told: list[str] = []


def prepare(word):
    told.append(word)


def seen():
    return os.environ.get(NAME), told


def test_workers_have_the_environment_of_now_and_are_prepared(monkeypatch):
    with worker_pool(1) as pool:
        assert pool.submit(seen).result() == (None, [])
    monkeypatch.setenv(NAME, "set")
    with worker_pool(1, (), prepare, "word") as pool:
        assert pool.submit(seen).result() == ("set", ["word"])

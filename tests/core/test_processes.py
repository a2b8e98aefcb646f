"""Worker processes know what their parent knows now, end with it, and do not run its script again."""

import os
import subprocess
import sys

import pytest
from toys import descendants, wait_for_end

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


@pytest.mark.parametrize("on_gpu", [True, False])
def test_only_workers_that_use_no_gpu_are_forked_from_the_server(on_gpu):
    with worker_pool(1, on_gpu=on_gpu) as pool:
        assert (pool.submit(os.getppid).result() == os.getpid()) is on_gpu


UNGUARDED = """
from holdfast.core.processes import worker_pool
from holdfast.evaluate.remote_lane import RemoteLane
print("script")
for on_gpu in (False, True):
    with worker_pool(2, on_gpu=on_gpu) as pool:
        print(sum(pool.map(abs, [-1, 2])))
RemoteLane("twin").close()
import __main__
print("RemoteLane" in vars(__main__))
"""


def test_a_script_without_a_guard_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (done.stdout.split(), done.stderr) == (["script", "3", "3", "True"], "")


TWO_AT_WORK = """
import time
from holdfast.core.processes import worker_pool
pool = worker_pool(2)
for _ in range(2):
    pool.submit(time.sleep, 3600)
print("begun", flush=True)
"""


def test_workers_and_their_server_end_with_the_process_that_is_killed():
    process = subprocess.Popen([sys.executable, "-c", TWO_AT_WORK], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    started = descendants(process.pid)
    assert len(started) >= 4, "two, the server that forks them, and Python's tracker of resources"
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for_end(started)

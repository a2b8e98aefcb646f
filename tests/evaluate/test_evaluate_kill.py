"""An evaluation killed in the middle and started again has the trials of one that was left alone."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from runs import twins

from holdfast.cli import main
from holdfast.evaluate.engine import Choice, _orders, plan
from holdfast.evaluate.workers import SHARE, Setup, run_share
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

TRIALS = SHARE + 2
# Stops itself after every trial that it writes: however busy the machine, it is killed in the middle.
COMMAND = """
import os, signal, sys
from holdfast.cli import main
from holdfast.runs.trials import Trials

def add_and_stop(trials, *given):
    add(trials, *given)
    os.kill(os.getpid(), signal.SIGSTOP)

add, Trials.add = Trials.add, add_and_stop
sys.exit(main(sys.argv[1:]))
"""


def flags(run):
    return ["evaluate", str(run), f"--trials={TRIALS}", "--processes=2", "--device=cpu", "--stages=1"]


def written(run):
    if not (run / "trials.sqlite").exists():  # connecting would create it
        return []
    try:
        return sqlite3.connect(run / "trials.sqlite").execute("SELECT seed FROM trials ORDER BY id").fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []


def descendants(process):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True)
    children = [int(pid) for pid in listed.stdout.split()]
    return children + [pid for child in children for pid in descendants(child)]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.timeout(1800)  # half a minute of CPU time, on a busy machine much longer
def test_a_killed_evaluation_loses_and_doubles_nothing(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *flags(run)], stdout=subprocess.PIPE, text=True)
    while not written(run) and process.poll() is None:
        time.sleep(0.02)
    workers = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = written(run)
    assert 0 < len(before) < TRIALS
    assert len(workers) >= 4, "two, the server that forks them, and Python's tracker of resources"
    while any(map(alive, workers)):  # workers go with the one who started them; the test's own limit of time is one
        time.sleep(0.1)

    assert main(flags(run)) == 0
    with Trials(run / "trials.sqlite") as trials:
        found = trials.all()
    assert written(run)[: len(before)] == before, "what was written stays"
    assert [trial.seed for trial in found] == list(range(TRIALS))

    fresh = read_run(shutil.copytree(finished, tmp_path / "left-alone" / "run"))
    choice = Choice(trials=TRIALS, stages=(1,))
    with Trials(fresh.trials) as trials:
        orders = list(_orders(fresh, choice, plan(fresh, choice, trials)))
    assert twins(found)[::3] == twins([trial for _, trial in run_share(Setup("cpu"), orders[::3])])

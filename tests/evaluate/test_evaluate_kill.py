"""An evaluation killed in the middle and started again has the trials of one that was left alone."""

import os
import shutil
import signal
import sqlite3
import time

import pytest
from runs import twins
from toys import descendants, fork_workers, wait_for_end

from holdfast.cli import main
from holdfast.core.processes import FORKED
from holdfast.evaluate.engine import Choice, _orders, plan
from holdfast.evaluate.workers import SHARE, Setup, run_share
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

TRIALS = SHARE + 2


def flags(run):
    return ["evaluate", str(run), f"--trials={TRIALS}", "--processes=2", "--device=cpu", "--stages=1"]


def _evaluate_and_stop(run):
    """Evaluate, and stop after every trial that is written: however busy the machine, it is killed in the middle."""
    fork_workers()
    add = Trials.add

    def add_and_stop(trials, *given):
        add(trials, *given)
        os.kill(os.getpid(), signal.SIGSTOP)

    Trials.add = add_and_stop
    os._exit(main(flags(run)))


def written(run):
    if not (run / "trials.sqlite").exists():  # connecting would create it
        return []
    try:
        return sqlite3.connect(run / "trials.sqlite").execute("SELECT seed FROM trials ORDER BY id").fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.timeout(1800)  # ten seconds of CPU time, on a busy machine much longer
def test_a_killed_evaluation_loses_and_doubles_nothing(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    process = FORKED.Process(target=_evaluate_and_stop, args=(run,))
    process.start()
    while not written(run) and process.is_alive():
        time.sleep(0.02)
    workers = descendants(process.pid)
    process.kill()
    process.join()
    before = written(run)
    assert 0 < len(before) < TRIALS
    assert len(workers) == 2
    wait_for_end(workers)

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

"""Time of an evaluation by two processes against one, from the command to the last trial written, and whether both
give the same trials.

The policy is an untrained nano of a size for CPUs (64 px, width 128), so no trial succeeds and all run to the task's
limit. A worker first imports torch and LeRobot, which takes as long by two processes as by one; the ratio without that
start is given beside. Both are tried twice by turns and the faster counts: other work on the machine only slows down.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parents[1] / "tests" / "evaluate"))

from holdfast.core.records import Trial
from holdfast.evaluate.engine import Choice, Evaluation, measure, plan
from holdfast.evaluate.workers import SHARE
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

BAR = 1.8
ATTEMPTS = 2
CPU_SIZED = {"image_size": 64, "width": 128, "heads": 4}


def evaluate(folder: Path, trials: int, processes: int) -> tuple[float, float, list[Trial]]:
    """Seconds in all, seconds from the first trial on for each trial, and the trials."""
    run, choice = read_run(folder), Choice(trials=trials, stages=(1,), processes=processes)
    begun = time.perf_counter()
    written = []
    with Trials(run.trials) as file:
        for _ in measure([Evaluation(run, plan(run, choice, file), file)], choice):
            written.append(time.perf_counter())
        found = [replace(trial, when=0.0, run="") for trial in file.all()]
    # The first shares of all processes end together; from then on the pace is steady.
    first = SHARE * processes
    steady = (written[-1] - written[first - 1]) / (trials - first)
    return written[-1] - begun, steady, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--task", default="stack_bowls")
    options = parser.parse_args()
    # Not above: workers import this file first, and would load LeRobot before they are set up to do it fast.
    from runs import make_run

    with tempfile.TemporaryDirectory() as scratch:
        made = make_run(Path(scratch) / "run", (options.task,), chunk=8, size=64, options=CPU_SIZED)
        results: dict[int, list[tuple[float, float, list[Trial]]]] = {1: [], 2: []}
        for attempt, processes in product(range(ATTEMPTS), results):
            folder = shutil.copytree(made, Path(scratch) / f"{attempt}-by-{processes}")
            results[processes].append(evaluate(folder, options.trials, processes))
            seconds, steady, _ = results[processes][-1]
            print(f"{options.trials} trials by {processes}: {seconds:.1f} s, {steady:.2f} s a trial after the start")
    (one, pace), (two, double_pace) = (
        (min(seconds for seconds, _, _ in tries), min(steady for _, steady, _ in tries)) for tries in results.values()
    )
    print(f"two processes against one: {one / two:.2f}x (bar: {BAR}), {pace / double_pace:.2f}x after the start")
    print(f"the same trials: {all(found == results[1][0][2] for tries in results.values() for _, _, found in tries)}")


if __name__ == "__main__":
    main()

"""Run folders with filmed attempts that wait for a score, as `holdfast rollout` leaves them, and people who score."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from contextlib import contextmanager

from report.synthetic import write_run, write_video

from holdfast.runs.trials import Trials

TASKS = ("stack_bowls", "press_button")


def make_run(folder, rollouts=0, tasks=TASKS, **options):
    """A run without trials, with so many rollouts spread over its cells."""
    options = {"evaluated": False, "heldout": False, "names": tasks, **options}
    write_run(folder, **options)
    cells = [(task, stage) for stage in range(1, len(tasks) + 1) for task in tasks[:stage]]
    for number in range(rollouts):
        add_rollout(folder, number, *cells[number % len(cells)])
    return folder


def add_rollout(folder, number, task, stage, **content):
    """One filmed attempt; the video is made once and copied."""
    place = folder / "rollouts" / f"{number:04d}"
    place.mkdir(parents=True)
    made = folder.parent / "made.mp4"
    if not made.exists():
        write_video(made, frames=30, size=128)
    shutil.copy(made, place / "video.mp4")
    record = {
        "task": task, "stage": stage, "policy": f"weights{stage}", "normalization": "space", "operator": "",
        "seconds": 12.0, "when": 1.7e9 + number, "source": "robot", "valid": True, "why": "",
    }  # fmt: skip
    (place / "rollout.json").write_text(json.dumps(record | content))
    return place


def tell(assignments, operator, attempt, kind, value=None, key=None):
    return assignments.tell(operator, attempt.ticket, key or uuid.uuid4().hex, kind, value)


def score(assignments, operator, way="video", reached=("reached",), **marks):
    """Take the next attempt and hand in a sheet for it."""
    attempt = assignments.next(operator, way)
    names = [m.name for m in attempt.task.milestones]
    for name in reached:
        if name in names:
            tell(assignments, operator, attempt, "milestone", {"name": name, "on": True})
    for kind, value in marks.items():
        tell(assignments, operator, attempt, kind, value)
    tell(assignments, operator, attempt, "submit")
    return attempt


def trials(folder):
    with Trials(folder / "trials.sqlite") as file:
        return file.all()


@contextmanager
def promptly():
    """Fail what would wait for ever, as reading a pipe does."""

    def stop(*_):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Server:
    """`holdfast score` in a process of its own, which can be killed and started again on the same port."""

    def __init__(self, *folders, port=0, flags=()):
        self.port = port  # 0: a free one, which it keeps
        self.command = [sys.executable, "-m", "holdfast", "score", *map(str, folders), *flags]
        self.process = None
        self.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        command = [*self.command, "--port", str(self.port)]
        self.process = subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r"Scoring at http://[^/]+:(\d+)/", self.process.stdout.readline())[1])
        for _ in range(1200):  # a minute
            try:
                urllib.request.urlopen(f"{self.address}/api/hello", timeout=2).close()
                return self
            except OSError:
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

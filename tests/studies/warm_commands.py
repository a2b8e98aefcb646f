"""Commands that Ray's workers start, without the five seconds in which each would import LeRobot.

A worker starts `python -m holdfast ...` as ever. In that process, `sitecustomize` asks a process forked from the
server of all tests to do the work, with the same arguments, folder, variables and output. The command ends as that
process ends; if the command is killed, so is that process.

With the variable WORK_PAUSES, seconds, the work rests before every demonstration, step and trial: who wants to kill a
command finds it at work.
"""

import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager
from functools import wraps

from toys import fork_workers, never_wait_for_the_disk

from holdfast.arenas import recording_shards
from holdfast.core.processes import FORKED
from holdfast.runs.trials import Trials
from holdfast.train.step import Stepper

# Where UNSEEN is set, a process can open, list and make nothing under that folder.
_BLIND = """
import os, sys

def refuse(event, args):
    if event in ("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "sqlite3.connect"):
        if str(args[0]).startswith(os.environ["UNSEEN"]):
            raise FileNotFoundError(2, "no such file", str(args[0]))

if "UNSEEN" in os.environ:
    sys.addaudithook(refuse)
"""
_ASK = """
if sys.orig_argv[1:3] == ["-m", "holdfast"] and sys.orig_argv[3] in ("record", "train", "evaluate"):
    import json, socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as worker:
        worker.connect(os.environ["WARM_COMMANDS"])
        told = json.dumps([sys.orig_argv[3:], os.getcwd(), dict(os.environ)])
        socket.send_fds(worker, [told.encode()], [1, 2])
        status = worker.recv(1)
    os._exit(status[0] if status else 1)  # without a status, it was killed
"""


@contextmanager
def warm_commands(folder):
    """Yields the variables under which commands do not start anew."""
    (folder / "sitecustomize.py").write_text(_BLIND + _ASK)
    first = FORKED.Process(target=os.getpid)
    first.start()
    first.join()  # from now on the server answers at once
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "commands"))
        listener.listen()
        threading.Thread(target=_fork_for_all, args=(listener,), daemon=True).start()
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        yield {"PYTHONPATH": path, "WARM_COMMANDS": str(folder / "commands")}
        listener.shutdown(socket.SHUT_RDWR)


def _fork_for_all(listener):
    while True:
        try:
            command, _ = listener.accept()
        except OSError:  # the test is over
            return
        with command:
            FORKED.Process(target=_work, args=(command,)).start()


def _work(command):
    """Do a command's work, in a process of its own."""
    told, files, *_ = socket.recv_fds(command, 1 << 20, 2)
    words, folder, variables = json.loads(told)
    threading.Thread(target=_end_with, args=(command,), daemon=True).start()
    for file, standard in zip(files, (1, 2), strict=True):
        os.dup2(file, standard)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.path[:0] = variables["PYTHONPATH"].split(os.pathsep)
    exec(_BLIND, {})
    fork_workers()
    never_wait_for_the_disk()
    for owner, name in ((recording_shards, "demonstrate"), (Stepper, "__call__"), (Trials, "add")):
        _rest_before(owner, name, float(variables.get("WORK_PAUSES", 0)))
    sys.argv[1:] = words
    from holdfast.cli import entry

    try:
        entry()
    except SystemExit as end:
        command.send(bytes([int(end.code)]))
    os._exit(0)


def _rest_before(owner, name, seconds):
    work = getattr(owner, name)

    @wraps(work)
    def rested(*given, **named):
        time.sleep(seconds)
        return work(*given, **named)

    setattr(owner, name, rested)


def _end_with(command):
    command.recv(1)  # the command sends nothing more: this is its end
    os._exit(1)

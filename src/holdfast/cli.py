"""The command line: imports only the module of the command that is run, and prints errors as one line."""

from __future__ import annotations

import errno
import os
import select
import sys
from importlib import import_module
from keyword import iskeyword
from typing import TextIO

from holdfast import __version__
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.torch_environment import set_up_torch

COMMANDS = {
    "run": "run a named experiment from recording to report: quickstart, single_arm, ...",
    "study": "carry out many runs with different settings and seeds, and compare them",
    "train": "train a policy on a stream of tasks, one stage after another",
    "doctor": "check datasets for faults before training",
    "export": "write the episodes a run keeps as a LeRobot dataset, or its pi0.5 for stock LeRobot",
    "import": "convert older LeRobot datasets and other code's replay buffers",
    "evaluate": "run trials of every task after every stage in an arena: the matrix of scores",
    "cache": "list and remove decoded frames kept between runs",
    "score": "serve a page on which people score attempts, live or on video, blind to the checkpoint",
    "plan": "show how many more trials each cell needs for a given interval width",
    "metrics": "compute AS, BWT and FWT of a matrix of scores",
    "report": "write one page about runs: matrices, metrics, where tasks break, videos",
    "bundle": "pack a stage's policy into one folder; check, compare, deploy, roll back",
    "serve": "serve a bundle's policy to robots over a websocket",
    "rollout": "run a policy on the simulated or the real robot, filmed and recorded",
    "record": "record demonstrations of the simulated cell's experts as LeRobot datasets",
    "watch": "make a video of an expert, a policy or a recorded episode, with the rubric beside it",
    "twin": "score and draw the simulated cell's tasks under scripted policies",
}

HELP = """\
Holdfast teaches a robot policy new tasks one after another without losing the old ones.

usage: holdfast COMMAND [--help] [options]

{commands}

start here:
  holdfast run quickstart                  see it work on a CPU in ten minutes
  holdfast doctor my_dataset               check your data
  holdfast train --stream=tasks.toml       train; run it again after a crash
"""


def main(argv: list[str]) -> int:
    """Run one command and return its exit code: 0 done, 2 an error the user can fix."""
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        print(HELP.format(commands="\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())))
        return 0
    if argv[0] == "--version":
        print(f"holdfast {__version__}")
        return 0
    try:
        if argv[0] not in COMMANDS:
            raise unknown("command", argv[0], COMMANDS)
        module = argv[0] + "_" * iskeyword(argv[0])
        return int(import_module(f"holdfast.commands.{module}").main(argv[1:]))
    except HoldfastError as error:
        print(f"holdfast: {_shortened(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        print(f"holdfast: {str(error.filename)[:80]!r}... is too long for the name of a file.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("holdfast: stopped. Run the same command again to continue.", file=sys.stderr)
        return 130


def _shortened(message: str) -> str:
    """A message without the middle of a value that somebody made very long; advice comes last and stays."""
    return message if len(message) <= 4000 else f"{message[:2000]} ... {message[-1000:]}"


def entry() -> None:
    """Entry point of the console script. Exits with 1 if the reader of its output went away, like `head`."""
    set_up_torch()
    try:
        try:
            code = main(sys.argv[1:])
        finally:
            print(end="", flush=True)  # while the error can still be caught
    except BrokenPipeError:
        if not (_abandoned(sys.stdout) or _abandoned(sys.stderr)):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # Python flushes once more on its way out
        os.dup2(nowhere, sys.stderr.fileno())
        code = 1
    sys.exit(code)


def _abandoned(output: TextIO) -> bool:
    """Whether nobody is left to read a pipe."""
    poll = select.poll()
    poll.register(output, select.POLLERR)
    return bool(poll.poll(0))

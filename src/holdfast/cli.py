"""The command line: imports only the module of the command that is run, and prints errors as one line."""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Iterator
from importlib import import_module
from keyword import iskeyword
from typing import TextIO

from holdfast import __version__
from holdfast.commands import COMMANDS, GROUPS
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.torch_environment import set_up_torch

HELP = """\
Holdfast teaches a robot policy new tasks one after another without losing the old ones.

usage: holdfast COMMAND [--help] [options], or holdfast --version (-V)

{commands}
start here:
  holdfast run quickstart                  see it work on a CPU in eight minutes
  holdfast doctor my_dataset               check your data
  holdfast train --stream=tasks.toml       train; run it again after a crash
"""


def main(argv: list[str]) -> int:
    """Run one command and return its exit code: 0 done, 2 an error the user can fix."""
    if not argv or argv[0] in ("-h", "--help"):
        print(HELP.format(commands="\n".join(_help())))
        return 0
    if argv[0] in ("-V", "--version"):
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


def _help() -> Iterator[str]:
    width = max(map(len, COMMANDS))
    for title, group in GROUPS.items():
        yield f"{title}:"
        yield from (f"  {name:<{width}}  {text}" for name, text in group.items())
        yield ""


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

"""The command line: finds the command, imports only what it needs, and turns errors into one clear line."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from keyword import iskeyword

from holdfast import __version__
from holdfast.core.errors import HoldfastError, unknown

COMMANDS = {
    "run": "a named experiment from the first demonstration to the report: quickstart, single_arm, ...",
    "train": "train a policy on a stream of tasks, one stage after the other",
    "doctor": "look for faults in datasets before they cost a training run",
    "export": "the episodes a run keeps for replay, as a LeRobot dataset",
    "import": "older LeRobot datasets and other code's replay buffers, made readable here",
    "evaluate": "trials of every task after every stage in the simulated cell: the matrix of scores",
    "cache": "decoded frames kept between runs: what there is, and how to be rid of it",
    "score": "a page on which people score attempts on the robot or on video, blind to the checkpoint",
    "plan": "which cells still need how many trials for an interval of a wanted width",
    "metrics": "AS, BWT and FWT of a matrix of scores",
    "report": "one page about runs: matrices, metrics, where tasks break, videos",
    "bundle": "a stage's policy as one folder to check, compare, deploy and take back",
    "serve": "a bundle's policy, asked by robots over a websocket",
    "rollout": "a policy on a robot, the simulated pair or the real one, filmed and recorded",
    "record": "demonstrations of the simulated cell's experts as LeRobot datasets",
    "watch": "an expert, a policy or a recorded episode as a video with the rubric ticking",
    "twin": "scores and pictures of the simulated cell's tasks under scripted policies",
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
    """Run one command and return its exit code: 0 done, 2 a mistake the user can mend."""
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
        print(f"holdfast: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("holdfast: stopped. Run the same command again to go on.", file=sys.stderr)
        return 130


def set_up_torch() -> None:
    """What torch reads when it starts; a variable that is set already is left alone."""
    # On shared cores two threads can be far slower than one.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    # A GPU's memory that cannot grow in place breaks into pieces: pi0.5's largest batch would be a tenth smaller.
    if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the older name
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def entry() -> None:
    """Console script."""
    set_up_torch()
    sys.exit(main(sys.argv[1:]))

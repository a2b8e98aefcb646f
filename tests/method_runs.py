"""Short runs of a method on two toy tasks, and runs that are killed."""

import os
import signal
from importlib import import_module

import torch
from safetensors.torch import load_file
from toys import TINY, never_wait_for_the_disk

from holdfast.cli import main
from holdfast.core.processes import FORKED

STAGES = ("01-reach", "02-lift")


def arguments(toy, name, *more):
    base = ["train", f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--tasks=[reach, lift]", "--device=cpu"]
    small = ("--steps=6", "--batch_size=4", "--log.every=2", "--checkpoint.every=3")
    return [*base, *TINY, *small, *more]


def train(toy, name, *more, code=0):
    assert main(arguments(toy, name, *more)) == code
    return toy / name


def weights(run, stage="02-lift"):
    return load_file(run / "stages" / stage / "checkpoint" / "policy" / "model.safetensors")


def kept(run, stage="02-lift"):
    return load_file(run / "stages" / stage / "checkpoint" / "method.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def distance(one, other):
    return sum(float((one[name] - other[name]).square().sum()) for name in one)


def _die(words, module, place, call):
    """Run a command, and be killed right after the n-th call of a function, given like "Class.function"."""
    *path, hook = place.split(".")
    owner = import_module(module)
    for part in path:
        owner = getattr(owner, part)
    real, count = getattr(owner, hook), 0

    def dying(*args, **named):
        nonlocal count
        count += 1
        done = real(*args, **named)
        if count == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, hook, dying)
    never_wait_for_the_disk()
    os._exit(main(words))


def killed(toy, name, *more, kill):
    """Start a run that is killed with signal 9 after a call of a function: its module, its place there, which call."""
    process = FORKED.Process(target=_die, args=(arguments(toy, name, *more), *kill))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL, kill

"""Seconds until each command shows its first sign of life, and until mistakes are answered; those of its processor too.

A command runs at a terminal of its own and is stopped as soon as it has said what is waited for: anything at all, or
the last line of a plan. Its data is small: one demonstration of the twin and a run of two steps. The best of a few
rounds counts: others on the machine can only slow them. The aim is 3 s on two quiet cores. On a busy machine the
seconds of the processor say more.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.commands import COMMANDS

AIM, LIMIT = 3.0, 120.0  # seconds
TRAIN = ("train", "--stream=single_arm", "--tasks=[press_button]", "--data_root=data")
TINY = ("--policy.image_size=32", "--policy.width=64", "--policy.heads=2", "--steps=2", "--batch_size=2")
RUN = "runs/single_arm-er"
SIGNS = {
    "run": ("run", "quickstart", "--output=runs/quickstart"),
    "study": ("study", "plan", "replay-ratio"),
    "train": (*TRAIN, "--preset=cpu", "--output=runs/new"),
    "doctor": ("doctor", "data/press_button"),
    "export": ("export", "buffer", RUN, "--output=kept"),
    "import": ("import", "dataset", "data/press_button", "--output=imported"),
    "evaluate": ("evaluate", RUN, "--trials=1"),
    "cache": ("cache", "ls"),
    "arena": ("arena", "ls"),
    "score": ("score", RUN, "--port=0"),
    "plan": ("plan", RUN),
    "metrics": ("metrics", "scores.json"),
    "report": ("report", RUN),
    "bundle": ("bundle", RUN, "--output=bundled"),
    "serve": ("serve", "bundle", "--port=0"),
    "rollout": ("rollout", "--task=press_button", "--run", RUN, "--fast"),
    "record": ("record", "--tasks", "press_button", "--episodes=1", "--output=more"),
    "watch": ("watch", "--task=press_button", "--out=watched.mp4"),
    "twin": ("twin", "score", "--task=press_button", "--seeds=0:1"),
    "completion": ("completion", "bash"),
}
NEW = (*TRAIN, "--output=runs/other")
PLANS = {
    "train --dry-run": ((*NEW, "--dry-run"), "steps in all"),
    "run --dry-run": (("run", "quickstart", "--dry-run"), "holdfast report"),
    "study plan": (("study", "plan", "replay-ratio"), "disk:"),
}
MISTAKES = {
    "a flag": ((*NEW, "--batchsize=8"), "Did you mean"),
    "the base": ((*NEW, "--policy.path=nano_base"), "Did you mean"),
    "a policy's option": ((*NEW, "--policy.imagesize=64"), "Did you mean"),
    "a device": ((*NEW, "--device=gpu"), "Did you mean"),
    "a dataset": (("train", "--stream=typo.toml"), "hf download"),
    "a policy": ((*NEW, "--policy.path=me/policy"), "hf download"),
    "a run": (("evaluate", "runs/single_arm-err"), "Did you mean"),
    "a logger": ((*NEW, "--log.wandb"), "holdfast[wandb]"),
}


def until(words: tuple[str, ...], sign: str, folder: Path) -> tuple[float, float]:
    """Seconds until a command has said `sign`, or anything if that is empty, and its processor's; then it is ended."""
    ours, its = pty.openpty()
    start = time.monotonic()
    command = [sys.executable, "-m", "holdfast", *words]
    process = subprocess.Popen(command, cwd=folder, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    said, seconds, of_processor = "", float("inf"), float("inf")
    while time.monotonic() - start < LIMIT and select.select([ours], [], [], LIMIT)[0]:
        try:
            said += os.read(ours, 65536).decode(errors="replace")
        except OSError:  # it has ended
            break
        if said and sign in said:
            seconds, of_processor = time.monotonic() - start, processor_seconds(process.pid)
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    os.close(ours)
    return seconds, of_processor


def processor_seconds(process: int) -> float:
    """What a process has used of the processor, its threads included and its children not. Linux only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    user, system = fields[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def prepare(folder: Path) -> None:
    """Record a demonstration, train on it for two steps, and bundle the result."""
    for words in (
        ("record", "--tasks", "press_button", "--episodes=1", "--size=64", "--output=data"),
        (*TRAIN, *TINY, f"--output={RUN}", "--device=cpu"),
        ("bundle", RUN, "--output=bundle"),
    ):
        subprocess.run([sys.executable, "-m", "holdfast", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (folder / "scores.json").write_text('{"tasks": ["a"], "cells": [[50]]}')
    (folder / "typo.toml").write_text('name = "typo"\n[[task]]\nname = "press_button"\ndataset = "me/press_buton"\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="rounds of which the best counts (2)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these commands, plans and mistakes (all)")
    args = parser.parse_args()
    assert set(SIGNS) == set(COMMANDS), set(SIGNS) ^ set(COMMANDS)
    jobs = [("first sign of", name, words, "") for name, words in SIGNS.items()]
    jobs += [("plan of", name, *job) for name, job in PLANS.items()]
    jobs += [("mistake in", name, *job) for name, job in MISTAKES.items()]
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        for kind, name, words, sign in jobs:
            if args.only and name not in args.only:
                continue
            rounds = [until(words, sign, Path(scratch)) for _ in range(args.rounds)]
            seconds, of_processor = map(min, zip(*rounds, strict=True))
            slow = "  (slow)" if seconds > AIM else ""
            print(f"{seconds:7.2f} s  {of_processor:6.2f} s of the processor  {kind} {name}{slow}", flush=True)


if __name__ == "__main__":
    main()

"""Killed ten times, inside steps and inside saves, a run ends with the weights of the run that never was."""

import os
import random
import shutil
import signal
import time

import pytest
from toys import TINY, never_wait_for_the_disk

from holdfast.core.processes import FORKED

KILLS = 10


def _train(toy, output, killing_sync):
    """Run the command; with `killing_sync`, die in the n-th sync of a file, in the middle of writing a checkpoint."""
    os.setsid()
    never_wait_for_the_disk()
    from holdfast.cli import main
    from holdfast.core import checked_folder

    real, count = checked_folder._sync, 0

    def sync(path):
        nonlocal count
        count += 1
        if count == killing_sync:
            os.kill(os.getpid(), signal.SIGKILL)
        real(path)

    checked_folder._sync = sync
    base = ["train", f"--stream={toy}/stream.toml", f"--output={output}", "--tasks=[reach, lift]", "--device=cpu"]
    code = main([*base, *TINY, "--steps=12", "--batch_size=4", "--checkpoint.every=3", "--log.every=2"])
    os._exit(code)


def _weights(run):
    from holdfast.core.checked_folder import file_hash

    return file_hash(run / "stages" / "02-lift" / "checkpoint" / "policy" / "model.safetensors")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # twenty seconds of CPU time, on a busy machine much longer
def test_ten_kills_leave_the_same_weights(toy):
    # The fork server has imported everything: each run is a real process of its own, but starts at once.
    def start(output, killing_sync=0):
        process = FORKED.Process(target=_train, args=(toy, output, killing_sync))
        process.start()
        return process

    start(toy / "warm").join()
    begun = time.monotonic()
    whole = start(toy / "whole")
    whole.join()
    duration = time.monotonic() - begun
    assert whole.exitcode == 0

    rng, kills, outputs = random.Random(0), 0, []
    while kills < KILLS:
        run = toy / f"killed-{len(outputs)}"
        outputs.append(run)
        while True:
            if kills == KILLS:
                process = start(run)
                process.join()
            elif kills % 2:
                process = start(run, killing_sync=rng.randint(1, 12))
                process.join()
            else:
                begun = time.monotonic()
                process = start(run)
                process.join(rng.uniform(0.05, 0.8) * duration)
                if process.is_alive():
                    os.kill(process.pid, signal.SIGKILL)
                    process.join()
                else:  # the machine was busier when the whole run was timed
                    duration = min(duration, time.monotonic() - begun)
            if process.exitcode == 0:
                break
            assert process.exitcode == -signal.SIGKILL
            kills += 1
    for run in outputs:
        assert _weights(run) == _weights(toy / "whole")
        shutil.rmtree(run)

"""The toy tasks that tests train on, and the smallest nano that can learn them."""

import os
import subprocess
import time
from contextlib import suppress
from multiprocessing import get_context

import numpy as np

from holdfast.core import processes

TASKS = {"reach": ("left",), "lift": ("left", "right"), "sweep": ("left",)}
ACT = (
    "--policy.type=act",
    "--policy.pretrained_backbone_weights=null",
    "--policy.chunk_size=4",
    "--policy.n_action_steps=4",
    "--policy.dim_model=32",
    "--policy.n_heads=2",
    "--policy.dim_feedforward=32",
    "--policy.n_encoder_layers=1",
)
TINY = (
    "--policy.image_size=32",
    "--policy.width=64",
    "--policy.heads=2",
    "--policy.encoder_layers=1",
    "--policy.decoder_layers=1",
    "--policy.chunk_size=8",
    "--policy.n_action_steps=4",
)


def stream_text(names=tuple(TASKS), embodiment="piper_x_pair"):
    """A stream file with the given toy tasks."""
    lines = ['name = "toy"', f'embodiment = "{embodiment}"' if embodiment else ""]
    for name in names:
        lines += ["[[task]]", f'name = "{name}"', f'instruction = "Please {name}."', f"arms = {list(TASKS[name])}"]
        lines += [f'dataset = "{name}"']
    return "\n".join(lines) + "\n"


def never_wait_for_the_disk():
    """Nobody cuts the power here, and a small training would wait as long as it computes. For a process of its own."""
    os.fsync = lambda handle: None


def fork_workers():
    """Worker pools are forked from this process, which has imported everything. For a process of its own."""
    processes.FORKED = get_context("fork")


def descendants(process):
    """The ids of all processes that a process has started, and those have started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    children = [int(pid) for pid in listed.stdout.split()]
    return children + [pid for child in children for pid in descendants(child)]


def wait_for_end(processes):
    """Wait until none of the processes, given by id, is there. Only the test's own limit of time ends this else."""
    for process in processes:
        with suppress(ProcessLookupError):
            while True:
                os.kill(process, 0)
                time.sleep(0.05)


def draw_quickly(patch):
    """Draw pictures for people with one rendering and coarse shadows, as long as a patch of pytest lasts."""
    from holdfast.twin.portrait import Portrait, Quality

    patch.setattr("holdfast.twin.env.Portrait", lambda copy, *size: Portrait(copy, *size[:2], Quality(1, 64)))


def write_numbers(root, state_names, action_names, *, deltas=False, camera="observation.image", episodes=3, seed=0):
    """A LeRobot dataset of 12 frames per episode whose state and action may differ.

    An action is the next state of the same name; without one, or with `deltas`, it is an increment. Names may be a
    number: then so many dimensions have none.
    """
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    state_size, action_size = (n if isinstance(n, int) else len(n) for n in (state_names, action_names))
    named = [None if isinstance(n, int) else list(n) for n in (state_names, action_names)]
    dataset = LeRobotDataset.create(
        f"local/{root.name}",
        fps=10,
        root=root,
        features={
            "observation.state": {"dtype": "float32", "shape": (state_size,), "names": named[0]},
            "action": {"dtype": "float32", "shape": (action_size,), "names": named[1]},
            camera: {"dtype": "image", "shape": (32, 32, 3), "names": ["height", "width", "channels"]},
        },
        use_videos=False,
    )
    rng = np.random.default_rng(seed)
    for _ in range(episodes):
        path = 5 + np.cumsum(rng.uniform(-0.1, 0.1, (13, state_size)), axis=0)
        for t in range(12):
            action = rng.uniform(-0.1, 0.1, action_size)
            for place, name in enumerate(named[1] or ()):
                if not deltas and name in (named[0] or ()):
                    action[place] = path[t + 1, named[0].index(name)]
            image = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            numbers = {"observation.state": path[t].astype(np.float32), "action": action.astype(np.float32)}
            dataset.add_frame({"task": "Do it.", camera: image, **numbers})
        dataset.save_episode()
    dataset.finalize()


def numbers_stream(folder, names=("one", "two"), embodiment=None):
    """A stream file over datasets of `write_numbers` in a folder."""
    lines = ['name = "numbers"', f'embodiment = "{embodiment}"' if embodiment else ""]
    for name in names:
        lines += ["[[task]]", f'name = "{name}"', f'instruction = "Do {name}."', f'dataset = "{name}"']
    file = folder / "stream.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def candidates(task, lengths, seed=0, **more):
    """Episodes of given lengths to choose from, all alike."""
    from holdfast.replay.selection import Candidates

    ends = np.cumsum(lengths)
    values = np.zeros((sum(lengths), 2))
    return Candidates(task, seed, **({"state": values, "action": values} | more), starts=ends - lengths, ends=ends)


def stream_of(*names):
    """A stream of tasks that nobody opens."""
    from holdfast.core.records import Stream, StreamTask, Task

    return Stream("toy", tuple(StreamTask(Task(name, f"Do {name}.", ("left",)), f"/data/{name}") for name in names))

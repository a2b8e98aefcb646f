"""What the tests of serving share: a run as training leaves it, questions to ask, a server in a thread."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from lerobot.configs import FeatureType, PolicyFeature
from runs import CAMERAS, ROBOT, make_run

from holdfast.core import checked_folder
from holdfast.norm.released import read_norm_stats
from holdfast.norm.strategies import GIVEN, Normalization
from holdfast.policies import adapter as adapters
from holdfast.policies.config import SHIPPED
from holdfast.serve.server import Server

TASKS = ("press_button", "place_fruits")
SIZE = 32


def make_trained(path: Path, tasks: tuple[str, ...] = TASKS, base: int | None = None) -> Path:
    """A run with all that training writes beside weights and statistics.

    Its policies are untrained, or with `base` all the one that is shipped, at that size of images.
    """
    make_run(path, tasks, size=base or SIZE)
    for folder in sorted(path.glob("stages/*/checkpoint")):
        _complete(folder, base)
    return path


def _complete(folder: Path, base: int | None) -> None:
    size = base or SIZE
    schema = {
        "fps": 30,
        "names": list(ROBOT.names),
        "cameras": {f"observation.images.{name}": [size, size] for name in CAMERAS},
    }
    old = folder.rename(folder.with_name("old"))

    def fill(target: Path) -> None:
        shutil.copytree(old, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))
        (target / "schema.json").write_text(json.dumps(schema))
        (target / "config.json").write_text(json.dumps({"stream": "bimanual", "data_root": "data"}))
        if base:
            _put_base(target, base)

    checked_folder.write(folder, fill)
    shutil.rmtree(old)


def _put_base(folder: Path, size: int) -> None:
    """The shipped policy in place of the untrained one, reading images of another size."""
    adapter = adapters.load(SHIPPED["nano-base"], ROBOT.names, "cpu")
    adapter.config.image_size = size
    for key in adapter.config.image_features:
        adapter.config.input_features[key] = PolicyFeature(FeatureType.VISUAL, (3, size, size))
    space = read_norm_stats(SHIPPED["nano-base"], len(ROBOT.names))
    shutil.rmtree(folder / "policy")
    adapter.save(folder / "policy", space)
    normalization = Normalization("frozen-first").with_task(GIVEN, space)
    (folder / "normalization.json").write_text(json.dumps(normalization.to_json()))


def question(which: int = 0, **changes) -> dict:
    """A question as a client would put it; even ones are about the one-arm task."""
    rng = np.random.default_rng(which)
    return {
        "state": rng.uniform(-0.5, 0.5, 14),
        "images": {name: rng.integers(0, 256, (SIZE, SIZE, 3), np.uint8) for name in CAMERAS},
        "prompt": TASKS[which % 2],
        "seed": which,
        "number": 3,
        **changes,
    }


class FakePolicy:
    """Answers with the state it was shown plus the question's seed, and remembers the sizes of its batches."""

    def __init__(self, delay: float = 0.0, remembers: bool = False) -> None:
        self.rows, self.answer_steps, self.delay, self.remembers = 4, 3, delay, remembers
        self.batches: list[int] = []
        self.begun = threading.Event()

    def answer(self, questions):
        self.batches.append(len(questions))
        self.begun.set()
        if self.delay:
            threading.Event().wait(self.delay)
        return [np.tile(question.state + question.seed, (self.answer_steps, 1)) for question in questions]


@contextmanager
def serving(bundle, policy, token=None, host="127.0.0.1", expected=""):
    """A server in a thread: gives the port and a function that stops it and waits. It must print what is `expected`."""
    said: list[str] = []
    server = Server(bundle, policy, token, said.append)
    ready: dict = {}
    up = threading.Event()

    async def run():
        ready["loop"] = asyncio.get_running_loop()
        await server.run(host, 0, lambda port: (ready.update(port=port), up.set()))

    def work():
        try:
            asyncio.run(run())
        except Exception as error:
            ready["error"] = error
            up.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert up.wait(120)
    if "error" in ready:
        raise ready["error"]

    def stop():
        if thread.is_alive():
            ready["loop"].call_soon_threadsafe(server.stop)
        thread.join(120)
        assert not thread.is_alive()

    try:
        yield ready["port"], stop
    finally:
        stop()
    assert bool(said) == bool(expected), said
    assert expected in "".join(said)

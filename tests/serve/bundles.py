"""What the tests of serving share: a run as training leaves it, questions to ask, a server in a thread."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from runs import CAMERAS, ROBOT, make_run

from holdfast.serve.server import Server
from holdfast.train import checkpoint

TASKS = ("press_button", "place_fruits")
SIZE = 32


def make_trained(path: Path, tasks: tuple[str, ...] = TASKS) -> Path:
    """A run with all that training writes beside weights and statistics."""
    make_run(path, tasks, size=SIZE)
    schema = {
        "fps": 30,
        "names": list(ROBOT.names),
        "cameras": {f"observation.images.{name}": [SIZE, SIZE] for name in CAMERAS},
    }
    for folder in sorted(path.glob("stages/*/checkpoint")):
        old = folder.rename(folder.with_name("old"))

        def fill(target: Path, old: Path = old) -> None:
            shutil.copytree(old, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))
            (target / "schema.json").write_text(json.dumps(schema))
            (target / "config.json").write_text(json.dumps({"stream": "bimanual", "data_root": "data"}))

        checkpoint.write(folder, fill)
        shutil.rmtree(old)
    return path


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
    """Answers with the state it was shown plus the look's seed, and remembers the sizes of its batches."""

    def __init__(self, rows: int = 4, delay: float = 0.0) -> None:
        self.rows, self.horizon, self.delay = rows, 3, delay
        self.batches: list[int] = []
        self.begun = threading.Event()

    def answer(self, looks):
        self.batches.append(len(looks))
        self.begun.set()
        if self.delay:
            threading.Event().wait(self.delay)
        return [np.tile(look.state + look.seed, (self.horizon, 1)) for look in looks]


@contextmanager
def serving(bundle, policy, token=None, host="127.0.0.1"):
    """A server in a thread: gives the port and a function that stops it and waits."""
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
    assert up.wait(60)
    if "error" in ready:
        raise ready["error"]

    def stop():
        if thread.is_alive():
            ready["loop"].call_soon_threadsafe(server.stop)
        thread.join(20)
        assert not thread.is_alive()

    try:
        yield ready["port"], stop
    finally:
        stop()
    assert not said, said

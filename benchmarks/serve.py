"""Eight robots that ask one server as fast as they are answered: what they get, how late, and what batches are worth.

The policy is nano-base at 64 px. Every client knows the answer to each of its questions beforehand, computed in this
process, and compares: an answer that is lost, swapped or altered counts as wrong. The same load is put on a server that
answers one question at a time in batches of one row, which is what each answer would cost alone, without padding.
Clients live in a process of their own; it and the server share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parents[1] / "tests" / "serve"))
sys.path.append(str(Path(__file__).parents[1] / "tests" / "evaluate"))

import numpy as np
from websockets.asyncio.client import connect

from holdfast.core.wire import pack, unpack

CLIENTS, BAR = 8, 1.5
SIZE, DIFFERENT = 64, 6  # pixels; questions a client has
ROUNDS, ROUND = 5, 6.0  # of the comparison, and their seconds
PATIENCE = 30  # seconds after which an answer is lost


async def robot(port: int, questions: list[bytes], expected: list[np.ndarray], until: float, out: dict) -> None:
    """Ask one question after the other and check every answer."""
    async with connect(f"ws://127.0.0.1:{port}", compression=None, max_size=None) as server:
        await server.recv()
        for which in itertools.cycle(range(len(questions))):
            begun = time.perf_counter()
            if begun > until:
                return
            await server.send(questions[which])
            out["asked"] += 1
            try:
                reply = await asyncio.wait_for(server.recv(), PATIENCE)
            except TimeoutError:
                return
            out["late"].append(time.perf_counter() - begun)
            out["wrong"] += isinstance(reply, str) or not np.array_equal(unpack(reply)["actions"], expected[which])


def robots(port: int, folder: Path, seconds: float) -> None:
    """All clients in this process; prints what they found as JSON."""
    out: dict = {"late": [], "wrong": 0, "asked": 0}
    stored = np.load(folder / "expected.npy")
    asked = [[(folder / f"{c}-{n}").read_bytes() for n in range(DIFFERENT)] for c in range(CLIENTS)]

    async def all_of_them() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(robot(port, asked[c], list(stored[c]), until, out) for c in range(CLIENTS)))

    asyncio.run(all_of_them())
    print(json.dumps(out))


def prepare(folder: Path, bundle: object, pilot: object) -> None:
    """Write every client's questions and what each has to be answered."""
    from holdfast.serve.protocol import MessageCodec

    rng = np.random.default_rng(0)
    codec = MessageCodec(bundle, pilot.answer_steps)
    expected = []
    for client in range(CLIENTS):
        for number in range(DIFFERENT):
            images = {name: rng.integers(0, 256, (*size, 3), np.uint8) for name, size in bundle.cameras.items()}
            prompt = list(bundle.tasks)[(client + number) % len(bundle.tasks)]
            question = {"state": rng.uniform(-0.5, 0.5, 14), "images": images, "prompt": prompt}
            message = pack({**question, "seed": client, "number": number})
            (folder / f"{client}-{number}").write_bytes(message)
            asked = codec.read(message, 0)
            expected.append(unpack(codec.answer(asked, pilot.answer([asked])[0], 0, 0))["actions"])
    np.save(folder / "expected.npy", np.array(expected).reshape(CLIENTS, DIFFERENT, *expected[0].shape))


@contextmanager
def load(bundle: object, pilot: object) -> Iterator[Callable[[float], dict]]:
    """A server, and a function that has all clients ask it for so many seconds and says what they found."""
    from bundles import serving

    with tempfile.TemporaryDirectory() as scratch, serving(bundle, pilot) as (port, _):
        prepare(Path(scratch), bundle, pilot)

        def ask(seconds: float) -> dict:
            command = [sys.executable, __file__, "--port", str(port), "--questions", scratch, "--seconds", str(seconds)]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            return {**found, "rate": len(found["late"]) / seconds}

        yield ask


def show(name: str, found: dict) -> None:
    late = 1000 * np.quantile(found["late"], (0.5, 0.99, 1.0))
    lost = found["asked"] - len(found["late"])
    print(f"{name}: {found['rate']:.1f} answers a second, median {late[0]:.0f} ms, p99 {late[1]:.0f} ms, ", end="")
    print(f"worst {late[2]:.0f} ms; {found['asked']} asked, {lost} lost, {found['wrong']} wrong", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--questions", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.port:
        return robots(options.port, options.questions, options.seconds)

    from bundles import make_trained

    from holdfast.policies.pilot import Pilot
    from holdfast.serve.new_bundle import make

    with tempfile.TemporaryDirectory() as scratch:
        bundle = make(make_trained(Path(scratch) / "run", base=SIZE), 2, Path(scratch) / "bundle")
        pilots = [Pilot(bundle.path, bundle.names), Pilot(bundle.path, bundle.names, rows=1)]
        with load(bundle, pilots[0]) as together, load(bundle, pilots[1]) as alone:
            show("in batches", together(options.seconds))
            ratios = []
            for _ in range(ROUNDS):  # by turns, so that whatever else the machine does meets both
                one, other = together(ROUND), alone(ROUND)
                ratios.append(one["rate"] / other["rate"])
            show("one by one, in the last round", other)
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"batches against one by one: {np.median(ratios):.2f}x (bar: {BAR}), the median of {each}")


if __name__ == "__main__":
    main()

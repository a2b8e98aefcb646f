"""A lane of trials in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.core.processes import SPAWNED, end_with_parent
from holdfast.core.records import Trial
from holdfast.evaluate.rollout import LocalLane, PolicyNeeds, TrialOrder

if TYPE_CHECKING:
    import numpy as np

DIED = (
    "A worker process died, perhaps for lack of memory. Run the same command again to continue, with fewer --processes."
)


class RemoteLane:
    """A lane in a process of its own, so that many lanes step at the same time."""

    def __init__(self, arena: str) -> None:
        self._pipe, far = SPAWNED.Pipe()
        self._process = SPAWNED.Process(target=_serve, args=(far, arena), daemon=True)
        self._process.start()
        far.close()

    def begin(self, order: TrialOrder, needs: PolicyNeeds) -> None:
        """Tell the other process to start a trial."""
        self._pipe.send(("begin", (order, needs)))

    def go(self, actions: np.ndarray) -> None:
        """Tell the other process to execute actions."""
        self._pipe.send(("go", (actions,)))

    def result(self) -> Observation | Trial:
        """Wait for the other process."""
        try:
            found = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise HoldfastError(DIED) from None
        if isinstance(found, Exception):
            raise found
        return found

    @staticmethod
    def ready(lanes: Iterable[RemoteLane], waits: bool) -> list[RemoteLane]:
        """Those whose result is available; if none is, perhaps after waiting for the first."""
        by_pipe = {lane._pipe: lane for lane in lanes}
        there = wait(list(by_pipe), None if waits else 0)
        return [lane for pipe, lane in by_pipe.items() if pipe in there]

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection, arena: str) -> None:
    end_with_parent()
    lane = LocalLane(arena)
    while True:
        try:
            command, arguments = pipe.recv()
        except EOFError:
            return
        try:
            getattr(lane, command)(*arguments)
            pipe.send(lane.result())
        except Exception as error:
            pipe.send(error)

"""The processes that train together, started by `torchrun`: their numbers and how they synchronize. Light to import.

A single process is rank 0 of 1, and nothing here has an effect on it. Between steps ranks synchronize through one
exchange that also carries errors: an error on one rank ends all of them, with one message and without a hang.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:  # `--help` and plans must not wait for torch
    import torch

PATIENCE = timedelta(days=1)  # one rank may build a frame cache for hours while the others wait


class Ranks:
    """This process among `count`: `number` over all machines, `local` of `local_count` on its own machine."""

    def __init__(self, number: int = 0, count: int = 1, local: int = 0, local_count: int = 1) -> None:
        self.number, self.count = number, count
        self.local, self.local_count = local, local_count
        self.group: Any = None  # for synchronization; steps use torch's default group
        self._stopped = False  # an error was sent to all ranks

    @classmethod
    def from_environment(cls) -> Ranks:
        """As torchrun sets it; else a single process. (Cluster tools set RANK too, so RANK alone means nothing.)"""
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return cls()
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return cls(*(int(os.environ[name]) for name in names))

    @property
    def first(self) -> bool:
        """Whether this rank prints and writes for all."""
        return self.number == 0

    @contextmanager
    def connected(self, device: str) -> Iterator[None]:
        """Join the other ranks, and leave them when the work is done. `device` is this rank's own."""
        if self.count == 1:
            yield
            return
        import torch
        from torch import distributed

        if device.startswith("cuda"):
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
        store = _fresh_store(self.number, self.count)
        distributed.init_process_group(backend, store=store, rank=self.number, world_size=self.count)
        self.group = distributed.new_group(backend="gloo", timeout=PATIENCE)
        try:
            yield
        except HoldfastError as error:
            if self.local and not self._stopped:  # the command prints errors of one process per machine only
                print(f"holdfast: rank {self.number}: {error}", file=sys.stderr)
            raise
        # Not after an error: the others may be anywhere. Without this barrier a rank's teardown can abort another's.
        self._meet()
        distributed.destroy_process_group()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Wait for all ranks at the end; an error inside, on any of them, is raised on all."""
        try:
            yield
        except Exception as error:
            if not self._stopped:
                kind = "" if isinstance(error, HoldfastError) else f"{type(error).__name__}: "
                self._meet(error=kind + str(error))
            raise
        self._meet()

    def ask[T](self, question: Callable[[], T]) -> T:
        """The first rank's answer, on all ranks. Call it inside `together`, so that errors reach all ranks too."""
        answer: T = self._meet(question() if self.first else None)[0]
        return answer

    @contextmanager
    def leader_goes_first(self) -> Iterator[bool]:
        """Let one process per machine run the block before the others; yields whether it is this process."""
        if self.local:
            self._meet()
        yield not self.local
        if not self.local:
            self._meet()

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over ranks, in place and on the device, without waiting for it."""
        if self.count > 1:
            from torch import distributed

            distributed.all_reduce(values)
        return values

    def _meet(self, value: Any = None, error: str | None = None) -> list[Any]:
        """Exchange values between all ranks. An error of any rank is raised on those that have none of their own."""
        if self.count == 1:
            return [value]
        from torch import distributed

        exchanged: list[Any] = [None] * self.count
        distributed.all_gather_object(exchanged, (value, error), group=self.group)
        failed = [(number, what) for number, (_, what) in enumerate(exchanged) if what is not None]
        if failed:
            self._stopped = True
            number, what = failed[0]
            if error is None:
                raise HoldfastError(what if number == 0 else f"Rank {number}: {what}")
        return [value for value, _ in exchanged]


def _fresh_store(number: int, count: int) -> Any:
    """The store in which ranks exchange addresses, without entries of dead ranks.

    torchrun (torch 2.11) keeps its store when it restarts ranks, which would then connect to dead ones. So the first
    rank publishes an ID of the attempt, and continues when all others have confirmed it.
    """
    from torch.distributed import PrefixStore, rendezvous

    store, _, _ = next(rendezvous("env://"))
    attempt = ""
    if number == 0:
        attempt = uuid4().hex
        store.set("attempt", attempt)
        store.wait([f"{attempt}/{other}" for other in range(1, count)])
        store.set("attempt", "")
        store.set(f"{attempt}/complete", "yes")
    while not (attempt and store.check([f"{attempt}/complete"])):
        named = store.get("attempt").decode() if store.check(["attempt"]) else ""
        if named and named != attempt:  # the first ID seen may be of an attempt that was never complete
            attempt = named
            store.set(f"{attempt}/{number}", "here")
        time.sleep(0.02)
    return PrefixStore(attempt, store)


ALONE = Ranks()

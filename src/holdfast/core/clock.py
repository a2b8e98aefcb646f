"""Time as something that can be handed in, so that tests of deadlines do not depend on how busy the machine is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since some fixed moment, and a way to wait."""

    def now(self) -> float:
        """Seconds since the clock's zero."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SteadyClock:
    """Never jumps: for pauses and deadlines."""

    def now(self) -> float:
        """Seconds since the machine started."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class UnixClock:
    """The time of day: for comparisons with time stamps."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


STEADY = SteadyClock()
UNIX = UnixClock()

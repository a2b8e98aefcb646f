"""Clocks that can be injected, so that tests of deadlines do not depend on how busy the machine is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since a fixed moment, and a way to wait."""

    def now(self) -> float:
        """Seconds since the clock's zero."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SteadyClock:
    """Monotonic time, for pauses and deadlines."""

    def now(self) -> float:
        """Seconds since the machine started."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class UnixClock:
    """Wall-clock time, for comparison with timestamps."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


STEADY = SteadyClock()
UNIX = UnixClock()

"""A CAN port with one PiPER arm, through the maker's SDK: opening it, units, and how long the arm has been silent.

The SDK counts in 0.001 degrees and 0.001 mm; poses here are in radians and metres.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from holdfast.core.clock import UNIX, Clock
from holdfast.core.errors import HoldfastError
from holdfast.embodiments.embodiment import Dimension, Embodiment

_MILLIDEGREES = 1000 * 180 / math.pi  # in a radian
_MICROMETRES = 1e6  # in a metre
_SILENCE = 0.2  # seconds without a message after which an arm counts as lost


class PiperPort(ABC):
    """What a follower and a leader have in common."""

    def __init__(self, port: str, dimensions: Sequence[Dimension], bus: str = "socketcan", clock: Clock = UNIX) -> None:
        """Describe the arm; `connect` opens its port.

        Args:
            port: CAN port, like can_left.
            dimensions: Its six joints and its gripper, with their limits.
            bus: Kind of bus, as python-can names it.
            clock: Unix time, as the SDK stamps messages with it.
        """
        self._port, self._bus, self._clock = port, bus, clock
        self._scale = np.array([_MILLIDEGREES if d.kind == "joint" else _MICROMETRES for d in dimensions])
        self._sdk: Any = None

    @classmethod
    def both(cls, body: Embodiment, ports: Mapping[str, str], bus: str, clock: Clock) -> list[Self]:
        """The arms of a pair. Two on one port, which would be one arm with two commands at a time, are refused."""
        if len(set(ports.values())) < len(ports):
            given = ", ".join(f"{port!r} ({arm})" for arm, port in ports.items())
            raise HoldfastError(f"Every arm needs a CAN port of its own, got {given}. Set left_port and right_port.")
        return [cls(port, [d for d in body.dimensions if d.arm == arm], bus, clock) for arm, port in ports.items()]

    @property
    def connected(self) -> bool:
        """Whether the port is open."""
        return self._sdk is not None

    @staticmethod
    @abstractmethod
    def _heard(sdk: Any) -> float:
        """Unix time of the oldest of the latest messages that a pose is made of."""

    def _open(self, ask: bool) -> Any:
        """Open the port; `ask` lets the SDK ask the arm for its settings, otherwise nothing is sent."""
        try:
            from piper_sdk import C_PiperInterface_V2
        except ImportError:
            raise HoldfastError("The arms need the maker's SDK. Run: pip install 'holdfast[piper]'") from None
        real = self._bus == "socketcan"
        sdk = C_PiperInterface_V2(self._port, judge_flag=False, can_auto_init=False)
        try:
            sdk.CreateCanBus(self._port, bustype=self._bus, judge_flag=real)
        except ConnectionError:
            raise HoldfastError(
                f"CAN port {self._port} is not up at 1 Mbit/s. Run: sudo ip link set {self._port} up type can bitrate "
                "1000000 (docs/robots.md tells how ports get their names)."
            ) from None
        sdk.ConnectPort(can_init=True, piper_init=ask)
        return sdk

    def _silence(self) -> str:
        """That the arm is silent, in words; empty if it is not."""
        silence = self._clock.now() - self._heard(self._sdk)
        return f"has said nothing for {silence:.1f} s" if silence > _SILENCE else ""

    def _until(self, condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
        until = self._clock.now() + seconds
        while not condition():
            if self._clock.now() > until:
                raise HoldfastError(f"The arm on {self._port} {otherwise}")
            self._clock.sleep(0.02)

    def _in_units(self, joints: Any, opening: int) -> np.ndarray:
        """The pose that the SDK's numbers mean."""
        return np.array([*(getattr(joints, f"joint_{i}") for i in range(1, 7)), opening]) / self._scale

"""A PiPER arm at the other end of a CAN bus: understands commands and reports joints, gripper, status and motors.

Frames are laid out as in the maker's protocol, big-endian: numbers below were read from the SDK's own parser.
"""

from __future__ import annotations

import struct
import threading
import time

import can

STATUS, JOINTS, GRIPPER, MOTORS = 0x2A1, (0x2A5, 0x2A6, 0x2A7), 0x2A8, range(0x261, 0x267)
QUICK_STOP, MODE, TARGETS, GRIPPER_TARGET, ENABLE = 0x150, 0x151, (0x155, 0x156, 0x157), 0x159, 0x471
PERIOD = 0.01
ON = 1 << 6


class FakePiper:
    """Follows its targets like a first-order lag, in 0.001 degrees and 0.001 mm, in a thread of its own."""

    def __init__(self, port, joints=(0, 90_000, -90_000, 0, 0, 0), opening=40_000, obeys=True):
        self.bus = can.Bus(interface="virtual", channel=port)
        self.joints, self.opening = [float(j) for j in joints], float(opening)
        self.targets, self.opening_target = list(self.joints), self.opening
        self.enabled, self.gripper_on, self.mode, self.status, self.errors, self.motor = False, False, None, 0, 0, 0
        self.received: list[tuple[int, bytes]] = []
        self.speaks, self.obeys, self.rounds = True, obeys, 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def close(self):
        self._end.set()
        self._thread.join()
        self.bus.shutdown()

    def sent(self, identifier):
        """Frames of one kind that the arm was sent."""
        return [data for found, data in list(self.received) if found == identifier]

    def _live(self):
        while not self._end.is_set():
            until = time.monotonic() + PERIOD
            while (left := until - time.monotonic()) > 0:
                if (message := self.bus.recv(left)) is not None:
                    self._obey(message.arbitration_id, bytes(message.data))
            self._move()
            if self.speaks:
                self._report()
            self.rounds += 1

    def _obey(self, identifier, data):
        self.received.append((identifier, data))
        if identifier == ENABLE and data[0] in (7, 0xFF):
            self.enabled = data[1] == 2 and self.obeys
        elif identifier == QUICK_STOP and data[0] == 1:
            self.status = 1
        elif identifier == MODE:
            self.mode = tuple(data[:4])
        elif identifier in TARGETS:
            first = 2 * TARGETS.index(identifier)
            self.targets[first : first + 2] = struct.unpack(">ii", data)
        elif identifier == GRIPPER_TARGET:
            self.opening_target, _, code, _ = struct.unpack(">iHBB", data)
            self.gripper_on = code in (1, 3)

    def _move(self):
        if self.enabled and self.status == 0 and self.mode == (1, 1, 100, 0):
            self.joints = [now + 0.3 * (target - now) for now, target in zip(self.joints, self.targets, strict=True)]
        if self.gripper_on:
            self.opening += 0.3 * (self.opening_target - self.opening)

    def _report(self):
        self._say(STATUS, struct.pack(">BBBBBBH", 1, self.status, 1, 0, 0, 0, self.errors))
        for i, identifier in enumerate(JOINTS):
            self._say(identifier, struct.pack(">ii", *(round(j) for j in self.joints[2 * i : 2 * i + 2])))
        self._say(GRIPPER, struct.pack(">ihBB", round(self.opening), 0, ON * self.gripper_on, 0))
        for i, identifier in enumerate(MOTORS):
            trouble = self.motor if i == 0 else 0
            self._say(identifier, struct.pack(">HhbBH", 240, 30, 30, trouble | ON * self.enabled, 100))

    def _say(self, identifier, data):
        self.bus.send(can.Message(arbitration_id=identifier, data=data, is_extended_id=False))

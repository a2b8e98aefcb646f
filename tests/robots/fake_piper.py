"""PiPER arms at the other end of a CAN bus: one that obeys and reports, and a leader that sends targets.

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
READY = (0, 90_000, -90_000, 0, 0, 0)


class PatientClock:
    """Stands still until it is set, so that no arm is ever late; its sleep really waits, for the arms' own threads."""

    def __init__(self):
        self.time = self._begun = time.time()

    def now(self):
        return self.time

    def sleep(self, seconds):
        time.sleep(seconds)
        assert time.time() < self._begun + 300, "the arms are gone"


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def passed(*fakes):
    """Wait until every arm has obeyed what it was sent and reported twice."""
    before = [fake.rounds for fake in fakes]
    until(lambda: all(fake.rounds >= rounds + 2 for fake, rounds in zip(fakes, before, strict=True)))


class FakeArm:
    """Listens, moves and speaks in a thread of its own, in 0.001 degrees and 0.001 mm."""

    def __init__(self, port, joints, opening):
        self.bus = can.Bus(interface="virtual", channel=port)
        self.joints, self.opening = [float(j) for j in joints], float(opening)
        self.received: list[tuple[int, bytes]] = []
        self.speaks, self.rounds = True, 0
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

    def _move(self):
        pass

    def _say(self, identifier, data):
        self.bus.send(can.Message(arbitration_id=identifier, data=data, is_extended_id=False))

    def _say_joints(self, identifiers):
        for i, identifier in enumerate(identifiers):
            self._say(identifier, struct.pack(">ii", *(round(j) for j in self.joints[2 * i : 2 * i + 2])))


class FakeLeader(FakeArm):
    """Sends its pose as targets; tests move it by setting `joints` and `opening`."""

    def __init__(self, port, joints=READY, opening=40_000, told=TARGETS):
        self.told = told
        super().__init__(port, joints, opening)

    def _report(self):
        self._say(MODE, bytes([1, 1, 100, 0, 0, 0, 0, 0]))
        self._say_joints(self.told)
        self._say(GRIPPER_TARGET, struct.pack(">iHBB", round(self.opening), 1000, 1, 0))


class FakePiper(FakeArm):
    """Follows its targets like a first-order lag."""

    def __init__(self, port, joints=READY, opening=40_000, obeys=True):
        self.targets, self.opening_target = [float(j) for j in joints], float(opening)
        self.enabled, self.gripper_on, self.mode, self.status, self.errors, self.motor = False, False, None, 0, 0, 0
        self.obeys = obeys
        super().__init__(port, joints, opening)

    def _obey(self, identifier, data):
        super()._obey(identifier, data)
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
        self._say_joints(JOINTS)
        self._say(GRIPPER, struct.pack(">ihBB", round(self.opening), 0, ON * self.gripper_on, 0))
        for i, identifier in enumerate(MOTORS):
            trouble = self.motor if i == 0 else 0
            self._say(identifier, struct.pack(">HhbBH", 240, 30, 30, trouble | ON * self.enabled, 100))

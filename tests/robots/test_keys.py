"""Keys of a real terminal, without Enter."""

import os
import sys
import termios
import time

from holdfast.robots.keys import NoKeys, Terminal


def test_keys_are_seen_at_once_one_by_one_and_the_terminal_is_left_as_it_was(monkeypatch):
    master, slave = os.openpty()
    with os.fdopen(slave, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(slave)
        with Terminal() as keys:
            assert keys.pressed() == ""
            os.write(master, b" q")
            time.sleep(0.05)
            assert [keys.pressed() for _ in range(3)] == [" ", "q", ""]
        assert termios.tcgetattr(slave) == before
    os.close(master)
    assert NoKeys().pressed() == ""

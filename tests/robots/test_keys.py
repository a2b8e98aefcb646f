"""Keys of a real terminal, without Enter."""

import os
import select
import sys
import termios

from holdfast.robots.keys import NoKeys, Terminal


def test_keys_are_seen_at_once_one_by_one_and_the_terminal_is_left_as_it_was(monkeypatch):
    master, slave = os.openpty()
    with os.fdopen(slave, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(slave)
        with Terminal() as keys:
            assert keys.pressed() == ""
            os.write(master, b" q")
            assert select.select([slave], [], [], 60)[0], "the terminal hands them on"
            assert [keys.pressed() for _ in range(3)] == [" ", "q", ""]
        assert termios.tcgetattr(slave) == before
    os.close(master)
    assert NoKeys().pressed() == ""

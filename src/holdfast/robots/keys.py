"""Single key presses of a terminal, without Enter, so that an operator can start and stop a robot at once."""

from __future__ import annotations

import os
import select
import sys
from types import TracebackType
from typing import Any, Protocol, Self

GO = " "
QUIT = ("q", "\x1b")  # and Escape


class Keys(Protocol):
    """Where key presses come from."""

    def pressed(self) -> str:
        """The next key press, or an empty string; never waits."""


class NoKeys:
    """Nobody at the keyboard."""

    def pressed(self) -> str:
        """No key."""
        return ""


class Terminal:
    """The keys of this terminal, while the context is open."""

    def __enter__(self) -> Self:
        import termios
        import tty

        self._before: list[Any] = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        import termios

        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def pressed(self) -> str:
        """The next key press."""
        waiting = select.select([sys.stdin], [], [], 0)[0]
        return os.read(sys.stdin.fileno(), 1).decode(errors="ignore") if waiting else ""

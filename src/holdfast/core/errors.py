"""The error shown to users: what is wrong, what would be right, what to do next."""

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

_OWNER = re.compile(r"(?= (?:of|in) )")  # where "task of stream 'kitchen'" says whose task it is


class HoldfastError(Exception):
    """A mistake in the user's input, or a state of the machine that the user must fix.

    The command line prints it without a traceback and exits with code 2. It is one line that a terminal can show,
    whatever a hostile file has brought in.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


def printable(text: str) -> str:
    """Text from outside as one line for a terminal: line breaks and control characters are escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


@cache
def say_once(text: str) -> None:
    """Tell the user what does not stop the command; the same thing only once."""
    print(printable(text), file=sys.stderr)


def unknown(kind: str, value: object, valid: Iterable[object], meant: str | None = None) -> HoldfastError:
    """Build the error for a name that is not one of `valid`, with the closest one, or the one `meant`, suggested.

    The name stands right behind the noun: "task of stream 'kitchen'" gives "Unknown task 'x' of stream 'kitchen'".
    """
    names = [str(v) for v in valid]
    noun, *owner = _OWNER.split(kind, maxsplit=1)
    hint = f" Did you mean {meant!r}?" if meant else did_you_mean(value, names)
    return HoldfastError(f"Unknown {noun} {str(value)!r}{''.join(owner)}.{hint} Valid: {', '.join(names) or 'none'}.")


def did_you_mean(value: object, names: Iterable[str], prefix: str = "") -> str:
    """The closest of some names as a question after a space, each with a prefix; nothing if none is close."""
    close = get_close_matches(str(value), list(names), n=1)
    return f" Did you mean {prefix + close[0]!r}?" if close else ""


def require(ok: bool, flag: str, value: object, wanted: str) -> None:
    """Raise an error if the value of a flag is not valid."""
    if not ok:
        raise HoldfastError(f"--{flag} must be {wanted}, got {value}.")


def require_choice(flag: str, value: object, choices: Any) -> None:
    """Raise an error if the value of a flag is not one of a `Literal`'s."""
    if value not in get_args(choices):
        raise unknown(f"--{flag}", value, get_args(choices))

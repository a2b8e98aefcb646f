"""The error shown to users: what is wrong, what would be right, what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args


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


def unknown(kind: str, value: object, valid: Iterable[object]) -> HoldfastError:
    """Build the error for a name that is not one of `valid`, with the closest one as a suggestion."""
    names = [str(v) for v in valid]
    close = get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return HoldfastError(f"Unknown {kind} {str(value)!r}.{hint} Valid: {', '.join(names) or 'none'}.")


def require(ok: bool, flag: str, value: object, wanted: str) -> None:
    """Raise an error if the value of a flag is not valid."""
    if not ok:
        raise HoldfastError(f"--{flag} must be {wanted}, got {value}.")


def require_choice(flag: str, value: object, choices: Any) -> None:
    """Raise an error if the value of a flag is not one of a `Literal`'s."""
    if value not in get_args(choices):
        raise unknown(f"--{flag}", value, get_args(choices))

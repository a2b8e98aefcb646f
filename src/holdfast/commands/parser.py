"""The parser of all commands but `train`: argparse with errors of one line that name the closest flag or value."""

from __future__ import annotations

import argparse
import re
import textwrap
from typing import Any, NoReturn

from holdfast.core.errors import HoldfastError, did_you_mean, unknown

# What argparse says of a value that is not one of an argument's.
_CHOICE = re.compile(r"argument (?P<name>\S+): invalid choice: '(?P<given>.*)' \(choose from (?P<valid>.*)\)")
_UNKNOWN = "unrecognized arguments: "
_WIDEST = 118  # characters of a line of prose


class _Help(argparse.RawDescriptionHelpFormatter):
    """Prose fits the terminal; a paragraph with an indented line, like a list of examples, stays as it is written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        filled = (part if "\n " in part else textwrap.fill(part, min(width, _WIDEST)) for part in paragraphs)
        return textwrap.indent("\n\n".join(filled), indent)


class Handed(Exception):  # noqa: N818  not an error: how completion gets a command's parser
    """The parser of a command, in place of parsing."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """Parses the words of one command."""

    hands_over = False  # completion sets it: then `parse_args` raises `Handed`

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": _Help, **named})

    def parse_args(self, *arguments: Any, **named: Any) -> Any:
        """The words as a namespace."""
        if Parser.hands_over:
            raise Handed(self)
        return super().parse_args(*arguments, **named)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print with its usage."""
        raise explain(message, self.flags(), self.prog)

    def flags(self) -> list[str]:
        """All flags, of the actions below it too."""
        return [*self._option_string_actions, *(flag for below in self.below().values() for flag in below.flags())]

    def below(self) -> dict[str, Parser]:
        """The parsers of its actions, by name."""
        groups = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return {name: parser for group in groups for name, parser in group.items()}


def explain(message: str, flags: list[str], command: str) -> HoldfastError:
    """What argparse complains about, as an error that names what is close to it."""
    if choice := _CHOICE.fullmatch(message):
        return unknown(choice["name"], choice["given"], choice["valid"].replace("'", "").split(", "))
    if message.startswith(_UNKNOWN):
        word = message.removeprefix(_UNKNOWN).split(" ")[0]
        flag = word.partition("=")[0]
        what = "flag" if word.startswith("-") else "word"
        meant = f"--stream={flag}" if flag.endswith(".toml") and "--stream" in flags else None
        hint = f" Did you mean {meant}?" if meant else did_you_mean(flag, flags)
        return HoldfastError(f"Unknown {what} {flag!r}.{hint} `{command} --help` lists the flags.")
    return HoldfastError(f"{message[:1].upper()}{message[1:]}. `{command} --help` lists the flags.")

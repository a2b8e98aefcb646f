"""Flags into configs, the way `lerobot-train` takes them: `--replay.ratio=0.2`."""

from __future__ import annotations

import contextlib
import io
from dataclasses import fields
from typing import Any

from holdfast.errors import HoldfastError


def parse[T](config: type[T], command: str, argv: list[str], epilog: str) -> T:
    """Parse draccus flags into a config, with dashes or underscores, bare switches, and errors in one line.

    Flags `--policy.NAME` that the config does not declare are collected in `policy.options`: LeRobot's own parser
    knows them, and importing it for `--help` would take a quarter of a minute.
    """
    import draccus

    known, options = _split(argv, config)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            if any(a in ("-h", "--help") for a in argv):
                print(f"usage: holdfast {command} [--flag=value ...]\n\n{(config.__doc__ or '').strip()}\n\n{epilog}")
            parsed = draccus.parse(config, args=known, prog=f"holdfast {command}")
    except SystemExit as stop:
        if not stop.code:
            raise
        reason = complaint.getvalue().strip().split("\n")[-1].removeprefix(f"holdfast {command}: error: ")
        raise HoldfastError(f"{reason}. `holdfast {command} --help` lists the flags.") from None
    except HoldfastError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error.__cause__, HoldfastError) else error
        reason = " ".join(str(cause).split())
        raise HoldfastError(reason if cause is not error else f"{reason} (`holdfast {command} --help`)") from None
    if options:
        object.__setattr__(parsed.policy, "options", options)
    return parsed


def _split(argv: list[str], config: type[Any]) -> tuple[list[str], dict[str, str]]:
    switches = {f.name for f in fields(config) if f.type in (bool, "bool")}
    known: list[str] = []
    options: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        if not word.startswith("--"):
            known.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if name in switches and not equals:
            known.append(f"--{name}=true")
        elif name.startswith("policy.") and name not in ("policy.type", "policy.path"):
            options[name.removeprefix("policy.")] = value if equals else next(words, "")
        else:
            known.append(f"--{name}={value}" if equals else f"--{name}")
    return known, options

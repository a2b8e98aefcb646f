"""Flags into configs, the way `lerobot-train` takes them: `--replay.ratio=0.2`."""

from __future__ import annotations

import contextlib
import inspect
import io
from dataclasses import MISSING, fields, is_dataclass
from textwrap import wrap
from typing import Any

from holdfast.core.errors import HoldfastError


def parse[T](config: type[T], command: str, argv: list[str], epilog: str) -> T:
    """Parse draccus flags into a config, with dashes or underscores, bare switches, and errors in one line.

    Flags `--policy.NAME` that the config does not declare are collected in `policy.options`: LeRobot's own parser
    knows them, and importing it for `--help` would take a quarter of a minute.
    """
    if any(word in ("-h", "--help") for word in argv):
        print(f"usage: holdfast {command} [--flag=value ...]\n\n{epilog}\n{_help(config)}")
        raise SystemExit(0)
    import draccus

    known, options = _split(argv, config)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed = draccus.parse(config, args=known, prog=f"holdfast {command}")
    except SystemExit:  # argparse inside draccus
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


def _help(config: type[Any], prefix: str = "") -> str:
    """One line per flag with its default, under the comment that stands above the field in the source."""
    title = (config.__doc__ or "").strip()
    lines, groups = [f"{prefix.rstrip('.') or 'what to train'}: {title}"], []
    notes = _comments(config)
    for item in fields(config):
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if is_dataclass(default):
            groups.append(_help(type(default), f"{prefix}{item.name}."))
        elif item.name != "options":
            lines.append(f"  --{prefix}{item.name}={_shown(default)}")
            lines.extend(wrap(notes.get(item.name, ""), 112, initial_indent="      ", subsequent_indent="      "))
    return "\n".join([*lines, ""]) + "\n" + "\n".join(groups)


def _shown(default: Any) -> str:
    if isinstance(default, dict):
        return "'{" + ", ".join(f"{k}: {v:g}" for k, v in default.items()) + "}'"
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None else str(default)


def _comments(config: type[Any]) -> dict[str, str]:
    """The comment lines above each field of a dataclass."""
    notes: dict[str, str] = {}
    waiting: list[str] = []
    for line in inspect.getsource(config).splitlines():
        text = line.strip()
        if text.startswith("# "):
            waiting.append(text[2:])
        else:
            name = text.split(":")[0]
            if waiting and name.isidentifier():
                notes[name] = " ".join(waiting)
            waiting = []
    return notes

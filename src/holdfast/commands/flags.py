"""Parses flags into configs, in the style of `lerobot-train`: `--replay.ratio=0.2`."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from textwrap import wrap
from typing import Any

from holdfast.commands.flag_types import COLLECTED, check_types
from holdfast.commands.parser import explain
from holdfast.core.errors import HoldfastError
from holdfast.core.flag_values import check_flag
from holdfast.core.own_code import is_own
from holdfast.methods import METHODS, method_class
from holdfast.train.config_flags import preset_flags
from holdfast.train.presets import PRESETS

ARENA = "arena: twin, one that is set up, a file my_arena.toml, or package.module:Class (twin)"


def parse[T](config: type[T], command: str, argv: list[str], epilog: str) -> T:
    """Parse draccus flags into a config, with dashes or underscores, bare switches, and errors in one line.

    Flags `--policy.NAME` that the config does not declare are collected in `policy.options`: LeRobot's own parser
    handles them, and importing it for `--help` would take a quarter of a minute. Flags `--method.NAME` are collected in
    `method_options`, which the config checks against the method.
    """
    if any(word in ("-h", "--help") for word in argv):
        usage = f"usage: holdfast {command} [--preset=NAME] [--flag=value ...]"
        print(f"{usage}\n\n{epilog}\n{_presets()}\n{_help(config)}\n{_methods(argv)}")
        raise SystemExit(0)
    import draccus

    known, collected = _split(with_preset(argv), config)
    check_types(config, _pairs(known))
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed: Any = draccus.parse(config, args=known, prog=f"holdfast {command}")
            if collected["policy"]:
                parsed = replace(parsed, policy=replace(parsed.policy, options=collected["policy"]))
            if collected["method"]:
                parsed = replace(parsed, method_options=collected["method"])
    except SystemExit:  # argparse inside draccus
        reason = complaint.getvalue().strip().split("\n")[-1].removeprefix(f"holdfast {command}: error: ")
        raise explain(reason, ["--preset", *flag_names(config)], f"holdfast {command}") from None
    except HoldfastError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error.__cause__, HoldfastError) else error
        reason = " ".join(str(cause).split())
        raise HoldfastError(reason if cause is not error else f"{reason} (`holdfast {command} --help`)") from None
    return parsed


def _split(argv: list[str], config: type[Any]) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Split flags into those that the config declares and those of the policy and of the method."""
    switches = {flag.removeprefix("--") for flag in flag_names(config, kind=bool)}
    known: list[str] = []
    collected: dict[str, dict[str, str]] = {"policy": {}, "method": {}}
    words, name = iter(argv), ""
    for word in words:
        if not word.startswith("--"):
            check_flag(name, word)
            known.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        check_flag(name, value)
        if name in switches and not equals:
            known.append(f"--{name}=true")
        elif name.partition(".")[0] in collected and "." in name and name not in ("policy.type", "policy.path"):
            owner, _, option = name.partition(".")
            collected[owner][option] = value if equals else next(words, "")
        else:
            known.append(f"--{name}={value}" if equals else f"--{name}")
    return known, collected


def flag_names(config: type[Any], prefix: str = "--", kind: type | None = None) -> list[str]:
    """All flags that a config declares, or those of one type."""
    names = []
    for item in fields(config):
        default = _default(item)
        if is_dataclass(default):
            names += flag_names(type(default), f"{prefix}{item.name}.", kind)
        elif item.name not in COLLECTED and (kind is None or item.type in (kind, kind.__name__)):
            names.append(prefix + item.name)
    return names


def with_preset(argv: list[str]) -> list[str]:
    """The flags of the preset that is named, if one is, and then those of the user, which count more.

    With a policy of the user's own, what belongs to the preset's policy is left out.
    """
    given = list(_pairs(argv))
    named = [value for flag, value in given if flag == "--preset"]
    if not named:
        return argv
    if len(named) > 1:
        raise HoldfastError("--preset is given twice. Name one.")
    filled = preset_flags(named[0])
    chosen = {f"{flag}={value}" for flag, value in given if flag in ("--policy.type", "--policy.path")}
    own_policy = not chosen <= set(filled)
    kept = [flag for flag in filled if not (own_policy and flag.startswith(("--policy.", "--norm.stats=")))]
    place = next(i for i, word in enumerate(argv) if word.partition("=")[0] == "--preset")
    rest = argv[:place] + argv[place + (1 if "=" in argv[place] else 2) :]
    return [*kept, *rest]


def _pairs(argv: list[str]) -> Iterator[tuple[str, str]]:
    """Every flag with its value, be it joined by a `=` or the next word."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            yield flag, value if equals else following


def _presets() -> str:
    """Every preset with what it is for and the flags that it fills in."""
    lines = ["--preset: fills in the flags that you do not give"]
    for name, known in PRESETS.items():
        lines.append(f"  {name}: {known.text}")
        lines += wrap(" ".join(preset_flags(name)), 112, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join([*lines, ""])


def _methods(argv: list[str]) -> str:
    """Every method with its options, and the user's own if it is asked for."""
    lines = ["--method: one of these, each with its own options"]
    own = [word.removeprefix("--method=") for word in argv if word.startswith("--method=") and is_own(word)]
    for name, method in {**METHODS, **{name: method_class(name) for name in own}}.items():
        lines += [f"  {name}: {(method.__doc__ or '').strip().splitlines()[0]}", *_lines(method, "method.", 4)]
    return "\n".join(lines)


def _help(config: type[Any], prefix: str = "") -> str:
    """One line per flag with its default, with the comment above its field in the source."""
    title = (config.__doc__ or "").strip()
    lines = [f"{prefix.rstrip('.') or 'what to train'}: {title}", *_lines(config, prefix, 2)]
    groups = [
        _help(type(default), f"{prefix}{item.name}.")
        for item in fields(config)
        if is_dataclass(default := _default(item))
    ]
    return "\n".join([*lines, ""]) + "\n" + "\n".join(groups)


def _lines(config: type[Any], prefix: str, indent: int) -> list[str]:
    """The lines of a config's own flags."""
    lines, notes = [], _comments(config)
    for item in fields(config):
        default = _default(item)
        if not is_dataclass(default) and item.name not in COLLECTED:
            lines.append(f"{' ' * indent}--{prefix}{item.name}={_shown(default)}")
            space = " " * (indent + 4)
            lines.extend(wrap(notes.get(item.name, ""), 112, initial_indent=space, subsequent_indent=space))
    return lines


def _default(item: Field[Any]) -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


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

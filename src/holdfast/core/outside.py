"""Reads text that others wrote: JSON, TOML, YAML and CSV, from files and messages.

Whatever the bytes are, the result is plain values or a HoldfastError that names the origin and the place. Plain values
are text, numbers, booleans, None, lists and dictionaries with text as keys. Their text is well-formed Unicode, whole
numbers fit in 64 bits, and nothing is nested deeper than `DEEPEST`. So the code behind can encode, store and walk them
without checks of its own; whether they are the right values is decided there.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import stat
import tomllib
import zlib
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError

LARGEST = 32 * 2**20  # bytes of a file
LARGEST_SETTINGS = 2**20  # bytes of TOML and YAML, which people write and whose parsers are slow
DEEPEST = 64  # lists and tables inside each other
LONGEST_KEY = 16  # parts of a dotted key: the time that tomllib takes grows with their square

# What matters for the nesting of TOML. Strings and comments come first, so that what is inside them does not count. An
# open string ends with its line or the text, so that every character is looked at once.
_TOML = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|\#[^\n]*"
    r"|[][{}.,=\n]",
    re.DOTALL,
)


def read_text(file: Path, largest: int = LARGEST) -> str:
    """The text of a UTF-8 file; a byte order mark is dropped."""
    return decode(_read_bytes(file, largest), file, largest)


def read_gzip_text(file: Path, largest: int) -> str:
    """The text of a gzip file with a checksum. No more than `largest` bytes are ever unpacked."""
    packed = _read_bytes(file, LARGEST)
    if len(packed) > LARGEST:
        raise _unreadable(file, f"it is larger than {LARGEST >> 20} MiB")
    stream = zlib.decompressobj(wbits=31)  # 31: gzip only
    try:
        content = stream.decompress(packed, largest + 1)
    except zlib.error as error:
        raise _unreadable(file, f"it is not an intact gzip file ({error})") from None
    text = decode(content, file, largest)
    if not stream.eof:
        raise _unreadable(file, "it is cut short")
    if stream.unused_data:
        raise _unreadable(file, "something follows its end")
    return text


def _read_bytes(file: Path, largest: int) -> bytes:
    """The content of a file, and of one that is too large a byte too many."""
    try:
        with open_file(file) as stream:
            return stream.read(largest + 1)
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from None
    except ValueError as error:  # a name that no file can have
        raise _unreadable(file, str(error)) from None


def open_file(file: Path) -> io.BufferedReader:
    """Open a regular file for reading. Anything else is refused: a pipe that nobody writes to would block for ever."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _unreadable(file, "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")
    return os.fdopen(handle, "rb")


def check_file(file: Path) -> None:
    """Refuse what is not a regular file; for libraries that open a file by its name."""
    try:
        open_file(file).close()
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from None
    except ValueError as error:  # a name that no file can have
        raise _unreadable(file, str(error)) from None


def decode(content: bytes, what: object, largest: int = LARGEST) -> str:
    """The text of bytes in UTF-8; `what` names their origin in errors, here and below."""
    if len(content) > largest:
        raise _unreadable(what, f"it is larger than {largest >> 20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(what, f"it is not text in UTF-8 (byte {error.start})") from None
    if "\0" in text:
        raise _unreadable(what, f"it is not text: character {text.index('\0')} is a NUL")
    return text


def read_json(file: Path, *, finite: bool = True) -> Any:
    """The content of a JSON file."""
    return parse_json(read_text(file), file, finite=finite)


def parse_json(text: str, what: object, *, finite: bool = True) -> Any:
    """The content of JSON. `finite=False` allows NaN and infinity, which files of our own may hold."""
    return check(_load_json(text, what), what, finite=finite)


def read_keys(file: Path) -> set[str]:
    """The keys of all objects in a JSON file. Its values are not checked: other programs write numbers of any size."""
    keys: set[str] = set()
    _load_json(
        read_text(file), file, object_pairs_hook=lambda pairs: keys.update(key for key, _ in pairs), parse_int=len
    )
    return keys


def _load_json(text: str, what: object, **hooks: Any) -> Any:
    try:
        return json.loads(text, **hooks)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _unreadable(what, f"it is not valid JSON: {error.msg} at {place}") from None
    except ValueError:
        raise _unreadable(what, "it has a number of several thousand digits") from None
    except RecursionError:
        raise _unreadable(what, "it is nested too deeply") from None


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a TOML file; `inf` and `nan` are numbers of TOML, and of YAML."""
    text = read_text(file, LARGEST_SETTINGS)
    _check_toml(text, file)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error).replace("at end of document", f"at line {len(text.splitlines())}, the end of the file")
        raise _unreadable(file, f"it is not valid TOML: {reason}") from None
    except ValueError:
        raise _unreadable(file, "it has a number of several thousand digits") from None
    except RecursionError:
        raise _unreadable(file, "it is nested too deeply") from None
    checked: dict[str, Any] = check(content, file, finite=False)
    return checked


def read_yaml(file: Path) -> Any:
    """The content of a YAML file without aliases, which can make a small file huge, and without tags."""
    import yaml

    text = read_text(file, LARGEST_SETTINGS)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    try:
        for event in yaml.parse(text, loader):  # flat, whatever the nesting is; the loader below recurses
            if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
                raise _unreadable(file, f"line {event.start_mark.line + 1} has an alias or a tag, which is not allowed")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _unreadable(file, "it is nested too deeply")
        content = yaml.load(text, loader)
    except (yaml.YAMLError, ValueError) as error:
        raise _unreadable(file, f"it is not valid YAML: {' '.join(str(error).split())}") from None
    return check(content, file, finite=False)


def parse_csv(text: str, what: object) -> list[list[str]]:
    """The rows of CSV."""
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        return list(rows)
    except csv.Error as error:
        raise _unreadable(what, f"it is not valid CSV: {error} at line {rows.line_num}") from None


def check[T](content: T, what: object, *, finite: bool = True) -> T:
    """Return parsed content if it consists of plain values; for content that other libraries have parsed."""
    wrong = _find_wrong(content, finite, 0)
    if wrong:
        place, reason = wrong
        raise _unreadable(what, f"{place.lstrip('.')[:80] or 'it'} {reason}")
    return content


def _find_wrong(value: Any, finite: bool, depth: int) -> tuple[str, str] | None:
    """The place and the fault of the first value that is wrong."""
    if isinstance(value, dict | list):
        if depth == DEEPEST:
            return "", "is nested too deeply"
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            wrong = _find_wrong_key(key) if isinstance(value, dict) else None
            wrong = wrong or _find_wrong(entry, finite, depth + 1)
            if wrong:
                return _step(key) + wrong[0], wrong[1]
        return None
    if isinstance(value, str):
        return None if _well_formed(value) else ("", "is not well-formed Unicode, or holds a NUL")
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**64 else ("", "is a whole number beyond 64 bits")
    if isinstance(value, float):
        return None if not finite or math.isfinite(value) else ("", f"is {value}, not a finite number")
    return None if value is None else ("", f"is a {type(value).__name__}; allowed are text, numbers, lists and tables")


def _find_wrong_key(key: Any) -> tuple[str, str] | None:
    return None if isinstance(key, str) and _well_formed(key) else ("", "is a key that is not well-formed text")


def _well_formed(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def _step(key: Any) -> str:
    name = str(key)[:40]
    return f"[{name}]" if isinstance(key, int) else f".{name}" if name.isidentifier() else f".{name!r}"


def _check_toml(text: str, what: object) -> None:
    depth = dots = 0
    for match in _TOML.finditer(text):
        token = match[0]
        if token == ".":
            dots += 1
        elif token in "[]{},=\n":
            dots = 0
            depth = max(0, depth + (token in "[{") - (token in "]}"))
        if depth > DEEPEST or dots >= LONGEST_KEY:
            line = text.count("\n", 0, match.start()) + 1
            raise _unreadable(what, f"line {line} is nested too deeply")


def _unreadable(what: object, reason: str) -> HoldfastError:
    return HoldfastError(f"{what} cannot be read: {reason}.")

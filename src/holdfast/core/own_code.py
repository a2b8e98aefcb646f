"""Code of the user's own: what stands at the top level of a Python file outside the package, like `my_methods.py:Mine`.

Loading a file runs it. So only names that the user gives are loaded, as a flag, in a study file or from Python, never
one that stands in a run folder or a bundle.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from traceback import extract_tb
from types import FunctionType, ModuleType
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.outside import LARGEST_SETTINGS, read_text

# What Python code has given, by name, each with the hash of its file: that need not be run for it.
_given: dict[str, tuple[str, object]] = {}
# The text of files that a run uses, by name: they may be edited while it trains.
_held: dict[str, str] = {}


def is_own(name: str) -> bool:
    """Whether a name is that of a user's own code: its file, and what it is called there."""
    return ".py:" in name


def own_label(name: str) -> str:
    """What such code is called in names of folders: as in its file."""
    return name.rpartition(":")[2]


def own_hash(name: str) -> str:
    """SHA-256 of the file's text."""
    return hashlib.sha256(_read(name).encode()).hexdigest()


def name_own(thing: Any, origin: str) -> str:
    """The name of what Python code gives as an object; `origin` is the name of its module.

    What is not at the top level of a file is refused: a run that is to be continued could not find it again.
    """
    module = sys.modules.get(origin)
    file = getattr(module, "__file__", None)
    label = next((key for key, value in vars(module).items() if value is thing), None) if module else None
    if not file or not Path(file).is_file() or label is None:
        called = getattr(thing, "__qualname__", repr(thing))
        raise HoldfastError(
            f"{called} could not be found again when the run is continued. Put it at the top level of a file and "
            "import it from there; in a notebook, begin its cell with %%writefile my_code.py."
        )
    path, here = Path(file).resolve(), Path.cwd().resolve()
    name = f"{path.relative_to(here) if path.is_relative_to(here) else path}:{label}"
    _given[name] = own_hash(name), thing
    return name


def load_own(name: str, what: str, fits: Callable[[Any], bool], advice: str) -> Any:
    """Load code by its name; the file is run once per process, and again if it has changed.

    Args:
        name: Like `my_methods.py:Mine`.
        what: What it should be, in a word, for errors.
        fits: Whether it is that.
        advice: What such code looks like, a sentence for errors.
    """
    given = _given.get(name)
    if given and given[0] == own_hash(name):
        return given[1]
    module = _run(name.rpartition(":")[0], _read(name))
    found = getattr(module, own_label(name), None)
    if not fits(found):
        mine = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        there = [key for key in mine if isinstance(vars(module)[key], type | FunctionType)]
        known = f"It has {', '.join(there)}." if there else "It has no class and no function."
        raise HoldfastError(f"{name}: {own_label(name) or 'an empty name'} is no {what} in that file. {known} {advice}")
    return found


def failure(error: Exception, file: str | Path) -> str:
    """What went wrong in a file of the user's own, and where, in one line that follows "failed"."""
    own = Path(file).resolve()
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if Path(frame.filename).resolve() == own]
    place = f" in line {lines[-1]} of {file}" if lines else ""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{place}: {reason:.500}"


@contextmanager
def unchanged(*names: str) -> Iterator[None]:
    """Use the files of the user's own code among some names as they are now, whatever happens to them meanwhile."""
    texts = {name: _read(name) for name in names if is_own(name)}
    before = dict(_held)
    _held.update(texts)
    try:
        yield
    finally:
        _held.clear()
        _held.update(before)


def _read(name: str) -> str:
    if name in _held:
        return _held[name]
    file = Path(name.rpartition(":")[0])
    if not file.is_file():
        raise HoldfastError(f"{name}: there is no file {file} in {Path.cwd()}.")
    return read_text(file, LARGEST_SETTINGS)


@cache
def _run(file: str, text: str) -> ModuleType:
    """Run exactly the text that was hashed, as a module that classes and `--help` can look themselves up in."""
    module = ModuleType(f"own_code_{hashlib.sha256(f'{file}\0{text}'.encode()).hexdigest()[:16]}")
    module.__file__ = str(Path(file).resolve())
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, file, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # it is the user's code
        del sys.modules[module.__name__]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise HoldfastError(f"{file} cannot be run: {reason.removesuffix('.')}.") from error
    return module

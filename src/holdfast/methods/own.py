"""A method of the user's own: a class in a Python file outside the package, named like `my_methods.py:Mine`.

Loading a file runs it. So only names that the user gives are loaded, as --method or in a study file, never one that
stands in a run folder or a bundle.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from holdfast.core.errors import HoldfastError
from holdfast.core.outside import LARGEST_SETTINGS, read_text
from holdfast.methods.method import Method

_given: dict[str, tuple[str, type[Method]]] = {}  # classes by name, each with the hash of its file


def is_own(name: str) -> bool:
    """Whether a method is named by its file and class."""
    return ".py:" in name


def own_label(name: str) -> str:
    """What such a method is called in names of folders: its class."""
    return name.rpartition(":")[2]


def own_hash(name: str) -> str:
    """SHA-256 of the file's text."""
    return hashlib.sha256(_read(name).encode()).hexdigest()


def name_own(kind: type[Method]) -> str:
    """The name of a class that the user's own code has imported already; its file is not run again for it.

    What is not at the top level of a file is refused: a run that is to be continued could not find it again.
    """
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if not file or not Path(file).is_file() or "." in kind.__qualname__:
        raise HoldfastError(
            f"Method {kind.__qualname__} cannot be found again when the run is continued. Put the class at the top "
            "level of a file and import it from there; in a notebook, begin its cell with %%writefile my_methods.py."
        )
    path = Path(file).resolve()
    here = Path.cwd().resolve()
    name = f"{path.relative_to(here) if path.is_relative_to(here) else path}:{kind.__name__}"
    _given[name] = own_hash(name), kind
    return name


def load_own(name: str) -> type[Method]:
    """The class; its file is run once per process, and again if it has changed."""
    given = _given.get(name)
    if given and given[0] == own_hash(name):
        return given[1]
    module = _run(name.rpartition(":")[0], _read(name))
    kind = own_label(name)
    found = getattr(module, kind, None)
    there = [
        key for key, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    if not isinstance(found, type) or not issubclass(found, Method):
        known = f"It has {', '.join(there)}." if there else "It has no class."
        raise HoldfastError(
            f"--method={name}: {kind or 'an empty name'} is no method in that file. {known} A method is a class that "
            "inherits holdfast.methods.method.Method; docs/tutorials/add_a_method.md shows one."
        )
    return found


def _read(name: str) -> str:
    file = Path(name.rpartition(":")[0])
    if not file.is_file():
        raise HoldfastError(f"--method={name}: there is no file {file} in {Path.cwd()}.")
    return read_text(file, LARGEST_SETTINGS)


@cache
def _run(file: str, text: str) -> ModuleType:
    """Run exactly the text that was hashed, as a module that classes and `--help` can look themselves up in."""
    module = ModuleType(f"own_method_{hashlib.sha256(f'{file}\0{text}'.encode()).hexdigest()[:16]}")
    module.__file__ = str(Path(file).resolve())
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, file, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # it is the user's code
        del sys.modules[module.__name__]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise HoldfastError(f"--method: {file} cannot be run: {reason}.") from error
    return module

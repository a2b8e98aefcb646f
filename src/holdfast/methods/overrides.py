"""What a subclass overrides, checked when it is defined: a misspelled hook would never be called."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from inspect import get_annotations, signature
from types import FunctionType

_NEAR = 0.75  # as `keps` is to `keep`


def hooks_of(base: type) -> dict[str, FunctionType]:
    """The functions of a base class that subclasses may override, by name."""
    return {name: hook for name, hook in vars(base).items() if isinstance(hook, FunctionType) and name[0] != "_"}


def check_overrides(cls: type, base: type) -> None:
    """Refuse names that are nearly those of the base, and hooks that are no functions or take other arguments."""
    hooks, options = hooks_of(base), get_annotations(cls)
    settings = [name for name, kind in get_annotations(base).items() if "ClassVar" in str(kind)]
    for name, value in {**dict.fromkeys(options), **vars(cls)}.items():
        if name in hooks:
            _check_hook(cls, name, value, hooks[name])
        elif name.startswith("_") or name in settings:
            continue
        elif isinstance(value, FunctionType):
            _refuse_near(cls, name, hooks, "hook and would never be called")
        elif name not in options:
            _refuse_near(cls, name, settings, "setting of a method and would never be read")


def _check_hook(cls: type, name: str, value: object, hook: FunctionType) -> None:
    if isinstance(value, staticmethod | classmethod):
        return
    if not isinstance(value, FunctionType):
        raise TypeError(f"{cls.__name__}.{name} must be a function, because {name} is a hook. Choose another name.")
    arguments = list(signature(hook).parameters)
    try:
        signature(value).bind(*arguments)
    except TypeError:
        raise TypeError(f"{cls.__name__}.{name} must take ({', '.join(arguments)}).") from None


def _refuse_near(cls: type, name: str, known: Iterable[str], problem: str) -> None:
    if nearest := get_close_matches(name, list(known), n=1, cutoff=_NEAR):
        raise TypeError(f"{cls.__name__}.{name} is no {problem}. Did you mean {nearest[0]}? If not, call it _{name}.")

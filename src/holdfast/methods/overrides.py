"""What a subclass overrides, checked when it is defined: a misspelled hook would never be called."""

from __future__ import annotations

from difflib import get_close_matches
from inspect import signature
from types import FunctionType


def check_overrides(cls: type, base: type) -> None:
    """Refuse a function whose name is nearly that of one of the base's, or that cannot take what the base's takes."""
    hooks = {name: hook for name, hook in vars(base).items() if isinstance(hook, FunctionType) and name[0] != "_"}
    for name, function in vars(cls).items():
        if not isinstance(function, FunctionType) or name.startswith("_"):
            continue
        if name not in hooks:
            if nearest := get_close_matches(name, hooks, n=1, cutoff=0.8):
                raise TypeError(
                    f"{cls.__name__}.{name} is no hook and would never be called. Did you mean {nearest[0]}? If not, "
                    f"call it _{name}."
                )
            continue
        arguments = list(signature(hooks[name]).parameters)
        try:
            signature(function).bind(*arguments)
        except TypeError:
            raise TypeError(f"{cls.__name__}.{name} must take ({', '.join(arguments)}).") from None

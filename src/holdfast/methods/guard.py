"""Hooks of a user's own method: what they raise or wrongly return becomes one line that names hook and place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from types import FunctionType
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.own_code import failure
from holdfast.methods.overrides import hooks_of
from holdfast.methods.state import MethodState

_NOTED = ("event", "method")  # names that a line of the run log has already


def guard_hooks(cls: type, base: type) -> None:
    """Wrap the hooks that a class defines, but for `stages`, which the plan checks."""
    for name, hook in hooks_of(base).items():
        own = vars(cls).get(name)
        if name in _PROBLEMS and isinstance(own, FunctionType):
            setattr(cls, name, _guarded(own, hook, f"{cls.__name__}.{name}()"))


def _guarded(own: FunctionType, hook: FunctionType, whose: str) -> Callable[..., Any]:
    find_problem, arguments = _PROBLEMS[hook.__name__], signature(hook)

    @wraps(own)
    def call(*given: Any, **named: Any) -> Any:
        try:
            result = own(*given, **named)
        except HoldfastError:
            raise
        except Exception as error:  # it is the user's code
            raise HoldfastError(f"{whose} failed{failure(error, own.__code__.co_filename)}") from error
        if problem := find_problem(result, arguments.bind(*given, **named).arguments):
            shown = " ".join(repr(result).split())
            raise HoldfastError(f"{whose} must return {problem}, got {shown:.80}.")
        return result

    return call


def _rows(result: Any, given: dict[str, Any]) -> str:
    size = given["batch_size"]
    return "" if type(result) is int and 0 <= result <= size else f"an int from 0 to the batch size, {size}"


def _term(result: Any, given: dict[str, Any]) -> str:
    import torch

    fits = result is None or (isinstance(result, torch.Tensor) and result.numel() == 1)
    return "" if fits else "a tensor of one number, or None"


def _gradients(result: Any, given: dict[str, Any]) -> str:
    fits = isinstance(result, list | tuple) and [getattr(g, "shape", None) for g in result] == [
        g.shape for g in given["new"]
    ]
    return "" if fits else "a list of tensors with the shapes of `new`"


def _note(result: Any, given: dict[str, Any]) -> str:
    fits = result is None or (isinstance(result, dict) and not any(name in result for name in _NOTED))
    return "" if fits else f"a dict without the keys {' and '.join(_NOTED)}, or None"


def _state(result: Any, given: dict[str, Any]) -> str:
    if result is None and (shapes := given["self"].kept_shapes(given["policy"])):
        return f"a MethodState, because kept_shapes() lists {len(shapes)} tensors"
    return "" if result is None or isinstance(result, MethodState) else "a MethodState, or None"


# What is wrong with the result of each hook, in words that follow "must return"; "" if nothing is.
_PROBLEMS: dict[str, Callable[[Any, dict[str, Any]], str]] = {
    "begin": lambda result, given: "" if result is None or isinstance(result, str) else "text, or None",
    "replayed_rows": _rows,
    "extra_loss": _term,
    "combine": _gradients,
    "finish": _note,
    "keep": _state,
    "kept_shapes": lambda result, given: "" if isinstance(result, dict) else "a dict of names and shapes",
}

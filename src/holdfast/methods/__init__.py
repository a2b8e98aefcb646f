"""Methods of continual learning: `method.py` is the interface, `state.py` what methods keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import get_annotations
from typing import Any

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.own_code import is_own, load_own, name_own
from holdfast.methods.adapters import Adapters
from holdfast.methods.agem import Agem
from holdfast.methods.derpp import Derpp
from holdfast.methods.er import ExperienceReplay
from holdfast.methods.ewc import Ewc
from holdfast.methods.finetune import Finetune
from holdfast.methods.joint import Joint
from holdfast.methods.joint_cumulative import JointCumulative
from holdfast.methods.l2 import L2
from holdfast.methods.lwf import Lwf
from holdfast.methods.merge import Merge
from holdfast.methods.method import Method
from holdfast.methods.sequential import Sequential

METHODS: dict[str, type[Method]] = {
    "er": ExperienceReplay,
    "sequential": Sequential,
    "joint": Joint,
    "finetune": Finetune,
    "ewc": Ewc,
    "l2": L2,
    "lwf": Lwf,
    "derpp": Derpp,
    "agem": Agem,
    "merge": Merge,
    "joint-cumulative": JointCumulative,
    "adapters": Adapters,
}
_ADVICE = "A method is a class that inherits holdfast.methods.method.Method; docs/tutorials/add_a_method.md shows one."


def method_class(name: str) -> type[Method]:
    """The class of the method with this name. Runs the file of a user's own, so the name must be the user's."""
    if is_own(name):
        found: type[Method] = load_own(name, "method", _is_method, _ADVICE)
        return found
    if name not in METHODS:
        raise HoldfastError(f"{unknown('--method', name, METHODS)} For one of your own give file.py:Class.")
    return METHODS[name]


def name_of(kind: type[Method]) -> str:
    """The name of a method's class, by which `method_class` finds it again."""
    ours = {method: name for name, method in METHODS.items()}
    return ours[kind] if kind in ours else name_own(kind, kind.__module__)


def _is_method(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Method) and found is not Method


def build_method(name: str, options: Mapping[str, Any]) -> Method:
    """A method with its options, given as values or as the text of flags."""
    kind = method_class(name)
    valid = [item.name for item in fields(kind)]
    for option in options:
        if option not in valid:
            hint = " Make the class a @dataclass(frozen=True)." if option in get_annotations(kind) else ""
            problem = unknown(f"option of --method={name}", f"--method.{option}", [f"--method.{v}" for v in valid])
            raise HoldfastError(f"{problem}{hint}")
    for item in fields(kind):
        if item.default is MISSING and item.default_factory is MISSING:
            raise HoldfastError(f"--method={name}: option {item.name} needs a default. Write `{item.name}: ... = ...`.")
    try:
        return _decoded(kind, options) if options else kind()
    except HoldfastError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, HoldfastError):
            raise error.__cause__ from None
        by_class = error.__cause__ if "instantiate" in str(error) else None  # draccus does not say why
        raise HoldfastError(f"--method={name}: {' '.join(str(by_class or error).split())}") from None


def _decoded(kind: type[Method], options: Mapping[str, Any]) -> Method:
    import draccus  # slow to import

    method: Method = draccus.decode(kind, dict(options))
    return method

"""Arenas: simulators behind one protocol, where policies are evaluated, watched and recorded."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from holdfast.arenas.arena import Arena
from holdfast.arenas.arena_file import set_up_arenas
from holdfast.arenas.setups import SETUPS
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import OPERATOR

ARENAS = {"twin": "holdfast.arenas.twin:Twin"}
_TAKEN = (OPERATOR, *ARENAS)  # sources of trials that no other arena may have


@cache
def load(name: str) -> Arena:
    """The arena called `name`, made once per process.

    A simulator with a Python of its own is given as an arena's file, `my_arena.toml`, or by its name if it is set up. A
    class of your own is given as its path, `package.module:Class`; the module must be importable (its folder is on
    PYTHONPATH). Loading an arena runs its code.
    """
    if name in ARENAS:
        return _make(ARENAS[name])
    arena = _start(Path(name)) if name.endswith(".toml") else _make_named(name)
    if arena.name in _TAKEN:
        raise HoldfastError(f"Arena {name} has the name {arena.name!r}, which is taken. Give it another.")
    return arena


def own_sources() -> tuple[str, ...]:
    """The sources of trials that are ours: people, and the arenas that are there or can be set up."""
    return (*_TAKEN, *dict.fromkeys((*SETUPS, *set_up_arenas())))


def _make_named(name: str) -> Arena:
    known = set_up_arenas()
    if name in known:
        return _start(known[name])
    if ":" not in name:
        raise HoldfastError(
            f"{unknown('arena', name, [*ARENAS, *known])} `holdfast arena setup` makes others. For one of your own "
            "give its file, my_arena.toml, or package.module:Class."
        )
    return _make(name)


def _start(file: Path) -> Arena:
    from holdfast.arenas.worker_arena import WorkerArena

    return WorkerArena(file)


def path_of(arena: str | type[Arena]) -> str:
    """The name by which `load` finds an arena, in this process and in those that it starts."""
    if isinstance(arena, str):
        return arena
    path = f"{arena.__module__}:{arena.__qualname__}"
    if arena.__module__ == "__main__" or "." in arena.__qualname__:
        raise HoldfastError(
            f"Other processes cannot import the arena {arena.__qualname__}. Put the class at the top level of a file "
            "and import it from there; in a notebook, begin its cell with %%writefile my_arena.py."
        )
    return {known: name for name, known in ARENAS.items()}.get(path, path)


def import_class(path: str, what: str) -> type:
    """The class at `package.module:Class`; `what` says in errors what it should be."""
    module, _, kind = path.partition(":")
    try:
        content = import_module(module)
    except (Exception, SystemExit) as error:  # it is a stranger's code
        reason = f"{type(error).__name__}: {error}"
        raise HoldfastError(
            f"{what.capitalize()} {path} cannot be imported ({reason}). Is its folder on PYTHONPATH?"
        ) from None
    found = getattr(content, kind, None)
    if found is None:
        raise HoldfastError(
            f"{what.capitalize()} {path} cannot be found: module {module} has no {kind or 'empty name'}."
        )
    if not isinstance(found, type):
        raise HoldfastError(f"{path} is not a class of {what}s, got {type(found).__name__}.")
    return found


def _make(path: str) -> Arena:
    found = import_class(path, "arena")
    if not issubclass(found, Arena):
        raise HoldfastError(f"{path} is not an arena: derive the class from holdfast.arenas.arena.Arena.")
    try:
        arena = found()
    except (Exception, SystemExit) as error:
        raise HoldfastError(f"Arena {path} cannot be made ({type(error).__name__}: {error}).") from None
    arena.check()
    return arena

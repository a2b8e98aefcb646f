"""Streams of the field: Continual World, ALOHA and LIBERO. `field.toml` has their tasks and LIBERO's orders."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from holdfast.catalog.reader import read
from holdfast.core.errors import unknown

_FILE = Path(__file__).parent / "field.toml"


def field_streams() -> tuple[str, ...]:
    """Their names."""
    return tuple(_tables())


def field_stream(name: str) -> dict[str, Any] | None:
    """A stream in the form of a user's file; None for other names. `libero_goal:3` is libero_goal in order 3."""
    suite, colon, order = name.partition(":")
    table = _tables().get(suite)
    if table is None or (colon and not table.get("ordered")):
        return None
    tasks = (table if "task" in table else _tables()[table["twice"]])["task"]
    common = {"arms": table.get("arms", ["arm"]), "final": table["final"]}
    tasks = [{**task, **common} for task in tasks] * (2 if "twice" in table else 1)
    if colon:
        orders = {str(number): places for number, places in enumerate(_content()["orders"])}
        if order not in orders:
            raise unknown(f"order of {suite}", order, orders)
        tasks = [tasks[place] for place in orders[order]]
    return {"name": name.replace(":", "-"), "embodiment": table["embodiment"], "task": tasks}


def metaworld_group(name: str) -> tuple[str, ...]:
    """MetaWorld's tasks of a difficulty, as `lerobot-eval` numbers them; none for other names."""
    return tuple(_content()["metaworld_groups"].get(name, ()))


@cache
def _content() -> dict[str, Any]:
    return read(_FILE)


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return {table["name"]: table for table in _content()["stream"]}

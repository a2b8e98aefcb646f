"""Tensors from a file against those that are wanted, by name and shape."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.errors import HoldfastError

type Shapes = Mapping[str, tuple[int, ...]]


def check_shapes(found: Shapes, wanted: Shapes, origin: object, word: str) -> None:
    """Refuse tensors whose names or shapes are not exactly those wanted; the error names them and their origin."""
    missing = [name for name in wanted if name not in found]
    unexpected = [name for name in found if name not in wanted]
    both = [name for name in wanted if name in found]
    wrong = [f"{n} {found[n]} instead of {wanted[n]}" for n in both if found[n] != wanted[n]]
    for problem, names in (("lacks", missing), ("has unexpected", unexpected), ("has wrong shapes of", wrong)):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            raise HoldfastError(f"{origin} {problem} {len(names)} {word}: {', '.join(names[:5])}{more}.")

"""The header of a LeRobot dataset, meta/info.json, of v3 and of v2.1: what is used of it is checked here."""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.names import check_length


def check_key(key: str, where: object) -> None:
    """Refuse a feature's key that cannot name the folder of its videos; `where` is what it was read from."""
    if not key.isprintable() or "/" in key or "\\" in key or ".." in key or key.startswith(".") or not key:
        raise HoldfastError(
            f"{where} has the feature {key[:100]!r}. A folder is named after it: it may have no slash, no `..`, no dot "
            "at its start and no control character. An example is 'observation.images.head'."
        )
    check_length(key, f"A feature of {where}")


def check_features(features: dict[str, Any], where: object) -> None:
    """Refuse a header's features if one of them is not described as LeRobot does."""
    for key in features:
        check_key(key, where)

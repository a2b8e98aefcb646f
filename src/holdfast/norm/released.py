"""Statistics in the file format of openpi and of the paper's released code: norm_stats.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.outside import read_json
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Space

# Columns of Stats and their names in the file; min and max are not in every file.
_NAMES = {"q01": "q01", "q99": "q99", "mean": "mean", "std": "std", "min": "vmin", "max": "vmax"}
_STAND_INS = {"vmin": "q01", "vmax": "q99"}


def read_norm_stats(path: Path, actions: int, states: int | None = None) -> Space:
    """Read a norm_stats.json, or the one in a folder, as a space; `states` defaults to the number of `actions`.

    Zeros that pad the statistics to the network's width are dropped.
    """
    path = path / "norm_stats.json" if path.is_dir() else path
    content = read_json(path)
    tables = content.get("norm_stats", content) if isinstance(content, dict) else {}
    features = {}
    for feature, dimensions in (("state", states or actions), ("actions", actions)):
        if not isinstance(tables, dict) or not isinstance(tables.get(feature), dict):
            raise HoldfastError(f"{path} is not a norm_stats.json: it has no table {feature!r}.")
        features[feature] = _stats(tables[feature], dimensions, f"{path}: {feature!r}")
    return Space(features["state"], features["actions"])


def write_norm_stats(path: Path, space: Space) -> None:
    """Write a space as a norm_stats.json, from which `read_norm_stats` reads the same space."""
    tables = {
        feature: {name: list(getattr(stats, column)) for column, name in _NAMES.items()}
        for feature, stats in (("state", space.state), ("actions", space.action))
    }
    path.write_text(json.dumps({"norm_stats": tables}, indent=1))


def _stats(table: dict[str, Any], dimensions: int, where: str) -> Stats:
    columns = {}
    for column, name in _NAMES.items():
        values = table.get(name, table.get(_STAND_INS.get(name, name)))
        try:
            array = np.array(values, dtype=float)
        except (TypeError, ValueError):
            array = np.full(0, np.nan)
        if array.ndim != 1 or len(array) < dimensions or not np.isfinite(array).all():
            raise HoldfastError(f"{where} needs {dimensions} finite numbers called {name!r}, got {values!r}.")
        if array[dimensions:].any():
            raise HoldfastError(
                f"{where} has {len(array)} dimensions, the datasets have {dimensions}, and {name!r} is not 0 beyond "
                "them: these statistics are from another robot. Give --norm.stats= to take those of the first task."
            )
        columns[column] = array[:dimensions]
    return Stats.from_columns(0, 0.0, **columns)

"""Named experiments: short functions from an output folder and a seed to a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.recipes.metaworld_mini import metaworld_mini
from holdfast.recipes.paper import SEED, paper
from holdfast.recipes.quickstart import quickstart
from holdfast.recipes.recipe import Recipe
from holdfast.recipes.twin import bimanual, heterogeneous, single_arm

RECIPES: dict[str, Callable[[Path, int], Recipe]] = {
    "quickstart": quickstart,
    "metaworld-mini": metaworld_mini,
    "single_arm": single_arm,
    "bimanual": bimanual,
    "heterogeneous": heterogeneous,
    "paper": paper,
}
# The seed of demonstrations and training that a recipe takes unless another is given.
SEEDS = {**dict.fromkeys(RECIPES, 1), "paper": SEED}

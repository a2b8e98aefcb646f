"""docs/design.md has decisions and contracts. What tells how a thing works belongs into a docstring or a guide."""

from pathlib import Path

MOST_WORDS = 4500


def test_the_design_stays_short_enough_to_be_read():
    words = len((Path(__file__).parents[2] / "docs" / "design.md").read_text().split())
    assert words <= MOST_WORDS, f"{words} words: move what is no decision to its owner's docstring or to a guide"

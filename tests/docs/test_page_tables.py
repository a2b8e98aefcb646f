"""A table in Markdown is whole: an empty line cuts it in two, and a line without bars becomes one more row."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def cut(text: str) -> list[str]:
    """Lines at which a table is broken; code is left out."""
    lines = [*re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines(), ""]
    wrong = []
    for (before, line), after in zip(pairwise(["", *lines]), [*lines[1:], ""], strict=True):
        row = line.startswith("|")
        if row and not before.startswith("|") and not re.fullmatch(r"\|[-:| ]+\|", after):
            wrong.append(line)
        if line.strip() and not row and before.startswith("|"):
            wrong.append(line)
    return wrong


def test_a_cut_table_is_found():
    table = "| a | b |\n|---|--:|\n| 1 | 2 |\n"
    assert cut(f"Text\n\n{table}\nText\n") == []
    assert cut(f"{table}\n| 3 | 4 |\n") == ["| 3 | 4 |"]
    assert cut(f"{table}Text\n") == ["Text"]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(REPOSITORY)) for page in PAGES])
def test_tables_are_whole(page):
    assert cut(page.read_text()) == []

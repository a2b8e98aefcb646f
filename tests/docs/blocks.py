"""Runs the code of a page: titled blocks become files, Python blocks are executed, in the order of the page."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

FENCE = re.compile(
    r"^```(?P<language>\w*)(?:\s+title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^```\s*$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """One fenced block. `line` is the line of the page its text begins on; `title` the file it belongs into."""

    language: str
    title: str | None
    text: str
    line: int


def blocks(path) -> list[Block]:
    """Every fenced block of a Markdown page."""
    page = Path(path).read_text()
    return [
        Block(m["language"], m["title"], m["text"], page.count("\n", 0, m.start("text")) + 1)
        for m in FENCE.finditer(page)
    ]


def python_blocks(path) -> list[str]:
    """The Python blocks of a page, titled ones included."""
    return [block.text for block in blocks(path) if block.language == "python"]


def run_blocks(path, folder, monkeypatch) -> ModuleType:
    """Do what the page says inside `folder`; return the module that its Python blocks filled, one after the other."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    for block in blocks(path):
        if block.title:
            target = Path(folder) / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        elif block.language == "python":
            # The empty lines make a traceback name the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), page.__dict__)
    return page

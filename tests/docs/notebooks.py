"""Runs the code cells of a notebook in order, with smaller settings, as `blocks.py` runs a page."""

import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

from holdfast.cli import main


def code_cells(path) -> list[dict]:
    """The code cells of a notebook."""
    return [cell for cell in json.loads(Path(path).read_text())["cells"] if cell["cell_type"] == "code"]


def run_notebook(path, folder, monkeypatch, **settings) -> ModuleType:
    """Run a notebook inside `folder`; `settings` replace values of its first cell, which must have them.

    A line `!holdfast ...` is run as that command, which must succeed.
    """
    monkeypatch.chdir(folder)
    notebook = ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    notebook.holdfast_command = _command
    for number, cell in enumerate(code_cells(path), 1):
        code = re.sub(r"^!holdfast (.+)$", lambda m: f"holdfast_command({m[1]!r})", "".join(cell["source"]), flags=re.M)
        exec(compile(code, f"{Path(path).name}, cell {number}", "exec"), notebook.__dict__)
        if number == 1:
            unknown = settings.keys() - vars(notebook).keys()
            assert not unknown, f"the first cell does not set {unknown}"
            vars(notebook).update(settings)
    return notebook


def _command(words: str) -> None:
    assert main(shlex.split(words)) == 0, f"holdfast {words}"

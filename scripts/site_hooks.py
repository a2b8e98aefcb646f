"""What MkDocs cannot do itself: list the tutorials, and write the help of every command into reference/commands.md."""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

from holdfast.cli import main
from holdfast.commands import COMMANDS

MARK = "<!-- the help of every command -->"


def on_config(config: Any, **_: Any) -> Any:
    """Every file of tutorials/ is in the navigation, after the first page; those that add something come last."""
    names = sorted((path.name for path in Path(config.docs_dir, "tutorials").glob("*.md")), key=_add_last)
    if names:
        config.nav.insert(1, {"Tutorials": [f"tutorials/{name}" for name in names]})
    return config


def _add_last(name: str) -> tuple[bool, str]:
    return name.startswith("add_"), name


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by one section for each command."""
    return markdown.replace(MARK, "\n".join(map(section, COMMANDS))) if MARK in markdown else markdown


def section(command: str) -> str:
    """A command's purpose and its `--help`."""
    said = io.StringIO()
    os.environ["COLUMNS"] = "100"  # argparse wraps at the width of the terminal
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return f"## {command}\n\n{COMMANDS[command].capitalize()}.\n\n```text\n{said.getvalue().rstrip()}\n```\n"

"""What MkDocs cannot do itself: list the tutorials, show the notebooks, and write out the help of every command."""

import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

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


def on_files(files: Any, config: Any) -> Any:
    """Every notebook is a page, too."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = file.src_uri.replace(".ipynb", ".md")
        files.append(File.generated(config, page, content=notebook_page(Path(file.abs_src_path))))
    return files


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its code in blocks, and below the title a link to the notebook itself."""
    parts = [
        f"```python\n{text}\n```" if cell["cell_type"] == "code" else text
        for cell in json.loads(path.read_text())["cells"]
        for text in ["".join(cell["source"])]
    ]
    title, _, rest = parts[0].partition("\n")
    origin = f'This page is a <a href="{path.name}" download>notebook</a> to run in Jupyter.'
    return "\n\n".join([title, origin, rest, *parts[1:]])


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Link to the pages of notebooks, and replace the mark by one section for each command."""
    markdown = markdown.replace(".ipynb)", ".md)")
    return markdown.replace(MARK, "\n".join(map(section, COMMANDS))) if MARK in markdown else markdown


def section(command: str) -> str:
    """A command's purpose and its `--help`."""
    said = io.StringIO()
    os.environ["COLUMNS"] = "100"  # argparse wraps at the width of the terminal
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return f"## {command}\n\n{COMMANDS[command].capitalize()}.\n\n```text\n{said.getvalue().rstrip()}\n```\n"

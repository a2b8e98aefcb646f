"""What the pages name exists: files, modules, commands and flags."""

import contextlib
import re
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from blocks import blocks

from holdfast.cli import main
from holdfast.commands import COMMANDS

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
IDS = [str(page.relative_to(REPOSITORY)) for page in PAGES]
ROOTS = [REPOSITORY, REPOSITORY / "src", REPOSITORY / "src" / "holdfast"]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_files_and_modules_exist(page):
    words = re.findall(r"`([\w./]+)`", page.read_text())
    files = [w for w in words if re.fullmatch(r"(\w+/)+(\w+\.(py|md|sh|toml|svg))?", w) and not w.startswith("/")]
    known = {part.name for part in (REPOSITORY / "src" / "holdfast").iterdir()} | {p.name for p in REPOSITORY.iterdir()}
    wrong = [f for f in files if f.split("/")[0] in known and not any((root / f).exists() for root in ROOTS)]
    modules = re.findall(r"\bholdfast(?:\.[a-z_]\w*)+", " ".join(words))
    wrong += [m for m in modules if not _module(m)]
    assert not wrong, f"not there: {wrong}"


def _module(name):
    path = REPOSITORY / "src" / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_and_flags_exist(page):
    wrong = []
    for command, rest in _commands(page):
        if command not in COMMANDS:
            wrong.append(f"there is no command {command!r}")
            continue
        flags = _flags(command)
        if part := re.match(r" ([a-z]+)\b", rest):  # `bundle diff` has flags of its own
            flags |= _flags(command, part[1])
        used = re.findall(r"(?<![\w-])--([\w.-]+)", rest.split(" #")[0])
        # LeRobot knows the flags of its policies.
        used = [flag.replace("-", "_") for flag in used if flag != "help" and not flag.startswith("policy.")]
        wrong += [f"holdfast {command} has no --{flag}" for flag in used if flag not in flags]
    assert not wrong, "\n".join(wrong)


def _commands(page):
    """(command, the rest of the line) of every `holdfast ...` in a page's code."""
    text = "\n".join(block.text for block in blocks(page) if block.language in ("", "bash"))
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    for line in lines + re.findall(r"`([^`\n]+)`", page.read_text()):
        if match := re.search(r"(?:^|/bin/|-m )holdfast ([a-z]\w*)((?: .*)?)$", line.strip()):
            yield match[1], match[2]


@cache
def _flags(*words):
    said = StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(StringIO()), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return {flag.replace("-", "_") for flag in re.findall(r"--([\w.-]+)", said.getvalue())}


def test_every_tutorial_is_run_by_a_test():
    tests = "".join(path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py"))
    missing = [page.name for page in (REPOSITORY / "docs" / "tutorials").glob("*.md") if page.name not in tests]
    assert not missing, f"no test names, and so runs, {missing}"

"""The folder shows the idea: imports go one way, files stay short enough to read."""

import ast
from pathlib import Path

import pytest

import holdfast

ROOT = Path(holdfast.__file__).parent
ORDER = [
    "core", "embodiments", "catalog", "rubric", "metrics", "norm", "data", "replay", "policies", "methods", "runs",
    "train", "twin", "arenas", "evaluate", "report", "serve", "console", "robots", "recipes", "commands", "cli",
]  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))


def part(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path):
    """Names of holdfast's parts that a file imports, wherever in the file the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"{node.module}.{a.name}" if node.module == "holdfast" else node.module for a in node.names]
        elif isinstance(node, ast.Import):
            modules = [a.name for a in node.names]
        for module in modules:
            if module.startswith("holdfast.") and module != "holdfast.__version__":
                yield module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_only_upwards(path):
    own = part(path)
    if own in ("__init__", "__main__"):
        return
    allowed = set(ORDER[: ORDER.index(own) + 1])
    assert set(imported(path)) <= allowed
    if own == "evaluate":
        assert "train" not in imported(path), "train and evaluate meet in the run folder only"


def test_only_data_and_policies_know_lerobot():
    knowing = {part(p) for p in FILES if "lerobot" in {m.split(".")[0] for m in _foreign(p)}}
    assert knowing <= {"data", "policies", "twin", "robots"}


def _foreign(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_short(path):
    text = path.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 50, node.name

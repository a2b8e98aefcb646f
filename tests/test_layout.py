"""The layout, module by module: imports go one way, every name exists, files stay short enough to read."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import holdfast

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "holdfast"
# Each entry imports only entries to its left.
ORDER = [
    "core", "embodiments", "catalog", "rubric", "metrics", "matrix_files", "norm", "data", "replay", "policies",
    "methods", "runs", "train", "twin", "arenas", "evaluate", "report", "serve", "console", "robots",
    "lerobot_plugins", "api", "recipes", "studies", "commands", "cli",
]  # fmt: skip
LEROBOT = (
    "arenas.worker.lerobot_worker",  # it runs in the simulator's own Python
    "data.lerobot",
    "policies",
    "twin",
    "robots",
)  # the folders that may import LeRobot; CONTRIBUTING says so too
WITHOUT_TORCH = ("core", "catalog", "rubric", "metrics", "matrix_files", "methods")
# One name, two classes: both networks are built of layers that everybody calls so.
LAYERS = {
    name: {"holdfast.policies.nano.network", "holdfast.policies.pi05.gemma"}
    for name in ("Attention", "FeedForward", "TimedNorm")
}


def module_name(path: Path) -> str:
    parts = ("holdfast", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
PACKAGES = [name for name, path in MODULES.items() if path.name == "__init__.py" and name != "holdfast"]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path):
    """(line, module, name or None) of every import in a file, wherever it stands: in functions and type checks too."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: import by the full name, not with dots"
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)


@cache
def imported(module: str) -> dict[str, int]:
    """Our modules that a module imports, each with a line that does."""
    found = {}
    for line, source, name in imports(MODULES[module]):
        target = f"{source}.{name}" if f"{source}.{name}" in MODULES else source
        if source == "holdfast":  # the Python API: each name comes from a module
            target = holdfast._MODULES.get(name, target)
        if target.split(".")[0] == "holdfast" and target not in ("holdfast", module):
            found[target] = line
    return found


def place(module: str) -> str:
    return str(MODULES[module].relative_to(REPOSITORY))


def circle(edges: dict[str, dict[str, str]]) -> list[str]:
    """The imports of a circle, if there is one. `edges` maps a node to what it imports, and where."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [f"{a} imports {b} ({edges[a][b]})" for a, b in pairwise(error.args[1][::-1])]
    return []


def test_a_circle_is_found_with_the_lines_that_make_it():
    edges = {"a": {"b": "a.py:1"}, "b": {"c": "b.py:2"}, "c": {"a": "c.py:3"}, "d": {"a": "d.py:4"}}
    assert sorted(circle(edges)) == ["a imports b (a.py:1)", "b imports c (b.py:2)", "c imports a (c.py:3)"]
    assert circle({"a": {"b": "a.py:1"}, "b": {}}) == []


def test_the_order_names_every_folder_and_nothing_else():
    there = {part_of(module) for module in MODULES} - {"", "__main__"}
    assert there - set(ORDER) == set(), "add it to ORDER, at the place where its imports allow it"
    assert set(ORDER) - there == set(), "ORDER names what is not there"


@pytest.mark.parametrize("part", ORDER)
def test_folders_import_only_what_stands_before_them(part):
    allowed = ORDER[: ORDER.index(part) + 1]
    wrong = [
        f"{place(module)}:{line} imports {target}: {part_of(target)} stands after {part}"
        for module in MODULES
        if part_of(module) == part
        for target, line in imported(module).items()
        if part_of(target) not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle():
    edges = {m: {t: f"{place(m)}:{line}" for t, line in imported(m).items() if t in MODULES} for m in MODULES}
    found = circle(edges)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_members_of_a_package_import_each_other_in_one_direction(package):
    """A sub-package is one member: what it imports, sibling or file of its parent, never imports it."""
    depth = package.count(".") + 1

    def member(module: str) -> str | None:
        inside = module == package or module.startswith(package + ".")
        return ".".join(module.split(".")[: depth + 1]) if inside else None

    edges: dict[str, dict[str, str]] = defaultdict(dict)
    for module in MODULES:
        for target, line in imported(module).items():
            a, b = member(module), member(target)
            if a and b and a != b:
                edges[a][b] = f"{place(module)}:{line}"
    found = circle(edges)
    assert not found, "\n".join(found)


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_training_and_evaluation_meet_in_the_run_folder_only():
    wrong = [
        f"{place(module)}:{line} imports {target}"
        for module in MODULES
        for target, line in imported(module).items()
        if {part_of(module), part_of(target)} == {"train", "evaluate"}
    ]
    assert not wrong, "\n".join(wrong)


def test_only_its_arena_and_lerobots_plugin_know_the_twin():
    knows = ("holdfast.arenas.twin", "holdfast.lerobot_plugins.lerobot_env_holdfast")
    wrong = [
        f"{place(module)}:{line} imports {target}"
        for module in MODULES
        for target, line in imported(module).items()
        if part_of(target) == "twin" and part_of(module) != "twin" and module not in knows
    ]
    assert not wrong, "speak to the protocol in arenas/arena.py instead:\n" + "\n".join(wrong)


def names_in(module: str) -> set[str]:
    """What `from module import ...` may name: what the file binds at its top level, and its submodules."""
    names = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == module}
    waiting: list[ast.AST] = list(tree(MODULES[module]).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        else:
            waiting += ast.iter_child_nodes(node)
    return names


SOURCES = [p for d in ("src", "plugins", "benchmarks", "scripts") for p in sorted((REPOSITORY / d).rglob("*.py"))]
TESTS = sorted((REPOSITORY / "tests").rglob("*.py"))


def test_every_imported_name_exists():
    wrong = []
    for path in SOURCES + TESTS:
        for line, source, name in imports(path):
            if source.split(".")[0] != "holdfast":
                continue
            where = f"{path.relative_to(REPOSITORY)}:{line}"
            if source not in MODULES:
                wrong.append(f"{where}: there is no module {source}")
            elif name and name not in names_in(source):
                wrong.append(f"{where}: {source} has no {name}")
    assert not wrong, "\n".join(wrong)


def test_every_module_named_in_a_text_exists():
    """Tables name modules as "holdfast.a.b" or "holdfast.a.b:Name", to import them when they are asked for."""
    wrong = []
    for path in SOURCES:
        loggers = {
            id(argument)
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger"
            for argument in node.args
        }
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in loggers:
                continue
            if match := re.fullmatch(r"(holdfast(?:\.[a-z_]\w*)+)(?::(\w+).*)?", node.value):
                module, name = match.groups()
                parent, _, last = module.rpartition(".")
                known = module in MODULES or (parent in MODULES and last in names_in(parent))
                if not known or (name and name not in names_in(module)):
                    wrong.append(f"{path.relative_to(REPOSITORY)}:{node.lineno}: {node.value!r} names nothing")
    assert not wrong, "\n".join(wrong)


def test_every_command_has_its_file():
    from holdfast.commands import COMMANDS

    files = {p.stem.rstrip("_") for p in (ROOT / "commands").glob("*.py")}
    assert set(COMMANDS) - files == set(), "there are commands without a file"


def types_in(module: str):
    """Names of all classes and type aliases of a module: `class X`, `type X = ...`, and `X = Literal[...]`."""
    for node in ast.walk(tree(MODULES[module])):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.TypeAlias):
            yield node.name.id
    for node in tree(MODULES[module]).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name[0].isupper() and not name.isupper():
                yield name


def test_no_two_types_have_one_name():
    owners = defaultdict(set)
    for module in MODULES:
        for name in types_in(module):
            owners[name].add(module)
    wrong = [
        f"{name}: {', '.join(sorted(found))}"
        for name, found in owners.items()
        if len(found) > 1 and found != LAYERS.get(name)
    ]
    assert not wrong, "give each its own name:\n" + "\n".join(wrong)
    stale = [name for name in LAYERS if len(owners[name]) < 2]
    assert not stale, f"no longer needed in LAYERS: {stale}"


def test_lerobot_is_imported_in_its_folders_only():
    allowed = tuple(f"holdfast.{folder}." for folder in LEROBOT)
    wrong = [
        f"{place(module)}:{line} imports {source}"
        for module, path in MODULES.items()
        for line, source, _ in imports(path)
        if source.split(".")[0] == "lerobot" and not f"{module}.".startswith(allowed)
    ]
    assert not wrong, f"LeRobot is imported only in {', '.join(LEROBOT)}:\n" + "\n".join(wrong)


def test_methods_are_told_apart_by_what_their_classes_say():
    from holdfast.methods import METHODS

    wrong = [
        f"{place(module)}:{node.lineno}: {ast.unparse(node)}"
        for module, path in MODULES.items()
        if part_of(module) != "methods"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Compare | ast.Match) and "method" in ast.unparse(node)
        for name in ast.walk(node)
        if isinstance(name, ast.Constant) and name.value in METHODS
    ]
    assert not wrong, "ask METHODS[...] instead of comparing names:\n" + "\n".join(wrong)


def test_modules_of_lerobot_are_named_in_its_folders_only():
    """A text like "lerobot.datasets" is an import, too: somebody will make one of it."""
    allowed = tuple(f"holdfast.{folder}." for folder in LEROBOT)
    wrong = [
        f"{place(module)}:{node.lineno} names {node.value}"
        for module, path in MODULES.items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"lerobot(\.\w+)+", node.value) and not f"{module}.".startswith(allowed)
    ]
    assert not wrong, f"LeRobot is known only in {', '.join(LEROBOT)}:\n" + "\n".join(wrong)


def test_mujoco_is_imported_by_the_twin_only():
    allowed = ("holdfast.twin.", "holdfast.arenas.worker.")  # a worker runs in its simulator's own Python
    wrong = [
        f"{place(module)}:{line} imports {source}"
        for module, path in MODULES.items()
        for line, source, _ in imports(path)
        if source.split(".")[0] == "mujoco" and not f"{module}.".startswith(allowed)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", WITHOUT_TORCH)
def test_light_parts_import_neither_torch_nor_lerobot(part):
    names = [m for m in MODULES if m == f"holdfast.{part}" or m.startswith(f"holdfast.{part}.")]
    code = (
        "import importlib, sys\n"
        "sys.modules['torch'] = sys.modules['lerobot'] = None  # importing them is an error now\n"
        f"for name in {names}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES)
def test_files_and_functions_stay_short(path):
    lines = path.read_text().count("\n")
    assert lines <= 300, f"{lines} lines"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno
            assert length < 50, f"{node.name} has {length} lines"

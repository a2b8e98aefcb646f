"""Which policy types and options there are, from the sources of LeRobot and Holdfast: importing them takes long."""

from __future__ import annotations

import ast
import os
import re
import shutil
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from holdfast.core.errors import HoldfastError, did_you_mean, unknown
from holdfast.core.hub import check_on_hub, looks_like_hub_id
from holdfast.core.names import near_path
from holdfast.policies.config import SHIPPED, PolicyChoice, resolve
from holdfast.policies.saved_folder import CONFIG, read_config

_REGISTERED = re.compile(r"""register_subclass\(["'](\w+)["']\)""")
_BASE = "PreTrainedConfig"
_PLUGINS = "lerobot_policy_"
_OURS = "lerobot_policy_holdfast"
_COMPILED = ("nano", "pi05_fast")  # their layers are compiled on a GPU, unless their option `compile` is off


def check_policy(choice: PolicyChoice) -> None:
    """Refuse a policy that does not exist, and options that it does not have, as far as that is known by now."""
    if choice.path:
        _check_path(choice.path)
    kind = _stored_type(choice)
    if kind is None:
        return
    known = policy_types()
    if kind not in known:
        if not _has_other_plugins():
            raise unknown("policy type", kind, sorted(known))
        return
    valid = _options(known[kind])
    for option in choice.options:
        if valid and option.partition(".")[0] not in valid:
            near = did_you_mean(option, {*valid, "type", "path"}, "--policy.")
            raise HoldfastError(
                f"Policy {kind!r} has no option --policy.{option}.{near} Its options: {', '.join(sorted(valid))}."
            )


def check_compiler(choice: PolicyChoice) -> None:
    """Refuse a policy whose layers are compiled for a GPU on a machine without a C compiler."""
    if _stored_type(choice) not in _COMPILED or choice.options.get("compile", "true").lower() == "false":
        return
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        raise HoldfastError(
            "On a GPU the policy's layers are compiled, but this machine has no C compiler. Install gcc, name a "
            "compiler in the variable CC, or add --policy.compile=false, which makes steps slower."
        )


def policy_types() -> dict[str, Path]:
    """The types that LeRobot and Holdfast register, each with the file of its config."""
    homes = [*(place / "policies" for place in _lerobot()), Path(__file__).parent]
    files = [file for home in homes for file in home.glob("*/configuration_*.py")]
    return {name: file for file in files for name in _REGISTERED.findall(file.read_text(errors="replace"))}


def _check_path(path: str) -> None:
    if path in SHIPPED or os.path.exists(path):
        return
    if not looks_like_hub_id(path):
        hint = near_path(path)
        raise HoldfastError(
            f"{unknown('policy', path, SHIPPED)}{hint} Or give a policy's folder, or an id of the hub like user/name."
        )
    check_on_hub(path, "model", near_path(path))


def _stored_type(choice: PolicyChoice) -> str | None:
    """The policy's type, if it is known without the hub."""
    if choice.path is None or choice.type == "pi05_fast":
        return choice.type
    config = Path(resolve(choice.path)) / CONFIG
    return str(read_config(config)["type"]) if config.is_file() else None


def fixed_dimensions(choice: PolicyChoice) -> dict[str, int]:
    """The dimensions of state and action that the weights of a saved nano have; none for others, which may pad."""
    config = Path(resolve(choice.path)) / CONFIG if choice.path else None
    if config is None or not config.is_file():
        return {}
    stored = read_config(config)
    found = {}
    for part in ("input_features", "output_features") if stored["type"] == "nano" else ():
        for name, feature in stored[part].items() if isinstance(stored.get(part), dict) else ():
            match feature:
                case {"type": "STATE" | "ACTION", "shape": [int() as size]}:
                    found[name] = size
    return found


def _options(file: Path) -> set[str]:
    """The fields of the config in a file; none if it inherits from more than LeRobot's base."""
    lerobot = find_spec("lerobot")
    bases = [
        Path(place) / "configs" / "policies.py" for place in (lerobot and lerobot.submodule_search_locations) or ()
    ]
    fields: set[str] = set()
    for source in (file, *bases):
        for node in ast.parse(source.read_text()).body:
            if not isinstance(node, ast.ClassDef):
                continue
            inherited = [ast.unparse(base) for base in node.bases]
            registered = any(_REGISTERED.search(ast.unparse(mark)) for mark in node.decorator_list)
            if registered and inherited != [_BASE]:
                return set()
            if registered or node.name == _BASE:
                fields |= {
                    item.target.id
                    for item in node.body
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                }
    return fields


def _lerobot() -> list[Path]:
    """Where LeRobot is; to find it is not to import it."""
    found = find_spec("lerobot")
    return [Path(place) for place in (found and found.submodule_search_locations) or ()]


def _has_other_plugins() -> bool:
    """Whether plugins are installed that may register more types."""
    names = (str(found.metadata.get("Name")) for found in distributions())
    return any(name.startswith(_PLUGINS) and name != _OURS for name in names)

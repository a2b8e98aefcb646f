"""Exchange with LeRobot's own `pi05`: start from a folder it saved, and write a folder it loads."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import draccus
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.pi05.configuration_pi05 import PI05Config
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.policies.pi05.configuration_pi05 import PALIGEMMA, Pi05FastConfig
from holdfast.policies.pi05.weights import FILE
from holdfast.policies.saved_folder import (
    PREPROCESSOR,
    ROUTER,
    check_folder,
    find_config,
    load_config,
    read_config,
    read_pipeline,
)
from holdfast.policies.task_lora import TaskLora

OURS = "pi05_fast"
# Keys of a stock config that are not taken over: where and how it ran, and features, which come from the dataset.
LEFT = {"type", "device", "input_features", "output_features", "normalization_mapping", "pretrained_path", "repo_id"}


def start_config(path: str, options: dict[str, str], cameras: Iterable[str]) -> Any:
    """The config of a `pi05_fast` that starts from a folder or hub id of ours, of LeRobot's `pi05` or of openpi.

    Args:
        path: Where the weights are.
        options: What the user set, by field.
        cameras: Keys of the dataset's cameras. If the folder has the same ones, its order is kept.
    """
    stored = _read_config(path)
    flags = [f"--{name}={value}" for name, value in options.items()]
    if stored.get("type") == OURS:
        return load_config(path, flags)
    if stored.get("type", "pi05") != "pi05":
        raise HoldfastError(f"{path} holds a policy of type {stored['type']!r}; pi05_fast starts from pi05 or openpi.")
    if stored.get("time_sampling_beta_beta", 1.0) != 1.0:
        raise HoldfastError(f"{path} draws times with beta={stored['time_sampling_beta_beta']}; only 1 is supported.")
    known = {field.name for field in fields(Pi05FastConfig)} - LEFT
    taken = {key: value for key, value in stored.items() if key in known and value is not None}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # as flags, values could make draccus open files
        json.dump(taken, file)
        file.flush()
        config = draccus.parse(Pi05FastConfig, config_path=file.name, args=flags)
    features = stored.get("input_features") or {}
    if {key for key, feature in features.items() if feature["type"] == "VISUAL"} == set(cameras):
        config.input_features = {
            key: PolicyFeature(FeatureType[feature["type"]], tuple(feature["shape"]))
            for key, feature in features.items()
        }
    return config


def write_stock(folder: Path, output: Path, instruction: str | None = None) -> None:
    """Rewrite a folder of `pi05_fast` as one of stock `pi05`: the same weights with another config.

    Stock `pi05` has no LoRAs. Of a policy with one per task, that of the given instruction is merged into the weights.
    """
    check_folder(folder)
    config = load_config(folder, ["--device=cpu"])
    if config.type != OURS:
        raise HoldfastError(
            f"{folder} holds a policy of type {config.type!r}, not {OURS}: stock LeRobot reads it as is."
        )
    if config.relative_to is not None:
        raise HoldfastError(f"{folder} pairs states and actions by name, but stock pi05 pairs them by position.")
    if not config.state_in_prompt:
        raise HoldfastError(
            f"{folder} was trained without the state in its prompt (--policy.state_in_prompt=false). LeRobot's pi05 "
            "always writes it there and would act on prompts it was never trained on. Load the folder with pi05_fast."
        )
    number = _number(config.task_loras, instruction, folder)
    shared = {field.name for field in fields(PI05Config)} & {field.name for field in fields(Pi05FastConfig)}
    stock = PI05Config(**{name: getattr(config, name) for name in shared})
    output.mkdir(parents=True, exist_ok=True)
    stock._save_pretrained(output)
    for file in folder.iterdir():
        if file.name.startswith("policy_") or file.name == FILE:
            shutil.copy2(file, output / file.name)
    if number is not None:
        _merge(output / FILE, number)
    pipeline = read_pipeline(folder / PREPROCESSOR)
    pipeline["steps"] = [new for step in pipeline["steps"] for new in _stock_steps(step, config)]
    (output / PREPROCESSOR).write_text(json.dumps(pipeline, indent=2))


def _number(loras: list[TaskLora], instruction: str | None, folder: Path) -> int | None:
    """Which LoRA to merge; None if there are none."""
    known = [lora.instruction for lora in loras]
    if not known and instruction is not None:
        raise HoldfastError(f"{folder} has the same weights for all tasks. Leave --instruction out.")
    if known and instruction not in known:
        listed = ", ".join(map(repr, known))
        raise HoldfastError(
            f"{folder} has a LoRA per task, and stock pi05 has none: give --instruction, one of {listed}"
            + ("." if instruction is None else f", not {instruction!r}.")
        )
    return known.index(instruction) if instruction in known else None


def _merge(file: Path, number: int) -> None:
    """Add one task's LoRA to the weights of a file and drop all of them."""
    try:
        stored = load_file(file)
        for name in [name for name in stored if name.endswith(f".down.{number}")]:
            layer = name.removesuffix(f".down.{number}")
            added = stored[f"{layer}.up.{number}"] @ stored[name]
            stored[f"{layer}.weight"] = stored[f"{layer}.weight"].float() + added
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise HoldfastError(f"The weights of the policy do not hold LoRA {number + 1}: {error}.") from None
    plain = {name: value for name, value in stored.items() if ".down." not in name and ".up." not in name}
    save_file(plain, file, metadata={"format": "pt"})


def _stock_steps(step: dict[str, Any], config: Any) -> list[dict[str, Any]]:
    """LeRobot writes the prompt in one step and tokenizes it in the next."""
    if step.get("registry_name") == ROUTER:
        return []
    if step.get("registry_name") != "pi05_fast_prompt":
        return [step]
    tokenizer = {
        "tokenizer_name": config.tokenizer_name or PALIGEMMA,
        "max_length": config.tokenizer_max_length,
        "task_key": "task",
        "padding_side": "right",
        "padding": "max_length",
        "truncation": True,
    }
    # LeRobot stores no settings of its prompt step; its defaults apply.
    return [
        {"registry_name": "pi05_prepare_state_tokenizer_processor_step", "config": {}},
        {"registry_name": "tokenizer_processor", "config": tokenizer},
    ]


def _read_config(path: str) -> dict[str, Any]:
    """The config in a folder or at a hub id; empty for openpi, whose configs are not needed."""
    file = find_config(path)
    return read_config(file) if file and "type" in outside.read_json(file) else {}

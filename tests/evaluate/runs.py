"""A run folder for the twin without training: an untrained nano in the form in which the engine leaves it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
import yaml
from lerobot.configs import FeatureType, PolicyFeature

from holdfast import catalog
from holdfast.core import checked_folder
from holdfast.core.json_records import to_json
from holdfast.embodiments import EMBODIMENTS
from holdfast.norm.strategies import Normalization, calibrated_space
from holdfast.policies.adapter import Adapter
from holdfast.policies.nano.configuration_nano import NanoConfig
from holdfast.policies.nano.modeling_nano import NanoPolicy

ROBOT = EMBODIMENTS["piper_x_pair"]
CAMERAS = ("head", "front", "left_wrist", "right_wrist")
SMALL = {"image_size": 32, "width": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


def make_run(
    path: Path,
    tasks: tuple[str, ...] = ("press_button", "push_box"),
    method: str = "sequential",
    chunk: int = 16,
    stages: int | None = None,
    size: int = 32,
    options: dict[str, int] | None = None,
) -> Path:
    """Write a run of `stages` finished stages, each with weights of its own."""
    path.mkdir(parents=True)
    records = [to_json(catalog.task(name)) for name in tasks]
    (path / "run.yaml").write_text(yaml.safe_dump({"config": {"method": method}, "tasks": records}))
    names = ("joint",) if method == "joint" else tasks
    for number, name in enumerate(names[:stages], 1):
        learned = tasks if method == "joint" else (name,) if method == "finetune" else tasks[:number]
        _write_checkpoint(
            path / "stages" / f"{number:02d}-{name}" / "checkpoint", number, learned, chunk, size, options
        )
    return path


def _write_checkpoint(
    folder: Path, seed: int, learned: tuple[str, ...], chunk: int, size: int, options: dict[str, int] | None
) -> None:
    inputs = {f"observation.images.{camera}": PolicyFeature(FeatureType.VISUAL, (3, size, size)) for camera in CAMERAS}
    inputs["observation.state"] = PolicyFeature(FeatureType.STATE, (14,))
    config = NanoConfig(
        input_features=inputs,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (14,))},
        device="cpu",
        action_feature_names=list(ROBOT.names),
        chunk_size=chunk,
        n_action_steps=chunk,
        push_to_hub=False,
        **(SMALL if options is None else options),
    )
    torch.manual_seed(seed)
    adapter = Adapter(NanoPolicy(config).eval(), ROBOT.names)
    space = calibrated_space(ROBOT, adapter.layout.relative, chunk)
    normalization = Normalization("frozen-first")
    for task in learned:
        normalization = normalization.with_task(task, space)

    def fill(target: Path) -> None:
        adapter.save(target / "policy", space)
        (target / "normalization.json").write_text(json.dumps(normalization.to_json()))
        (target / "datasets.json").write_text(json.dumps(dict.fromkeys(learned, "none")))
        (target / "schema.json").write_text(json.dumps({"fps": 30, "names": list(ROBOT.names), "cameras": {}}))

    checked_folder.write(folder, fill)


def twins(trials: list) -> list:
    """What must be the same whoever ran the trials: all but the clock."""
    return sorted((replace(trial, when=0.0) for trial in trials), key=lambda t: (t.stage, t.task, t.seed))

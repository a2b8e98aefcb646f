"""What can be found wrong in seconds, before LeRobot is imported and a policy is built."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from holdfast import embodiments
from holdfast.core.device_name import check_device
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.gpu_driver import has_gpu_driver
from holdfast.core.hub import check_on_hub, looks_like_hub_id
from holdfast.core.names import near_path
from holdfast.core.records import Stream, StreamTask
from holdfast.data.lerobot.folder import ACTION, STATE, read_info
from holdfast.norm.released import read_norm_stats
from holdfast.policies.config import SHIPPED, resolve
from holdfast.policies.known_types import check_compiler, check_policy, fixed_dimensions
from holdfast.train.config import LogConfig, TrainConfig
from holdfast.train.plan import ahead, needed


def check_early(config: TrainConfig, stream: Stream) -> None:
    """Refuse settings that cannot work, and datasets that are not there.

    Of datasets that later stages learn, only the place is looked at: none of their files is opened before its stage.
    With `dry_run` datasets may be absent, and those that are there are all looked into.
    """
    check_device(config.device)
    if config.device.startswith("cuda") or (config.device == "auto" and has_gpu_driver()):
        check_compiler(config.policy)
    check_loggers(config.log)
    if stream.embodiment:
        robot = embodiments.load(stream.embodiment)
        for entry in stream.tasks:
            robot.active(entry.task.arms)  # refuses arms that it does not have
    stages = ahead(config, stream)
    starts = any(stage.start == "base" for stage in stages)
    if starts:
        check_policy(config.policy)
        if config.norm.stats and not os.path.exists(resolve(config.norm.stats)):
            raise HoldfastError(
                f"{unknown('--norm.stats', config.norm.stats, SHIPPED)}{near_path(config.norm.stats)} Or give a "
                "norm_stats.json, or a folder that holds one."
            )
    entries = needed(config, stream)
    if not config.dry_run:
        for entry in entries if not config.wait else ():
            _check_place(entry, Path(config.stream).parent)
        entries = [stream.tasks[position] for stage in stages[:1] for position in stage.learns]
    for entry in entries:
        if Path(entry.dataset).is_dir():
            info = read_info(Path(entry.dataset))
            if starts and not (entry.mapping and entry.mapping.dimensions):
                sizes = {feature: info["features"][feature]["shape"][-1] for feature in (STATE, ACTION)}
                check_robot(config, entry.dataset, sizes)


def check_robot(config: TrainConfig, dataset: str, sizes: dict[str, int]) -> None:
    """Refuse a saved nano, or statistics, of a robot with other dimensions than a dataset."""
    for feature, size in fixed_dimensions(config.policy).items():
        if sizes.get(feature, size) != size:
            raise HoldfastError(
                f"Policy {config.policy.path} was trained for another robot: its {feature!r} has {size} dimensions, "
                f"that of dataset {dataset} has {sizes[feature]}. To start from random weights, add --policy.type=nano "
                "--policy.image_size=64 (and leave out --policy.path)."
            )
    if config.norm.stats:
        read_norm_stats(Path(resolve(config.norm.stats)), sizes[ACTION], sizes[STATE])


def check_loggers(log: LogConfig) -> None:
    """Refuse a logger that is not installed."""
    for name, asked, title in (
        ("tensorboard", log.tensorboard, "TensorBoard"),
        ("wandb", log.wandb, "Weights & Biases"),
    ):
        if asked and find_spec(name) is None:
            raise HoldfastError(f"--log.{name} needs {title}: uv pip install 'holdfast[{name}]'.")


def _check_place(entry: StreamTask, beside: Path) -> None:
    """Refuse a dataset that is neither a folder nor on the hub; one beside the stream's file may have been meant."""
    if Path(entry.dataset).exists():
        return
    hint = near_path(entry.dataset) or near_path(beside / entry.dataset)
    if not looks_like_hub_id(entry.dataset):
        raise HoldfastError(
            f"Dataset {entry.dataset} of task {entry.task.name!r} does not exist.{hint} Give a LeRobot v3 folder or a "
            "hub id like user/name; `holdfast record` makes datasets of the twin's tasks."
        )
    check_on_hub(entry.dataset, "dataset", hint)

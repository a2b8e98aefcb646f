"""Settings of the policy and its images. Light to import: `--help` needs it without LeRobot."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.flag_values import check_flag

# Policies that come with the package; `holdfast run base` makes them.
SHIPPED = {"nano-base": Path(__file__).parent / "nano" / "base"}
# Robots a policy answers in one batch, on a CPU and elsewhere. On one core, 4 at a time halve the inference of a nano
# of 1 M parameters and save 30 % with 9 M; larger batches gain little more and wait longer for the last robot. Five,
# because the usual cells of ten or twenty trials are multiples of five, so no batch is half empty.
CPU_ROWS, GPU_ROWS = 5, 32


@dataclass(frozen=True)
class PolicyChoice:
    """Which policy to train. Any other --policy.NAME=VALUE goes to LeRobot's own config of that policy."""

    # A policy type that LeRobot knows: nano, pi05_fast, act, diffusion, smolvla, ...
    type: str = "nano"
    # A saved policy to start from: nano-base, a folder or a hub id; its type is the one it was saved with. Only with
    # --policy.type=pi05_fast it may also be LeRobot's pi05 (lerobot/pi05_base) or openpi's weights.
    path: str | None = None
    # Filled from the other --policy.* flags.
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.options.items():  # LeRobot's parser reads them as flags
            check_flag(name, str(value))


def resolve(path: str) -> str:
    """The location of a policy; one that comes with the package is given by its name."""
    return str(SHIPPED.get(path, path))


@dataclass(frozen=True)
class AugmentConfig:
    """Image augmentation, drawn per sample; 0 switches a kind off."""

    # Largest shift, as a share of the image's size, the same for all cameras of a sample.
    shift: float = 0.04
    # Largest change of brightness, contrast and saturation, each as a factor 1 +- value, one per camera.
    brightness: float = 0.1
    contrast: float = 0.1
    saturation: float = 0.1
    # Share of an image's sides that a random crop removes, and the largest rotation in degrees; the same for all
    # cameras of a sample, except those with "wrist" in their name, whose view tells where the hand is.
    crop: float = 0.0
    rotation: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            limit = 180 if name == "rotation" else 1
            if not 0 <= value < limit:
                raise HoldfastError(f"--augment.{name} must be at least 0 and below {limit}, got {value}.")

"""Patterns for the look of the cell, computed: wood, plaster, cardboard, cloth. Each is a picture that repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

type Pixels = np.ndarray  # height x width x 3 bytes


def _noise(height: int, width: int, smooth_y: float, smooth_x: float, seed: int) -> np.ndarray:
    """Smooth noise that repeats, of mean 0 and deviation 1; larger numbers make it smoother along that axis."""
    rng = np.random.default_rng(seed)
    wave = np.fft.fft2(rng.standard_normal((height, width)))
    y, x = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :]
    wave *= np.exp(-2 * np.pi**2 * ((y * smooth_y) ** 2 + (x * smooth_x) ** 2))
    noise = np.fft.ifft2(wave).real
    return (noise - noise.mean()) / noise.std()


def _coloured(brightness: np.ndarray, colour: Sequence[float] = (1.0, 1.0, 1.0)) -> Pixels:
    return np.clip(255 * brightness[..., None] * np.asarray(colour), 0, 255).astype(np.uint8)


def planks() -> Pixels:
    """A floor of planks."""
    size, boards = 512, 8
    rng = np.random.default_rng(1)
    wide = size // boards
    grain = 0.05 * _noise(size, size, 1.0, 40.0, 2) + 0.03 * _noise(size, size, 6.0, 90.0, 3)
    brightness = np.ones((size, size))
    for board in range(boards):
        rows = slice(board * wide, (board + 1) * wide)
        joint = int(rng.integers(size))
        half = np.repeat(0.86 + 0.05 * rng.standard_normal(2), size // 2)
        brightness[rows] = np.roll(half, joint) + np.roll(grain[rows], int(rng.integers(size)), axis=1)
        brightness[rows.start : rows.start + 2] *= 0.75
        brightness[rows, [joint % size, (joint + size // 2) % size]] *= 0.75
    return _coloured(brightness)


def grain() -> Pixels:
    """Wood, its grain along the width."""
    return _coloured(0.88 + 0.06 * _noise(256, 256, 1.5, 50, 11) + 0.04 * _noise(256, 256, 8, 90, 12))


def plaster() -> Pixels:
    """A painted wall."""
    return _coloured(0.97 + 0.006 * _noise(256, 256, 2, 2, 4) + 0.008 * _noise(256, 256, 30, 30, 5))


def plywood() -> Pixels:
    """The edge of a plywood board: thin layers."""
    layers = np.where(np.arange(32) // 5 % 2, 0.78, 0.95)[:, None]
    return _coloured(layers + 0.03 * _noise(32, 256, 0.5, 8, 6))


def card() -> Pixels:
    """Cardboard: fibres, and faint corrugation."""
    ripple = 0.012 * np.sin(2 * np.pi * 24 * np.arange(128) / 128)
    return _coloured(0.94 + ripple + 0.025 * _noise(128, 128, 0.7, 2.5, 13))


def weave() -> Pixels:
    """Coarse cloth."""
    thread = np.sin(2 * np.pi * 32 * np.arange(128) / 128)
    return _coloured(0.92 + 0.04 * np.outer(thread, thread) + 0.03 * _noise(128, 128, 3, 3, 14))


def tshirt(x: np.ndarray, y: np.ndarray) -> Pixels:
    """An orange T-shirt with a collar and seams; x and y are metres from its middle, x towards the collar."""
    size = x.shape[0]
    cloth = 1 + 0.025 * _noise(size, size, 0.8, 0.8, 7) + 0.02 * _noise(size, size, 12, 12, 8)
    collar = np.hypot((x - 0.103) / 0.027, y / 0.046)
    ribs = 0.03 * np.sin(90 * np.arctan2((x - 0.103) / 0.027, y / 0.046))
    cloth = np.where(collar < 1, 0.86 + ribs, cloth)
    cloth = np.where(collar < 0.72, 0.52 + 0.12 * np.clip(0.103 - x, 0, 1) / 0.02, cloth)
    cloth *= 1 - 0.22 * _line(collar, 1.0, 0.03) - 0.15 * _line(collar, 0.72, 0.03)
    out = np.abs(y)
    sleeve = out - 0.088
    seams = (_line(out, 0.0885, 0.0008) * (x > 0.035), _line(x, -0.112, 0.0007), _line(out, 0.143, 0.0007))
    for seam in seams:
        cloth *= 1 - 0.25 * seam
    cloth *= 1 - 0.10 * np.exp(-((sleeve / 0.005) ** 2)) * (x > 0.035)
    return _coloured(cloth, (0.95, 0.50, 0.17))


def towel(x: np.ndarray, y: np.ndarray) -> Pixels:
    """A grey-blue towel with a hem, and stripes at both ends; x runs along it."""
    size = x.shape[0]
    cloth = 1 + 0.05 * _noise(size, size, 1.0, 1.0, 9) + 0.02 * _noise(size, size, 10, 10, 10)
    out = np.abs(x)
    white = np.clip(sum(_line(out, place, 0.003) for place in (0.098, 0.110)), 0, 1)[..., None]
    hem = 0.2 * (_line(out, 0.129, 0.001) + _line(np.abs(y), 0.079, 0.001))
    blue = _coloured(cloth * (1 - hem), (0.47, 0.56, 0.67))
    return (blue * (1 - white) + _coloured(cloth, (0.90, 0.91, 0.90)) * white).astype(np.uint8)


def _line(value: np.ndarray, place: float, half: float) -> np.ndarray:
    """1 where a value is within `half` of a place, 0 elsewhere, soft in between."""
    return np.clip(1.5 - np.abs(value - place) / half, 0, 1)


def add(spec: mujoco.MjSpec, name: str, pixels: Pixels) -> str:
    """Add a material that shows a pattern; returns its name."""
    show(spec, spec.add_material(name=name, rgba=[1, 1, 1, 1], specular=0, shininess=0), pixels)
    return name


def show(spec: mujoco.MjSpec, material: Any, pixels: Pixels) -> None:
    """Let a material show a pattern."""
    height, width, _ = pixels.shape
    name = f"{material.name} pattern"
    texture = spec.add_texture(name=name, type=mujoco.mjtTexture.mjTEXTURE_2D, height=height, width=width, nchannel=3)
    texture.data = pixels.tobytes()
    roles = material.textures
    roles[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    material.textures = roles

"""Cloth as people see it: a fine surface with folds, seams and a collar over the coarse sheet that is simulated.

A vertex of the fine surface moves as a smooth mean of the sheet's vertices around it. The sheet's layers pass through
each other; drawn at the same height they would flicker, so the side of the cloth that faces down is raised a little.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from holdfast.twin import patterns

_FINER = 4  # fine cells along a side of a coarse one
_SMOOTHINGS = 4
_THICK = 0.0006  # of the cloth (m), on either side
_LIFT = 0.0016  # of cloth that stands upright (m); twice as much where it is turned over
_PIXELS = 512
_SIDE = 0.34  # of the square that a cloth's pattern covers (m)

type Fold = tuple[float, float, float, float]  # from x, y to x, y, in the frame of the flat cloth


@dataclass(frozen=True)
class _Cut:
    """How a cloth is cut, folded and printed; x points away from the robot, from the middle of the cloth."""

    outline: Callable[[np.ndarray], np.ndarray]
    folds: tuple[Fold, ...]
    pattern: Callable[[np.ndarray, np.ndarray], patterns.Pixels]


def _tshirt_outline(flat: np.ndarray) -> np.ndarray:
    """Sloping shoulders, sleeves that hang, a neckline."""
    x, y = flat.T.copy()
    out = np.clip((np.abs(y) - 0.09) / 0.06, 0, 1)  # along the sleeve
    high = np.clip((x - 0.03) / 0.09, 0, 1)
    slope = np.clip((np.abs(y) - 0.035) / 0.055, 0, 1)
    neck = np.clip(1 - (y / 0.038) ** 2, 0, 1)
    down = high * (0.010 * slope + 0.008 * neck) + 0.030 * out + 0.14 * out * (x - 0.09)
    waist = 0.05 * np.exp(-(((x + 0.03) / 0.07) ** 2)) * (out == 0)
    return np.column_stack([x - down, y * (1 - waist)])


_CUTS = {
    "shirt": _Cut(
        _tshirt_outline,
        (
            (0.045, 0.085, -0.01, 0.020),
            (0.050, -0.085, 0.005, -0.025),
            (-0.015, 0.080, -0.055, 0.015),
            (-0.030, -0.085, -0.065, -0.010),
            (-0.115, 0.045, -0.060, 0.050),
            (-0.115, -0.030, -0.075, -0.045),
            (0.065, 0.095, 0.080, 0.140),
            (0.070, -0.095, 0.075, -0.135),
            (0.030, -0.020, 0.045, 0.025),
        ),
        patterns.tshirt,
    ),
    "towel": _Cut(
        lambda flat: flat,
        ((-0.08, -0.06, 0.02, -0.03), (0.00, 0.07, 0.09, 0.02), (-0.11, 0.05, -0.05, 0.01)),
        patterns.towel,
    ),
}


def cover(spec: mujoco.MjSpec) -> None:
    """Draw a fine surface instead of every sheet of cloth that has a cut; others are drawn as they are."""
    for flex in spec.flexes:
        if flex.name in _CUTS:
            _cover(spec, flex, _CUTS[flex.name])
            flex.group = 3  # not drawn


def _cover(spec: mujoco.MjSpec, flex: Any, cut: _Cut) -> None:
    bodies = [spec.body(name) for name in flex.vertbody]
    frame = spec.body(flex.name)
    coarse = np.array([body.pos for body in bodies])
    points, weights, quads = _refine(coarse[:, :2])
    places = cut.outline(points)
    height = _height(places, cut.folds)
    vertices = np.column_stack([places, height]) + frame.pos
    uv = places / _SIDE + 0.5
    material = patterns.add(spec, f"{flex.name} cloth", _printed(cut))
    chosen = [np.flatnonzero(row > 1e-4) for row in weights.T]
    for side, corners in (("outside", (0, 1, 2, 0, 2, 3)), ("inside", (0, 2, 1, 0, 3, 2))):
        skin = spec.add_skin(
            name=f"{flex.name} {side}",
            vert=vertices.ravel(),
            texcoord=uv[:, ::-1].ravel(),
            face=quads[:, corners].ravel(),
            material=material,
            inflate=_THICK,
        )
        skin.bodyname = list(flex.vertbody)
        skin.bindpos, skin.bindquat = (coarse + frame.pos).ravel(), np.tile([1.0, 0, 0, 0], len(coarse))
        skin.vertid = [ids.tolist() for ids in chosen]
        skin.vertweight = [row[ids].tolist() for row, ids in zip(weights.T, chosen, strict=True)]


def _refine(coarse: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fine points (n, 2), their weights (n, coarse), and quads of them with their upper side first."""
    grid = np.column_stack([np.unique(axis.round(5), return_inverse=True)[1] for axis in coarse.T])
    number = {(i, j): n for n, (i, j) in enumerate(grid.tolist())}
    fine: dict[tuple[int, int], int] = {}
    rows: list[np.ndarray] = []
    quads: list[list[int]] = []

    def vertex(i: int, j: int, corners: Sequence[int], a: float, b: float) -> int:
        if (i, j) not in fine:
            fine[i, j] = len(rows)
            rows.append(np.bincount(corners, [(1 - a) * (1 - b), a * (1 - b), a * b, (1 - a) * b], len(coarse)))
        return fine[i, j]

    for i, j in number:
        corners = [number.get(key, -1) for key in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))]
        if min(corners) < 0:
            continue
        for a, b in itertools.product(range(_FINER), repeat=2):
            around = ((a, b), (a + 1, b), (a + 1, b + 1), (a, b + 1))
            quads.append([vertex(_FINER * i + u, _FINER * j + v, corners, u / _FINER, v / _FINER) for u, v in around])
    flat = np.array(rows)
    return flat @ coarse, _smoothed(flat, np.array(quads)), np.array(quads)


def _smoothed(weights: np.ndarray, quads: np.ndarray) -> np.ndarray:
    """Weights averaged over neighbours; those on the border only along it, so that the cloth does not shrink."""
    edges = np.sort(np.concatenate([quads[:, [k, (k + 1) % 4]] for k in range(4)]), axis=1)
    edges, count = np.unique(edges, axis=0, return_counts=True)
    border = np.zeros(len(weights), bool)
    border[edges[count == 1]] = True
    near = np.zeros((len(weights), len(weights)))
    for (p, q), times in zip(edges, count, strict=True):
        near[p, q] = times == 1 or not border[p]
        near[q, p] = times == 1 or not border[q]
    near /= near.sum(axis=1, keepdims=True)
    for _ in range(_SMOOTHINGS):
        weights = (weights + near @ weights) / 2
    return weights


def _height(places: np.ndarray, folds: Sequence[Fold]) -> np.ndarray:
    """Heights of soft folds, each highest in its middle."""
    height = np.zeros(len(places))
    for x0, y0, x1, y1 in folds:
        start, along = np.array([x0, y0]), np.array([x1 - x0, y1 - y0])
        share = np.clip((places - start) @ along / (along @ along), 0, 1)
        away = np.linalg.norm(places - start - share[:, None] * along, axis=1)
        height += 0.0055 * np.sin(np.pi * (0.1 + 0.8 * share)) * np.exp(-((away / 0.007) ** 2))
    return height


def _printed(cut: _Cut) -> patterns.Pixels:
    """The pattern, brighter where folds face the light and darker behind them."""
    line = np.linspace(-0.5, 0.5, _PIXELS) * _SIDE
    x, y = np.meshgrid(line, line, indexing="ij")
    height = _height(np.column_stack([x.ravel(), y.ravel()]), cut.folds).reshape(x.shape)
    slope_x, slope_y = np.gradient(height, line[1] - line[0])
    shade = 1 - 0.35 * (0.6 * slope_x + 0.8 * slope_y)
    return np.clip(cut.pattern(x, y) * shade[..., None], 0, 255).astype(np.uint8)


class ClothLayers:
    """Keeps layers of cloth apart in a copy of the cell that is only drawn: what is turned over is raised."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        sheets = zip(model.flex_elemdataadr, model.flex_elemnum, model.flex_vertadr, strict=True)
        triangles = [model.flex_elem[start : start + 3 * count] + first for start, count, first in sheets]
        self._triangles = np.concatenate([np.zeros(0, int), *triangles]).reshape(-1, 3)

    def part(self, data: mujoco.MjData) -> None:
        """Change the heights of the sheet's vertices, given where its bodies are."""
        if not len(self._triangles):
            return
        bodies = self._model.flex_vertbodyid
        a, b, c = (data.xpos[bodies[corner]] for corner in self._triangles.T)
        across = np.cross(b - a, c - a)
        normal = np.zeros((len(bodies), 3))
        for corner in self._triangles.T:
            np.add.at(normal, corner, across)
        upright = normal[:, 2] / np.maximum(np.linalg.norm(normal, axis=1), 1e-12)
        height = self._model.jnt_qposadr[self._model.body_jntadr[bodies] + 2]
        data.qpos[height] += _LIFT * (1 - upright)

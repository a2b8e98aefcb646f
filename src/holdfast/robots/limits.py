"""The filter between a policy and the arms: whatever the policy wants, the command is a small step to a permitted pose.

A command is the last command plus a move; of an increment or a velocity, which lasts for one control step only, it is
the move itself. Every rule is a range of moves that contains 0. So standing still is always permitted, the rules can be
applied one after the other, and a shorter move never breaks a rule. A switch may jump to either of its two values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import piper_x_ik as ik
from holdfast.embodiments.embodiment import TARGETS, Embodiment
from holdfast.embodiments.piper_x import SIDES, TCP, TCP_TO_TIP

LEAD = 3  # a command is at most so many of the joint's fastest steps away from the measured angle
RISE = 3  # steps to reach the fastest one; this damps a policy that swings from side to side
_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0)  # of a move, tried until the hand stays in the workspace
_FINGER = 0.008  # thickness of a finger
_TOLERANCE = 0.05  # rad or m: a joint resting on its stop may measure a little beyond it


@dataclass(frozen=True)
class Command:
    """A pose to send, the move that led to it, and the dimensions that each rule changed."""

    pose: np.ndarray
    move: np.ndarray
    reasons: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Workspace:
    """The box in which fingertips and wrists stay: x away from the arms, y to their left, z up from the table (m).

    Tips may go 1 cm below the table, so that cloth can be pressed down.
    """

    low: tuple[float, float, float] = (0.0, -0.60, -0.01)
    high: tuple[float, float, float] = (0.66, 0.60, 0.60)

    def __post_init__(self) -> None:
        if len(self.low) != 3 or len(self.high) != 3 or not all(np.less(self.low, self.high)):
            raise HoldfastError(f"A workspace needs three numbers low < high, got {self.low} and {self.high}.")

    def shift(self, side: str, arm: np.ndarray) -> np.ndarray:
        """The shortest shift that brings a hand inside, zeros if it is. `arm`: six angles and the gripper opening."""
        position, rotation = ik.forward(side, arm[:6])
        approach, across = rotation[:, 2], rotation[:, 1] * (arm[6] / 2 + _FINGER)
        tip = position + TCP_TO_TIP * approach
        points = np.array([tip - across, tip + across, position - TCP * approach])
        up = np.maximum(self.low - points.min(axis=0), 0)
        return np.where(up > 0, up, np.minimum(self.high - points.max(axis=0), 0))


@dataclass(frozen=True)
class Limits:
    """The rules of one robot. Without a workspace only the joints limit where the hands go."""

    embodiment: Embodiment
    workspace: Workspace | None = None

    def __post_init__(self) -> None:
        if self.workspace and self.embodiment.arms != SIDES:
            raise HoldfastError(
                f"A workspace is known for PiPER-X pairs with arms {list(SIDES)} only, not for "
                f"{self.embodiment.name!r} with arms {list(self.embodiment.arms)}."
            )

    def start(self, measured: np.ndarray) -> Command:
        """The command that stays as measured; an error if a target is outside its limits there."""
        body = self.embodiment
        lower, upper = body.state_range()
        targets = body.of_kind(*TARGETS)
        pose = np.where(targets, np.clip(measured, lower, upper), self._switched(measured))
        wrong = targets & ~(np.abs(pose - measured) <= _TOLERANCE)  # written so that NaN is wrong too
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise HoldfastError(
                f"{body.names[i]} measures {measured[i]:.3f}, outside its limits {lower[i]:.3f} to "
                f"{upper[i]:.3f}. Move the arm back by hand, or check its zero, and start again."
            )
        pose = body.still(pose)
        return Command(pose, np.zeros_like(pose))

    def hold(self, last: Command, reason: str) -> Command:
        """Stay: targets and switches as in the last command, increments and velocities at 0."""
        pose = self.embodiment.still(last.pose)
        return Command(pose, np.zeros_like(pose), {reason: self.embodiment.names})

    def step(self, last: Command, measured: np.ndarray, wanted: np.ndarray, part: float = 1.0) -> Command:
        """The nearest permitted command to the wanted one.

        Args:
            last: The command before.
            measured: The measured pose; only targets are looked at.
            wanted: The policy's action; may be any numbers, or NaN.
            part: How much of a control step has passed since the command before, 0 to 1.
        """
        body = self.embodiment
        wanted = np.asarray(wanted, dtype=float)
        measured = np.where(body.of_kind(*TARGETS), measured, last.pose)
        if wanted.shape != last.pose.shape or not (np.isfinite(wanted).all() and np.isfinite(measured).all()):
            return self.hold(last, "not finite")
        rest = body.still(last.pose)
        move, reasons = np.where(body.of_kind("binary"), self._switched(wanted), wanted) - rest, {}
        low, high = np.full_like(move, -np.inf), np.full_like(move, np.inf)
        for reason, least, most in self._rules(last, measured, part):
            low, high = np.maximum(low, least), np.minimum(high, most)
            clipped = np.clip(move, low, high)
            if (clipped != move).any():
                reasons[reason] = self._names(clipped != move)
            move = clipped
        kept = self._within(last.pose, move, low, high)
        if (kept != move).any():
            reasons["workspace"] = self._names(kept != move)
        return Command(np.clip(rest + kept, *body.state_range()), kept, reasons)

    def _rules(self, last: Command, measured: np.ndarray, part: float) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Each rule: its name, the least and the most move of every dimension."""
        body = self.embodiment
        lower, upper = body.state_range()
        fastest = np.array([d.fastest for d in body.dimensions])
        rest = body.still(last.pose)
        yield "joint limit", lower - rest, upper - rest
        speed = np.where(body.of_kind("binary"), np.inf, part * fastest)
        yield "speed", -speed, speed
        # Not for fingers: they are light, and a grasped object stops them far from their command.
        light = body.of_kind("gripper", "binary")
        rise = np.where(light, np.inf, part * fastest / RISE)
        yield "acceleration", np.minimum(last.move, 0) - rise, np.maximum(last.move, 0) + rise
        lead = np.where(body.of_kind("joint", "target"), LEAD * fastest, np.inf)
        ahead = last.pose - measured
        yield "lead", np.minimum(-lead - ahead, 0), np.maximum(lead - ahead, 0)

    def _switched(self, values: np.ndarray) -> np.ndarray:
        """The lower or the upper limit, whichever is nearer; the lower one for NaN."""
        lower, upper = self.embodiment.state_range()
        return np.where(values > (lower + upper) / 2, upper, lower)

    def _within(self, pose: np.ndarray, move: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The move, changed for each arm that would leave the workspace."""
        if self.workspace is None:
            return move
        kept = move.copy()
        for i, side in enumerate(SIDES):
            arm = slice(7 * i, 7 * i + 7)
            kept[arm] = self._arm_within(self.workspace, side, pose[arm], move[arm], low[arm], high[arm])
        return kept

    @staticmethod
    def _arm_within(
        space: Workspace, side: str, pose: np.ndarray, move: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        shift = space.shift(side, pose + move)
        if not shift.any():
            return move
        # Slide along the wall instead of stopping at it.
        position, rotation = ik.forward(side, (pose + move)[:6])
        angles = ik.solve(side, position + shift, rotation, pose[:6])
        if angles is not None:
            move = np.clip([*(angles - pose[:6]), move[6]], low, high)
        most = np.abs(space.shift(side, pose)) + 1e-9  # a hand that is already outside may only move inwards
        for share in _SHARES:
            if (np.abs(space.shift(side, pose + share * move)) <= most).all():
                break
        return share * move

    def _names(self, which: np.ndarray) -> tuple[str, ...]:
        return tuple(name for name, changed in zip(self.embodiment.names, which, strict=True) if changed)

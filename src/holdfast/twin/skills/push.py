"""Push a crate along the table to a pad with closed fingers."""

from __future__ import annotations

import math

import numpy as np

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.skills.playground import ZONES
from holdfast.twin.skills.skill import Skill, unturned

_PAD_FACE, _PAD_WIDTH = 0.008, 0.011  # from the middle of closed pads to their outer face, and half its width
_SEGMENT, _NEAR_ENOUGH, _PUSH_HEIGHT = 0.07, 0.012, 0.034


class Push(Skill):
    """Push a crate along the table with closed fingers."""

    name = "push"
    templates = ("Push {thing} to {goal}", "Push {thing} onto {goal}", "Slide {thing} to {goal}")

    def lay(self) -> None:
        """A crate with one face roughly opposite the pad, and nothing in between."""
        zone = ((0.22, 0.44), ZONES[self.side][1])
        self.goal = self.playground.add(self.rng, "pad", zone, reach=self.arms)
        thing = self.playground.add(
            self.rng, "crate", zone, reach=self.arms, gap=-1, between=(self.goal.xy, 0.08, 0.16)
        )
        way = self.goal.xy - thing.xy
        self.thing = self.playground.turn(thing, _angle(way) + float(self.rng.uniform(-0.35, 0.35)))

    def words(self) -> dict[str, str]:
        """Crate and pad."""
        return {"thing": self.thing.words, "goal": self.goal.words}

    def scripts(self, drivers: Drivers) -> Scripts:
        """Come down behind it and push, re-aiming after every segment."""
        return {self.side: self.push(drivers[self.side])}

    def push(self, hand: Driver) -> Script:
        """Straight towards the middle of the pad."""
        middle, ahead, _, reach = self.aim()
        behind = middle - (reach + 0.02) * ahead
        yield from hand.move(behind + 0.07 * UP, hand.down(behind, _across(ahead)), opening=0.0)
        for _ in range(6):
            middle, ahead, distance, reach = self.aim()
            if distance < _NEAR_ENOUGH:
                break
            behind = middle - (reach + 0.015) * ahead
            yield from hand.move(behind, unturned(hand, behind, _across(ahead)), speed=0.18)
            yield from hand.move(middle + (min(distance, _SEGMENT) - reach) * ahead, speed=0.14, straight=True)
            yield from hand.move(hand.position - 0.015 * ahead, speed=0.15)
        yield from hand.move(hand.position + 0.08 * UP, speed=0.2)
        yield from hand.wait(seconds=0.25)

    def aim(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """The crate's middle at push height, direction and distance to the pad, and how far behind fingers touch."""
        middle = self.world.position(self.thing.name)
        way = self.goal.xy - middle[:2]
        distance = float(np.linalg.norm(way))
        middle[2] = _PUSH_HEIGHT
        off = (_angle(way) - self.world.yaw(self.thing.name) + math.pi / 4) % (math.pi / 2) - math.pi / 4
        reach = self.thing.half[0] / math.cos(off) + _PAD_FACE + _PAD_WIDTH * abs(math.sin(off))
        return middle, np.array([*way / max(distance, 1e-6), 0]), distance, reach

    def succeeded(self) -> bool:
        """It is in the middle of the pad."""
        return self.free_of(self.thing) and math.dist(self.world.position(self.thing.name)[:2], self.goal.xy) < 0.02


def _angle(way: np.ndarray) -> float:
    return math.atan2(way[1], way[0])


def _across(ahead: np.ndarray) -> float:
    """The yaw of a hand whose outer pad lies flat against the pushed object."""
    return _angle(ahead) - math.pi / 2

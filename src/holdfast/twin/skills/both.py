"""Two-arm skills: each arm with its own thing, both with one thing, or one working while the other holds."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.skills.playground import Zone
from holdfast.twin.skills.single import is_down, pick_and_put, press, put, rests_on
from holdfast.twin.skills.skill import GRASPABLE, OUTER, Skill, take
from holdfast.twin.skills.toys import Prop

# Things for one arm stay on its side, so that the hands do not collide.
_OWN: dict[str, Zone] = {"left": ((0.18, 0.46), (0.11, 0.40)), "right": ((0.18, 0.46), (-0.40, -0.11))}
_STEPS_PER_METRE = 450  # of a thing carried by both hands, at the same tempo


class LiftPair(Skill):
    """Each arm lifts its own thing."""

    name = "lift_pair"
    templates = (
        "Lift {left} with the left arm and {right} with the right arm",
        "Pick up {left} and {right} with both arms",
        "Raise both {left} and {right}",
    )

    def lay(self) -> None:
        """One thing on either side."""
        self.things = {side: self._thing(side) for side in SIDES}
        self.height = float(self.rng.uniform(0.07, 0.12))

    def _thing(self, side: str) -> Prop:
        return self.playground.add(self.rng, GRASPABLE, _OWN[side], reach=[side])

    def words(self) -> dict[str, str]:
        """Both things."""
        return {side: thing.words for side, thing in self.things.items()}

    def scripts(self, drivers: Drivers) -> Scripts:
        """At once."""
        return {side: self.lift(drivers[side]) for side in SIDES}

    def lift(self, hand: Driver) -> Script:
        """Take it, and keep it."""
        yield from take(hand, self.things[hand.side], self.height)
        yield from hand.wait(seconds=0.4)

    def succeeded(self) -> bool:
        """Both are up and held."""
        return all(held_up(self, side, thing) for side, thing in self.things.items())


class PressPair(Skill):
    """Each arm presses its own knob."""

    name = "press_pair"
    templates = (
        "Press {left} and {right}",
        "Press both knobs",
        "Push {left} down with the left arm and {right} with the right arm",
    )

    def lay(self) -> None:
        """One knob on either side."""
        self.things = {side: self.playground.add(self.rng, "knob", _OWN[side], reach=[side]) for side in SIDES}
        self.pressed: set[str] = set()

    def words(self) -> dict[str, str]:
        """Both knobs."""
        return {side: thing.words for side, thing in self.things.items()}

    def scripts(self, drivers: Drivers) -> Scripts:
        """At once."""
        return {side: self.press(drivers[side]) for side in SIDES}

    def press(self, hand: Driver) -> Script:
        """Press once and rise."""
        yield from press(hand, self.things[hand.side])
        if is_down(hand, self.things[hand.side]):
            self.pressed.add(hand.side)
        yield from hand.move(hand.position + 0.06 * UP, speed=0.15)
        yield from hand.wait(seconds=0.2)

    def succeeded(self) -> bool:
        """Both were down."""
        return len(self.pressed) == len(SIDES)


class Carry(Skill):
    """Both arms lift a bar or a tray together and move it."""

    name = "carry"
    templates = (
        "Carry {thing} {way} with both arms",
        "Lift {thing} with both arms and move it {way}",
        "Move {thing} {way} with both hands",
    )
    ways: ClassVar = {
        "forward": (0.05, 0),
        "back": (-0.05, 0),
        "to the left": (0, 0.05),
        "to the right": (0, -0.05),
        "up": (0, 0),
    }

    def lay(self) -> None:
        """In the middle, lying across."""
        self.thing = self.playground.add(
            self.rng, ("bar", "tray", "bin"), ((0.24, 0.36), (-0.06, 0.06)), reach=SIDES, turn=0.35
        )
        self.way = str(self.rng.choice(list(self.ways)))
        self.near = self.thing.half[1] - 0.02
        self.height = float(self.rng.uniform(0.06, 0.09))

    def words(self) -> dict[str, str]:
        """What, and where to."""
        return {"thing": self.thing.words, "way": self.way}

    def scripts(self, drivers: Drivers) -> Scripts:
        """In step: neither arm lifts before both have grasped."""
        ready: set[str] = set()
        return {side: self.carry(drivers[side], ready) for side in SIDES}

    def carry(self, hand: Driver, ready: set[str]) -> Script:
        """Grasp, wait for the other, lift and shift at one tempo."""
        yield from take(hand, self.thing, lift=0.0, near=self.near)
        ready.add(hand.side)
        yield from hand.wait(lambda: len(ready) == len(SIDES))
        for shift in (self.height * UP, np.array([*self.ways[self.way], 0])):
            start = hand.position.copy()
            steps = max(1, round(_STEPS_PER_METRE * float(np.linalg.norm(shift))))
            for step in range(1, steps + 1):
                share = step / steps
                hand.position = start + share**3 * (10 - 15 * share + 6 * share**2) * shift
                yield
        yield from hand.wait(seconds=0.4)

    def succeeded(self) -> bool:
        """Level, up, held by both, and where it should be."""
        goal = self.thing.xy + self.ways[self.way]
        moved = math.dist(self.world.position(self.thing.name)[:2], goal) < 0.015
        held = all(self.world.pads(side, self.thing.name) == 2 for side in SIDES)
        up = self.world.position(self.thing.name)[2] + self.thing.low > 0.04
        return moved and held and up and self.world.up(self.thing.name) > 0.97


class Assist(Skill):
    """One arm holds the tray still while the other puts a thing in."""

    name = "assist"
    templates = (
        "Hold {goal} with the {holder} arm and put {thing} into it with the {side} arm",
        "Put {thing} into {goal} with the {side} arm while the {holder} arm holds it",
    )

    def lay(self) -> None:
        """The tray in the middle, the thing on the side of the arm that works."""
        self.side = str(self.rng.choice(SIDES, p=[0.65, 0.35]))
        self.holder = next(side for side in SIDES if side != self.side)
        sign = OUTER[self.side]
        middle = sorted((-sign * 0.02, -sign * 0.12))
        zone = ((0.25, 0.38), (middle[0], middle[1]))
        self.goal = self.playground.add(self.rng, "tray", zone, reach=SIDES, turn=0.3)
        self.thing = self.playground.add(
            self.rng, ("block", "cylinder"), _OWN[self.side], reach=[self.side], largest=(0.03, 0.024, 0.04)
        )
        self.offset = sign * (self.goal.half[1] - 0.05)

    def words(self) -> dict[str, str]:
        """Who does what."""
        return {"goal": self.goal.words, "thing": self.thing.words, "side": self.side, "holder": self.holder}

    def scripts(self, drivers: Drivers) -> Scripts:
        """The holder stays until the thing is in."""
        done: set[str] = set()
        return {self.holder: self.hold(drivers[self.holder], done), self.side: self.work(drivers[self.side], done)}

    def hold(self, hand: Driver, done: set[str]) -> Script:
        """Grasp the wall and keep it."""
        yield from take(hand, self.goal, lift=0.0)
        done.add("held")
        yield from hand.wait(lambda: "in" in done)

    def work(self, hand: Driver, done: set[str]) -> Script:
        """Put the thing in once the tray is held."""
        yield from hand.wait(lambda: "held" in done, at_most=1.0)
        yield from pick_and_put(hand, self.thing, self.goal, self.offset)
        done.add("in")

    def succeeded(self) -> bool:
        """It rests in the tray, which is still held."""
        inside = rests_on(self, self.thing, self.goal) and self.world.pads(self.side, self.thing.name) == 0
        return inside and self.world.pads(self.holder, self.goal.name) == 2


class PlacePair(Skill):
    """One arm after the other puts its own thing into the tray or onto the pad between them."""

    name = "place_pair"
    templates = (
        "Put {first} and then {second} {on} {goal}",
        "Place {first} {on} {goal}, then {second}",
        "Put {first} {on} {goal} with the {side} arm, then {second} with the other arm",
    )

    def lay(self) -> None:
        """The goal in the middle, one thing on either side."""
        self.side = str(self.rng.choice(SIDES))
        self.goal = self.playground.add(self.rng, ("tray", "pad"), ((0.25, 0.40), (-0.03, 0.03)), reach=SIDES, turn=0.3)
        small = (0.022, 0.019, 0.04)
        self.things = {
            side: self.playground.add(self.rng, ("block", "cylinder"), _OWN[side], reach=[side], largest=small)
            for side in SIDES
        }

    def words(self) -> dict[str, str]:
        """In the order of the arms."""
        second = next(side for side in SIDES if side != self.side)
        return {
            "first": self.things[self.side].words,
            "second": self.things[second].words,
            "goal": self.goal.words,
            "on": "on" if self.goal.kind == "pad" else "in",
            "side": self.side,
        }

    def scripts(self, drivers: Drivers) -> Scripts:
        """Both take at once; the second puts when the first has let go."""
        done: set[str] = set()
        return {side: self.put(drivers[side], done) for side in SIDES}

    def put(self, hand: Driver, done: set[str]) -> Script:
        """Take the hand's thing, put it on its own half in its turn, and make room for the other."""
        yield from take(hand, self.things[hand.side], lift=0.10)
        if hand.side != self.side:
            yield from hand.wait(lambda: self.side in done)
        yield from put(hand, self.things[hand.side], self.goal, OUTER[hand.side] * 0.5 * self.goal.half[1])
        done.add(hand.side)
        if hand.side == self.side:
            yield from hand.home()

    def succeeded(self) -> bool:
        """Both rest there."""
        bounds = np.array(self.goal.half[:2])
        for thing in self.things.values():
            point = self.world.to_body(self.goal.name, self.world.position(thing.name))
            if not (self.free_of(thing) and np.all(np.abs(point[:2]) < bounds)):
                return False
        return True


def held_up(skill: Skill, side: str, thing: Prop) -> bool:
    """Whether a hand holds a thing clear of the table."""
    return skill.world.position(thing.name)[2] + thing.low > 0.04 and skill.world.pads(side, thing.name) == 2

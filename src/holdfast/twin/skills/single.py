"""Skills of one arm: reach, press, lift, set down, place, stack."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from holdfast.embodiments.piper_x import TCP_TO_TIP
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.skills.playground import ZONES
from holdfast.twin.skills.skill import GRASPABLE, Skill, carry, grasp, lower, release, take
from holdfast.twin.skills.toys import DOME, TRAVEL, Prop

_CARRY = 0.11  # how high things are carried


class Reach(Skill):
    """Hold the open hand over a thing."""

    name = "reach"
    templates = ("Reach for {thing}", "Move over {thing}", "Go to {thing}")

    def lay(self) -> None:
        """One thing of any kind that can be grasped."""
        self.thing = self.playground.add(self.rng, GRASPABLE, ZONES[self.side], reach=self.arms)
        self.above = float(self.rng.uniform(0.03, 0.06))
        self.goal: np.ndarray = np.zeros(3)

    def words(self) -> dict[str, str]:
        """The thing."""
        return {"thing": self.thing.words}

    def scripts(self, drivers: Drivers) -> Scripts:
        """Go there, as if to grasp."""
        return {self.side: self.reach(drivers[self.side])}

    def reach(self, hand: Driver) -> Script:
        """Above where a grasp would be."""
        point, yaw, opening = grasp(hand, self.thing)
        self.goal = point + self.above * UP
        yield from hand.move(self.goal + 0.04 * UP, hand.down(self.goal, yaw), opening=opening)
        yield from hand.move(self.goal, speed=0.12)
        yield from hand.wait(seconds=0.5)

    def succeeded(self) -> bool:
        """The hand is there, the thing where it was."""
        stayed = math.dist(self.world.position(self.thing.name)[:2], self.thing.xy) < 0.01
        return stayed and float(np.linalg.norm(self.world.tcp(self.side)[0] - self.goal)) < 0.008


class Press(Skill):
    """Push a knob's dome down with closed fingers."""

    name = "press"
    templates = ("Press {thing}", "Push {thing} down", "Press down on {thing}")

    def lay(self) -> None:
        """A knob, sometimes two."""
        self.thing = self.playground.add(self.rng, "knob", ZONES[self.side], reach=self.arms)
        if self.rng.random() < 0.5:
            self.playground.add(self.rng, "knob", ZONES["table"])
        self.pressed = False

    def words(self) -> dict[str, str]:
        """The knob."""
        return {"thing": self.thing.words}

    def scripts(self, drivers: Drivers) -> Scripts:
        """Press once."""
        return {self.side: self.press(drivers[self.side])}

    def press(self, hand: Driver) -> Script:
        """Close the fingers on the way, press, and rise."""
        yield from press(hand, self.thing)
        self.pressed = is_down(hand, self.thing)
        yield from hand.move(hand.position + 0.06 * UP, speed=0.15)
        yield from hand.wait(seconds=0.2)

    def succeeded(self) -> bool:
        """It was down."""
        return self.pressed


class Lift(Skill):
    """Grasp a thing and hold it up."""

    name = "lift"
    templates: ClassVar[tuple[str, ...]] = (
        "Lift {thing}",
        "Pick up {thing}",
        "Raise {thing}",
        "Grasp {thing} and lift it",
    )

    def lay(self) -> None:
        """One thing."""
        self.thing = self.playground.add(self.rng, GRASPABLE, ZONES[self.side], reach=self.arms)
        self.height = float(self.rng.uniform(0.07, 0.13))
        self.raised = False

    def words(self) -> dict[str, str]:
        """The thing."""
        return {"thing": self.thing.words}

    def scripts(self, drivers: Drivers) -> Scripts:
        """Take it, and keep it."""
        return {self.side: self.lift(drivers[self.side])}

    def lift(self, hand: Driver) -> Script:
        """Raise and hold."""
        yield from take(hand, self.thing, self.height)
        yield from hand.wait(seconds=0.4)

    def succeeded(self) -> bool:
        """It is up and held."""
        up = self.world.position(self.thing.name)[2] + self.thing.low > self.height - 0.03
        return up and self.world.pads(self.side, self.thing.name) == 2


class SetDown(Lift):
    """Lift a thing, and put it back gently."""

    name = "set_down"
    templates = ("Lift {thing} and set it down again", "Pick up {thing} and put it back", "Raise {thing} and lower it")

    def lift(self, hand: Driver) -> Script:
        """Up, down, away."""
        yield from take(hand, self.thing, self.height)
        self.raised = self.world.pads(self.side, self.thing.name) == 2
        yield from hand.wait(seconds=0.15)
        yield from lower(hand, self.thing, 0.0)
        yield from release(hand, self.thing)

    def succeeded(self) -> bool:
        """It was up, and stands where it stood."""
        moved = math.dist(self.world.position(self.thing.name)[:2], self.thing.xy)
        return self.raised and self.free_of(self.thing) and moved < 0.02


class Place(Skill):
    """Put a thing onto a pad or into a tray."""

    name = "place"
    templates = (
        "Put {thing} {on} {goal}",
        "Place {thing} {on} {goal}",
        "Move {thing} {on} {goal}",
        "Pick up {thing} and put it {on} {goal}",
    )

    def lay(self) -> None:
        """A pad or a tray, and a thing that fits."""
        pad = self.rng.random() < 0.6
        self.goal = self.playground.add(
            self.rng, "pad" if pad else ("tray", "bin"), ZONES[self.side], reach=self.arms, turn=math.pi if pad else 0.5
        )
        self.thing = self.playground.add(
            self.rng,
            GRASPABLE if pad else ("block", "cylinder"),
            ZONES[self.side],
            reach=self.arms,
            largest=(0.034, 0.027, 0.045),
        )

    def words(self) -> dict[str, str]:
        """Thing and goal."""
        onto = "on" if self.goal.kind == "pad" else str(self.rng.choice(["in", "into"]))
        return {"thing": self.thing.words, "goal": self.goal.words, "on": onto}

    def scripts(self, drivers: Drivers) -> Scripts:
        """Pick, carry, put, let go."""
        return {self.side: pick_and_put(drivers[self.side], self.thing, self.goal)}

    def succeeded(self) -> bool:
        """It rests there, and no hand is on it."""
        return self.free_of(self.thing) and rests_on(self, self.thing, self.goal)


class Stack(Skill):
    """Put a block or cylinder on a block."""

    name = "stack"
    templates = ("Stack {thing} on {goal}", "Put {thing} on top of {goal}", "Place {thing} onto {goal}")

    def lay(self) -> None:
        """A broad block below."""
        self.goal = self.playground.add(self.rng, "block", ZONES[self.side], reach=self.arms)
        self.thing = self.playground.add(
            self.rng, ("block", "cylinder"), ZONES[self.side], reach=self.arms, largest=(0.028, 0.024, 0.030)
        )

    def words(self) -> dict[str, str]:
        """Upper and lower."""
        return {"thing": self.thing.words, "goal": self.goal.words}

    def scripts(self, drivers: Drivers) -> Scripts:
        """Pick, carry, put, let go."""
        return {self.side: pick_and_put(drivers[self.side], self.thing, self.goal)}

    def succeeded(self) -> bool:
        """It stands on top."""
        upper, under = self.world.position(self.thing.name), self.world.position(self.goal.name)
        on = abs(upper[2] - under[2] - self.thing.half[2] - self.goal.half[2]) < 0.004
        return on and math.dist(upper[:2], under[:2]) < 0.02 and self.free_of(self.thing)


def press(hand: Driver, knob: Prop) -> Script:
    """Bring closed fingers onto a knob and push it down."""
    dome = hand.world.position(knob.name) + (knob.height + DOME) * UP
    rotation = hand.down(dome, yaw=0.0, also=[dome + 0.08 * UP])
    top = dome - TCP_TO_TIP * rotation[:, 2]  # the fingertips on the middle of the dome, for any tilt of the hand
    yield from hand.move(top + 0.06 * UP, rotation, opening=0.0)
    yield from hand.move(top + 0.01 * UP, speed=0.15)
    yield from hand.move(top - TRAVEL * UP, speed=0.06)
    yield from hand.wait(seconds=0.2)


def is_down(hand: Driver, knob: Prop) -> bool:
    """Whether a knob is pressed."""
    return hand.world.joint(f"{knob.name}_dome") < -0.6 * TRAVEL


def pick_and_put(hand: Driver, thing: Prop, goal: Prop, offset: float = 0.0) -> Script:
    """Grasp a thing and put it on or in a goal."""
    yield from take(hand, thing, _CARRY)
    yield from put(hand, thing, goal, offset)


def put(hand: Driver, thing: Prop, goal: Prop, offset: float = 0.0) -> Script:
    """Put a held thing on or in a goal (`offset` along its y from the middle), let go and rise."""
    where = hand.world.to_world(goal.name, [0, offset, 0])
    yield from carry(hand, thing, where[:2])
    inside = {"pad": 0.0, "tray": 0.004, "bin": 0.004}.get(goal.kind, goal.low + goal.height)
    yield from lower(hand, thing, where[2] + inside)
    yield from release(hand, thing)


def rests_on(skill: Skill, thing: Prop, goal: Prop) -> bool:
    """Whether a thing stands on a pad or in a tray."""
    x, y, z = skill.world.to_body(goal.name, skill.world.to_world(thing.name, [0, 0, thing.low]))
    near = 0.02 if goal.kind == "pad" else max(goal.half[1] - 0.02, 0.02)
    return abs(x) < max(goal.half[0] - 0.02, 0.02) and abs(y) < near and abs(z) < 0.008

"""Skills of one arm: reach, press, lift, set down, place, stack, push."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from holdfast.twin.arm import TCP_TO_TIP
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.skills.playground import ZONES
from holdfast.twin.skills.skill import GRASPABLE, Skill, carry, grasp, lower, release, take, unturned
from holdfast.twin.skills.toys import DOME, TRAVEL, Prop

_PAD_FACE, _PAD_WIDTH = 0.008, 0.011  # from the middle of closed pads to their outer face, and half its width
_CARRY = 0.11  # how high things are carried
_SEGMENT, _NEAR_ENOUGH, _PUSH_HEIGHT = 0.07, 0.012, 0.034


class Reach(Skill):
    """Hold the open hand over a thing."""

    name = "reach"
    templates = ("Reach for {thing}", "Move over {thing}", "Go to {thing}")

    def lay(self) -> None:
        """One thing of any kind that can be grasped."""
        self.thing = self.playground.add(self.rng, GRASPABLE, ZONES[self.side], reach=self.arms)
        self.above = float(self.rng.uniform(0.03, 0.06))

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


class Push(Skill):
    """Push a crate along the table with closed fingers."""

    name = "push"
    templates = ("Push {thing} to {goal}", "Push {thing} onto {goal}", "Slide {thing} to {goal}")

    def lay(self) -> None:
        """A crate, one of its faces roughly turned away from the pad, and nothing on the way."""
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
        """Come down behind it and push, aiming anew after every segment."""
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
        """The crate's middle at pushing height, the way to the pad, its length, and how far behind the pads touch."""
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


def press(hand: Driver, knob: Prop) -> Script:
    """Bring closed fingers onto a knob and push it down."""
    top = hand.world.position(knob.name) + (knob.height + DOME + TCP_TO_TIP) * UP
    above = top + 0.06 * UP
    yield from hand.move(above, hand.down(above, yaw=0.0, also=[top - TRAVEL * UP]), opening=0.0)
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


def _angle(way: np.ndarray) -> float:
    return math.atan2(way[1], way[0])


def _across(ahead: np.ndarray) -> float:
    """The yaw of a hand whose outer pad lies flat against what it pushes ahead."""
    return _angle(ahead) - math.pi / 2

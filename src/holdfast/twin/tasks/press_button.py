"""Press button (left arm): push the green button down with the closed fingers."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from holdfast.embodiments.piper_x import TCP_TO_TIP
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.objects import BOX, CYLINDER, DRAWN, SOLID, add_material, fixed_body
from holdfast.twin.task import Scorer, Spread, TwinTask

BUTTON, SPREAD = (0.32, 0.18), 0.065
TOP = 0.014  # of the cap above its own origin
TRAVEL, ACTIVE = 0.010, 0.006


class PressButton(TwinTask):
    """A spring button in a box."""

    name = "press_button"
    max_steps = 240
    readings = (
        "Fit for pressing: the hand points down, its fingertips within 2 cm of the button's axis, below 15 cm.",
        "The distance is measured from between the fingertips to the middle of the button's top.",
        "A button that was pressed was near, even if one finger of an open hand did it.",
    )

    @staticmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """A box that stands still, with a green cap on a spring."""
        add_material(spec, "housing", (0.85, 0.72, 0.10))
        add_material(spec, "cap", (0.06, 0.62, 0.20), gloss=0.6)
        housing = fixed_body(spec, "housing", [*BUTTON, 0])
        housing.add_geom(type=BOX, size=[0.035, 0.035, 0.012], pos=[0, 0, 0.012], material="housing", **SOLID)
        housing.add_geom(type=CYLINDER, size=[0.023, 0.002, 0], pos=[0, 0, 0.025], material="black", **DRAWN)
        cap = housing.add_body(name="cap", pos=[0, 0, 0.024], gravcomp=1)
        cap.add_joint(
            name="cap",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[0, 0, 1],
            range=[-TRAVEL, 0],
            limited=1,
            stiffness=[300, 0, 0],
            damping=[2, 0, 0],
            springref=0.002,
            armature=0.01,
        )
        cap.add_geom(type=CYLINDER, size=[0.017, 0.008, 0], pos=[0, 0, TOP - 0.008], material="cap", mass=0.02, **SOLID)

    def place(self, spread: Spread) -> None:
        """The box is shifted but not turned."""
        self.world.place("housing", spread.xy(BUTTON, SPREAD))

    def scorer(self) -> PressButtonScorer:
        """A fresh scorer."""
        return PressButtonScorer(self.world, self.record)

    def scripts(self, drivers: Drivers) -> Scripts:
        """Only the left arm moves."""
        return {"left": self.press(drivers["left"])}

    def press(self, hand: Driver) -> Script:
        """Close the fingers on the way, press, and rise."""
        top = self.world.to_world("cap", [0, 0, TOP]) + TCP_TO_TIP * UP
        yield from self.approach(hand, height=0.06)
        yield from hand.move(top + 0.01 * UP, speed=0.15)
        yield from hand.move(top - 0.012 * UP, speed=0.05)
        yield from hand.wait(seconds=0.2)
        yield from hand.move(top + 0.06 * UP, speed=0.15)
        yield from hand.wait(seconds=0.3)

    def approach(self, hand: Driver, height: float) -> Script:
        """Bring the closed fingertips to a height above the button."""
        goal = self.world.to_world("cap", [0, 0, TOP + height]) + TCP_TO_TIP * UP
        yield from hand.move(goal, hand.down(goal, yaw=0.0), opening=0.0)


class PressButtonScorer(Scorer):
    """Scores press_button."""

    def check(self) -> bool:
        """Check the fingertips and the cap."""
        position, rotation = self.world.tcp("left")
        tip = position + TCP_TO_TIP * rotation[:, 2]
        top = self.world.to_world("cap", [0, 0, TOP])
        points_down = rotation[2, 2] < -0.85
        self.reach("aligned", math.dist(tip[:2], top[:2]) < 0.02 and points_down and tip[2] < 0.15)
        pressed = self.world.joint("cap") < -ACTIVE
        self.reach("near", pressed or float(np.linalg.norm(tip - top)) < 0.03)  # one finger of an open hand may press
        self.reach("pressed", pressed)
        return self.has("pressed")

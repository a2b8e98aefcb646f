"""One attempt at a task, as a story: look, ask ahead, take the next action, pass it through the limits, send it.

Steps go on at the robot's rate whatever the policy does: a step without an action holds the last command. An answer
that is late beyond its deadline, or a server that is gone, stops the arms in the same step.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np

from holdfast.core.observation import Observation, Question
from holdfast.core.records import Task
from holdfast.robots.action_queue import ActionQueue
from holdfast.robots.async_client import AsyncClient
from holdfast.robots.client import UnansweredError
from holdfast.robots.keys import GO, QUIT, Keys
from holdfast.robots.limits import Command, Limits
from holdfast.robots.robot import FaultError, Robot

WAITED = "no action yet"
type Ended = Literal["over", "time", "operator", "quit", "unanswered", "fault"]
type See = Callable[[Observation, Command], None]


@dataclass(frozen=True)
class Conduct:
    """How an attempt is run.

    `horizon` and `ahead` are explained in `plan.py`. Without `realtime` a simulated robot waits for every answer and
    for nothing else, so an attempt is a function of its seed, the weights and these numbers.
    """

    task: Task
    horizon: int
    ahead: int
    seconds: float
    realtime: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, and what happened on the way."""

    ended: Ended
    why: str
    steps: int
    limited: dict[str, int]  # control steps that each rule of the limits changed
    slow: int  # control steps that took longer than they should
    stopped_after: float = 0.0  # seconds from the deadline of an answer to the stop


class Pace:
    """Keeps control steps apart, and counts those that came too late."""

    def __init__(self, rate: int) -> None:
        self._period, self.slow = 1 / rate, 0

    def begin(self) -> None:
        """The first step is now."""
        self._due = time.monotonic()

    def wait(self) -> None:
        """Sleep until the next step; one that is late moves those after it, so that no two follow in haste."""
        self._due += self._period
        left = self._due - time.monotonic()
        if left > 0:
            time.sleep(left)
        else:
            self._due -= left
            self.slow += 1


class ControlLoop:
    """An attempt in the making."""

    def __init__(
        self, robot: Robot, asker: AsyncClient, limits: Limits, conduct: Conduct, keys: Keys, see: See
    ) -> None:
        """Prepare; `run` moves the arms.

        Args:
            robot: A robot that has begun.
            asker: Where actions come from.
            limits: What the robot may be told.
            conduct: How.
            keys: The operator's.
            see: Is shown what was seen and told at every step.
        """
        self._robot, self._asker, self._limits = robot, asker, limits
        self._conduct, self._keys, self._see = conduct, keys, see
        self._plan, self._pace = ActionQueue(conduct.horizon, conduct.ahead), Pace(robot.rate)
        self._limited: Counter[str] = Counter()
        self._steps = self._asked = 0

    def run(self) -> Outcome:
        """From the first look to the arms at rest."""
        try:
            ended, why = self._act()
            self._robot.stop()
            return self._outcome(ended, why)
        except UnansweredError as error:
            self._robot.stop()
            return self._outcome("unanswered", str(error), max(0.0, self._asker.overdue()))
        except FaultError as error:
            self._robot.stop()
            return self._outcome("fault", str(error))
        except BaseException:
            self._robot.stop()
            raise
        finally:
            self._asker.forget()

    def _act(self) -> tuple[Ended, str]:
        seen = self._robot.observe()
        command = self._limits.start(seen.state)
        # Not the latest measured pose: an arm sags a little, and would creep down from step to step.
        start, arms = command.pose, self._conduct.task.arms
        for step in count():
            self._steps = step
            if (end := self._end()) is not None:
                return end
            wanted = self._wanted(seen)
            if step == 0:
                self._pace.begin()
            if wanted is None:
                command = self._limits.hold(command, WAITED)
            else:
                wanted = self._robot.embodiment.hold(wanted, start, arms)
                command = self._limits.step(command, seen.state, wanted)
            self._robot.send(command.pose)
            self._limited.update(command.reasons.keys())
            self._see(seen, command)
            if self._conduct.realtime:
                self._pace.wait()
            seen = self._robot.observe()
        raise AssertionError("steps end with a reason")

    def _end(self) -> tuple[Ended, str] | None:
        key = self._keys.pressed()
        if key in QUIT:
            return "quit", "Stopped by key."
        if key == GO:
            return "operator", "The operator said that it is over."
        if self._robot.over:
            return "over", ""
        if self._steps >= self._conduct.seconds * self._robot.rate:
            return "time", "The time was up."
        return None

    def _wanted(self, seen: Observation) -> np.ndarray | None:
        """The action of this step, where there is one. Only while the arms have not moved yet is it worth waiting."""
        plan, conduct = self._plan, self._conduct
        if plan.due and not self._asker.asking:
            self._asker.ask(plan.step, Question(conduct.task, seen.state, seen.images, conduct.seed, self._asked))
            self._asked += 1
        patient = plan.step == 0 or not conduct.realtime
        while (answer := self._asker.answer()) is None and self._asker.asking and patient and plan.needy:
            time.sleep(0.0005)
        if answer is not None:
            plan.put(*answer)
        return plan.take()

    def _outcome(self, ended: Ended, why: str, stopped_after: float = 0.0) -> Outcome:
        return Outcome(ended, why, self._steps, dict(self._limited), self._pace.slow, stopped_after)


def bring(robot: Robot, limits: Limits, pose: np.ndarray, keys: Keys, seconds: float = 30.0) -> bool:
    """Take a robot to a pose at a quarter of its speed; false where a key or the time stopped it on the way."""
    slow = np.array([d.fastest for d in robot.embodiment.dimensions]) / 4
    command, pace, settled = limits.start(robot.observe().state), Pace(robot.rate), 0
    pace.begin()
    for _ in range(int(seconds * robot.rate)):
        settled = settled + 1 if np.allclose(command.pose, pose, atol=1e-6) else 0
        if settled > robot.rate / 2:  # half a second, in which the arms come to rest
            return True
        if keys.pressed():
            break
        wanted = command.pose + np.clip(pose - command.pose, -slow, slow)
        command = limits.step(command, robot.observe().state, wanted)
        robot.send(command.pose)
        pace.wait()
    robot.stop()
    return False

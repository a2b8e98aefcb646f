"""One attempt at a task. Each control step: observe, ask ahead, take the next action, pass it through the limits, send.

Steps keep to the robot's rate whatever the policy does: a step without an action holds the last command. When an answer
misses its deadline or the server is gone, the arms stop in the same step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np

from holdfast.core.clock import STEADY, Clock
from holdfast.core.observation import Observation, Question
from holdfast.core.records import Task
from holdfast.policies.action_queue import ActionQueue, IdleArms
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

    `ActionQueue` explains `horizon` and `ahead`. Without `realtime` the loop waits for every answer and does not keep
    to the robot's rate, so an attempt in a simulator depends on the seed, the weights and these settings alone.
    """

    task: Task
    horizon: int
    ahead: int
    seconds: float
    realtime: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended."""

    ended: Ended
    why: str
    steps: int
    limited: dict[str, int]  # rule of the limits -> control steps it changed
    slow: int  # control steps that took longer than a period
    stopped_after: float = 0.0  # seconds from the deadline of an answer to the stop


class Pace:
    """Keeps control steps a period apart, and counts the slow ones."""

    def __init__(self, rate: int, clock: Clock) -> None:
        self._period, self._clock, self.slow = 1 / rate, clock, 0

    def begin(self) -> None:
        """The first step starts now."""
        self._due = self._clock.now()

    def wait(self) -> None:
        """Sleep until the next step. A late step delays the ones after it, so that they do not bunch up."""
        self._due += self._period
        left = self._due - self._clock.now()
        if left > 0:
            self._clock.sleep(left)
        else:
            self._due -= left
            self.slow += 1


class ControlLoop:
    """Runs one attempt."""

    def __init__(
        self,
        robot: Robot,
        client: AsyncClient,
        limits: Limits,
        conduct: Conduct,
        keys: Keys,
        see: See,
        clock: Clock = STEADY,
    ) -> None:
        """Prepare; `run` moves the arms.

        Args:
            robot: The robot, after `begin`.
            client: Where actions come from.
            limits: Which commands the robot may be sent.
            conduct: How the attempt is run.
            keys: The operator's keys.
            see: Called at every step with the observation and the command.
            clock: Keeps the robot's rate.
        """
        self._robot, self._client, self._limits = robot, client, limits
        self._conduct, self._keys, self._see = conduct, keys, see
        self._clock, self._pace = clock, Pace(robot.rate, clock)
        self._limited: Counter[str] = Counter()
        self._steps = self._asked = 0

    def run(self) -> Outcome:
        """Act until the attempt ends, then stop the arms."""
        try:
            ended, why = self._act()
            self._robot.stop()
            return self._outcome(ended, why)
        except UnansweredError as error:
            self._robot.stop()
            return self._outcome("unanswered", str(error), max(0.0, self._client.overdue()))
        except FaultError as error:
            self._robot.stop()
            return self._outcome("fault", str(error))
        except BaseException:
            self._robot.stop()
            raise
        finally:
            self._client.forget()

    def _act(self) -> tuple[Ended, str]:
        seen = self._robot.observe()
        command = self._limits.start(seen.state)
        # Idle arms hold this pose. The latest measured one would let them creep down, because an arm sags a little.
        idle = IdleArms(self._robot.embodiment, command.pose, self._conduct.task.arms)
        self._queue = ActionQueue(self._conduct.horizon, self._conduct.ahead, idle)
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
        """The action of this step, if there is one. In real time only the first one is waited for."""
        queue, conduct = self._queue, self._conduct
        if queue.due and not self._client.asking:
            self._client.ask(queue.step, Question(conduct.task, seen.state, seen.images, conduct.seed, self._asked))
            self._asked += 1
        patient = queue.step == 0 or not conduct.realtime
        while (answer := self._client.answer()) is None and self._client.asking and patient and queue.needy:
            self._clock.sleep(0.0005)
        if answer is not None:
            queue.put(*answer)
        return queue.take()

    def _outcome(self, ended: Ended, why: str, stopped_after: float = 0.0) -> Outcome:
        return Outcome(ended, why, self._steps, dict(self._limited), self._pace.slow, stopped_after)


def bring(
    robot: Robot, limits: Limits, pose: np.ndarray, keys: Keys, seconds: float = 30.0, clock: Clock = STEADY
) -> bool:
    """Move a robot to a pose at a quarter of its speed; False if a key or the time limit stopped it."""
    slow = np.array([d.fastest for d in robot.embodiment.dimensions]) / 4
    command, pace, settled = limits.start(robot.observe().state), Pace(robot.rate, clock), 0
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

"""An episode of an arena, scored at every step by the caller's rubric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from holdfast import rubric
from holdfast.arenas.arena import ActingPolicy, Arena, ArenaError
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.core.records import Reached, Task, Trial

FULL = 100.0


class ScoredEpisode:
    """One opened task of an arena, with its rubric; runs one episode after the other.

    Evaluation, videos, recordings and simulated robots all step an arena through this class.
    """

    def __init__(self, arena: Arena, task: Task) -> None:
        """Open the task.

        Args:
            arena: The arena of the task.
            task: Its name is the arena's; its instruction and rubric are the caller's, usually those of a run.
        """
        self._known = {milestone.name for milestone in arena.task(task.name).milestones}
        self._limit = arena.max_steps(task.name)
        self.arena, self.task = arena, task
        with self._explained("open"):
            self.environment = arena.open(task.name)

    def begin(self, seed: int, level: str) -> None:
        """Start an episode."""
        self.seed, self.level, self.steps = seed, self.arena.level(level), 0
        self._frames_left = 0  # drawn, and not returned yet
        self.times: dict[str, float] = {}
        with self._explained("reset"):
            self.environment.reset(seed, self.level)
        self.reached: Reached = self._reached()

    def step(self, action: np.ndarray) -> None:
        """Take one control step and update what was reached."""
        if not self._is_action(action):
            wanted = f"{len(self.arena.action)} numbers"
            raise HoldfastError(f"An action of the arena {self.arena.name!r} is {wanted}, got {action!r}.")
        with self._explained("step"):
            self.environment.step(action)
        self.steps += 1
        self.reached = self._reached()
        for milestone in self.reached.milestones:
            self.times.setdefault(milestone, self.seconds)

    def policy(self, name: str, seed: int | None) -> ActingPolicy:
        """A scripted policy of the arena in the episode, which has just begun. What it gets wrong, the arena does."""
        with self._explained("policy"):
            return _ScriptedPolicy(partial(self._act, self.arena.policy(name, self.environment, seed)))

    def _act(self, policy: ActingPolicy) -> np.ndarray | None:
        with self._explained("act"):
            action = policy.act()
            if action is not None and not self._is_action(action):
                raise self._failure("act", f"an action must be {len(self.arena.action)} numbers, got {action!r}")
        return action

    def observe(self, size: tuple[int, int] | None = None, cameras: Sequence[str] = ()) -> Observation:
        """The environment's observation, checked."""
        with self._explained("observe"):
            seen = self.environment.observe(size, cameras)
            if np.shape(seen.state) != (len(self.arena.state),) or not np.isfinite(seen.state).all():
                wanted = f"{len(self.arena.state)} numbers"
                raise self._failure("observe", f"the state must be {wanted}, got {seen.state!r}")
            if size:
                self._check_images("observe", seen.images, size, cameras)
        return seen

    def draw_frame(self, size: tuple[int, int]) -> list[dict[str, np.ndarray]]:
        """Draw what all cameras see, for a recording. Returns the frames that are ready, checked."""
        with self._explained("draw_frame"):
            frames = self.arena.draw_frame(self.environment, size)
            self._check_frames("draw_frame", frames, size)
        self._frames_left += 1 - len(frames)
        return frames

    def last_frames(self, size: tuple[int, int]) -> list[dict[str, np.ndarray]]:
        """The frames that `draw_frame` has not returned, checked."""
        with self._explained("last_frames"):
            frames = self.arena.last_frames(self.environment, size)
            self._check_frames("last_frames", frames, size)
        if len(frames) != self._frames_left:
            raise self._failure("last_frames", f"{self._frames_left} frames were left, {len(frames)} were returned")
        self._frames_left = 0
        return frames

    def show(self, size: tuple[int, int]) -> dict[str, np.ndarray]:
        """What all cameras see, drawn for people."""
        with self._explained("show"):
            return self.arena.show(self.environment, size)

    def film(self) -> np.ndarray:
        """A picture of a video, checked."""
        with self._explained("film"):
            picture = self.arena.film(self.environment)
            self._check_images("film", {"video": picture}, picture.shape[:2], ["video"])
        return picture

    def _is_action(self, action: np.ndarray) -> bool:
        return np.shape(action) == (len(self.arena.action),) and bool(np.isfinite(action).all())

    def _check_frames(self, doing: str, frames: Sequence[Mapping[str, np.ndarray]], size: tuple[int, int]) -> None:
        for images in frames:
            self._check_images(doing, images, size, self.arena.cameras)

    def _check_images(
        self, doing: str, images: Mapping[str, np.ndarray], size: tuple[int, ...], cameras: Sequence[str]
    ) -> None:
        for name in cameras:
            shape, kind = np.shape(images[name]), images[name].dtype
            if shape != (*size, 3) or kind != np.uint8:
                wanted = f"uint8 {(*size, 3)}"
                raise self._failure(doing, f"the image of {name!r} must be {wanted}, got {kind} {shape}")

    def _reached(self) -> Reached:
        with self._explained("reached"):
            reached = self.environment.reached()
            strange = set(reached.milestones) - self._known
        if strange:
            raise self._failure("reached", f"{sorted(strange)} are not milestones of its task")
        return reached

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Turn whatever a simulator raises into an error that names the arena."""
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:
            raise self._failure(doing, f"{type(error).__name__}: {error}") from error

    def _failure(self, doing: str, reason: str) -> ArenaError:
        return ArenaError(
            f"The arena {self.arena.name!r} failed in {doing}() of task {self.task.name!r}: {reason}. Test it with "
            "`holdfast arena check`."
        )

    @property
    def seconds(self) -> float:
        """Simulated time since the episode began."""
        return self.steps / self.arena.rate

    @property
    def score(self) -> float:
        """The score so far, 0 to 100."""
        return rubric.score_reached(self.task, self.reached)

    @property
    def done(self) -> bool:
        """Whether the score is full, so that a policy has nothing left to do."""
        return self.score >= FULL

    @property
    def over(self) -> bool:
        """Whether the arena ends the episode: the time is up, or it cannot go on."""
        with self._explained("over"):
            return self.steps >= self._limit or bool(self.environment.over)

    def trial(self, stage: int = 0) -> Trial:
        """The episode so far as a trial of stage `stage`."""
        return Trial(
            task=self.task.name,
            stage=stage,
            milestones=self.reached.milestones,
            penalties=self.reached.penalties,
            final=self.reached.final,
            source=self.arena.name,
            seed=self.seed,
            level=self.level,
            times=dict(self.times),
            seconds=self.seconds,
            score=self.score,
        )

    def close(self) -> None:
        """Close the environment. If that fails no result depends on it, and an earlier failure says more."""
        with suppress(Exception):
            self.environment.close()


@dataclass(frozen=True)
class _ScriptedPolicy:
    """A scripted policy in an episode."""

    act: Callable[[], np.ndarray | None]

"""A saved policy that acts: from a robot's observation to the actions it executes next.

Questions of several robots are answered together, but an answer must not depend on the others. So the noise of a chunk
depends only on the attempt's seed and the question's number, and a batch always has the same number of rows: results
computed in batches of different sizes differ in their last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import read_content
from holdfast.core.observation import Question
from holdfast.data.lerobot.source import IMAGES, STATE, camera_name, is_image
from holdfast.norm.strategies import Normalization
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.policies.config import CPU_ROWS, GPU_ROWS
from holdfast.policies.device import fetch, send
from holdfast.policies.saved_folder import NORMALIZATION, load_pipelines, policy_folder

type Answers = Callable[[], list[np.ndarray]]

# What LeRobot's code raises when a saved policy's files do not fit each other or the robot.
_UNFIT = (IndexError, KeyError, RuntimeError, TypeError, ValueError)


class Pilot:
    """A policy with its pre- and post-processing, on one device."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        device: str = "cpu",
        horizon: int | None = None,
        rows: int | None = None,
    ) -> None:
        """Load a policy.

        Args:
            folder: A stage's checkpoint of a run, or any folder of a LeRobot policy.
            names: The robot's dimensions, in order.
            device: Where it computes.
            horizon: Steps of a chunk to execute before asking again, to which answers are cut; None takes what the
                policy was saved with.
            rows: Rows of every batch; None takes what evaluation takes on such a device.
        """
        self._rows = rows
        statistics = folder / NORMALIZATION
        self._folder = policy_folder(folder)
        self._adapter = adapters.load(self._folder, tuple(names), device)
        self._config, self._policy = self._adapter.config, self._adapter.policy
        self._together = hasattr(self._policy, "noise_shape")
        self._normalization = Normalization.from_json(read_content(statistics)) if statistics.exists() else None
        self._free: dict[str, list[tuple[Any, Any]]] = {}  # processors that no batch uses, by task
        if horizon is not None:
            self._set_horizon(horizon)

    @property
    def remembers(self) -> bool:
        """Whether it keeps observations from question to question, so that it can serve only one robot."""
        return bool(self._config.n_obs_steps > 1)

    @property
    def rows(self) -> int:
        """Questions answered at once; fewer are padded."""
        if self.remembers:
            return 1
        return self._rows or (CPU_ROWS if self._config.device == "cpu" else GPU_ROWS)

    @property
    def answer_steps(self) -> int:
        """Actions of an answer: the horizon, since all of them are meant to be executed."""
        return int(self._config.n_action_steps)

    @property
    def cameras(self) -> list[str]:
        """Names of the cameras it reads."""
        return [camera_name(key) for key in self._config.image_features]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images it was trained on."""
        _, height, width = next(iter(self._config.image_features.values())).shape
        return height, width

    def answer(self, questions: Sequence[Question]) -> list[np.ndarray]:
        """Actions (steps, dimensions) for each question, absolute and in the robot's units."""
        return self.begin(questions)()

    def begin(self, questions: Sequence[Question]) -> Answers:
        """Begin to answer. Calling what is returned waits for the answers; until then a GPU computes them alone."""
        with self._explained():
            if not self._together:
                alone = [self._answer_alone(question) for question in questions]
                return lambda: alone
            parts = [
                self._begin_together(questions[first : first + self.rows])
                for first in range(0, len(questions), self.rows)
            ]

        def finish() -> list[np.ndarray]:
            with self._explained():
                return [answer for part in parts for answer in part()]

        return finish

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with torch.no_grad():
                yield
        except _UNFIT as error:
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.200}"
            raise HoldfastError(f"The policy in {self._folder} cannot answer: {reason}") from error

    def _begin_together(self, questions: Sequence[Question]) -> Answers:
        """One forward pass. Tasks may have statistics of their own, so each task's questions are normalized apart.

        Normalization runs on the host: on a GPU that also renders, many small copies would each have to wait.
        """
        places: dict[str, list[int]] = {}
        for place, question in enumerate(questions):
            places.setdefault(question.task.name, []).append(place)
        order = [place for some in places.values() for place in some]
        processors = {name: self._take_processors(name) for name in places}
        parts = [processors[name][0](self._batch([questions[p] for p in some])) for name, some in places.items()]
        # Back in the order of the questions, so that a row's place does not depend on the other tasks.
        back = torch.from_numpy(np.argsort(order))
        batch = {
            key: self._send(torch.cat([part[key] for part in parts])[back], blank=is_image(key))
            for key, value in parts[0].items()
            if isinstance(value, torch.Tensor)
        }
        noise = torch.from_numpy(np.stack([self._noise(question) for question in questions]))
        chunks = fetch(self._policy.predict_action_chunk(batch, noise=self._send(noise)))

        def finish() -> list[np.ndarray]:
            found, answers = chunks(), dict[int, np.ndarray]()
            for name, some in places.items():
                actions = processors[name][1](found[some]).numpy()
                self._free[name].append(processors[name])
                answers |= dict(zip(some, actions[:, : self.answer_steps], strict=True))
            return [answers[place] for place in range(len(questions))]

        return finish

    def _send(self, values: torch.Tensor, blank: bool = False) -> torch.Tensor:
        """Send a row for each question, followed by rows that nobody reads: blank ones, or copies of the last."""
        device = torch.device(self._config.device)
        shape = self.rows, *values.shape[1:]
        rows = torch.empty(shape, dtype=values.dtype, pin_memory=device.type == "cuda")
        rows[: len(values)] = values
        rows[len(values) :] = 0 if blank else values[-1]
        return send(rows, device)

    def _answer_alone(self, question: Question) -> np.ndarray:
        pre, post = processors = self._take_processors(question.task.name)
        self._free[question.task.name].append(processors)
        if question.number == 0:
            self._policy.reset()
        torch.manual_seed(int(np.random.SeedSequence((question.seed, question.number)).generate_state(1)[0]))
        batch = self._batch([question])
        images = {key: pixels.float() / 255 for key, pixels in batch.items() if is_image(key)}
        batch = pre(batch | images)
        if self.remembers:  # such a policy keeps its own queues of observations and actions
            return np.asarray(post(self._policy.select_action(batch)).cpu())
        return np.asarray(post(self._policy.predict_action_chunk(batch))[0, : self.answer_steps].cpu())

    def _noise(self, question: Question) -> np.ndarray:
        rng = np.random.default_rng((question.seed, question.number))
        return rng.standard_normal(self._policy.noise_shape, dtype=np.float32)

    def _take_processors(self, task: str) -> tuple[Any, Any]:
        """Processors for one batch at a time: they remember the states from which its relative actions count."""
        free = self._free.setdefault(task, [])
        return free.pop() if free else self._build_processors(task)

    def _build_processors(self, task: str) -> tuple[Any, Any]:
        """With the checkpoint's statistics for this task, or as they were saved."""
        config = copy(self._config)
        if self._together:
            config.device = "cpu"
        if self._normalization is None:
            return load_pipelines(config, self._folder)
        return transforms.build(config, self._normalization.execute(task))

    def _set_horizon(self, horizon: int) -> None:
        longest = sum(step >= 0 for step in self._adapter.layout.action)
        if not 1 <= horizon <= longest:
            raise HoldfastError(
                f"The policy predicts {longest} steps; a horizon is from 1 to {longest}, got {horizon}."
            )
        self._config.n_action_steps = horizon
        self._policy.reset()  # its queue has a new length

    def _batch(self, questions: list[Question]) -> dict[str, Any]:
        """Questions as a batch, images as uint8."""
        keys = {camera_name(key): key for key in self._config.image_features}
        batch: dict[str, Any] = {
            STATE: torch.from_numpy(np.stack([question.state for question in questions])).float(),
            "task": [question.task.instruction for question in questions],
        }
        for camera in questions[0].images:
            pixels = torch.from_numpy(np.stack([question.images[camera] for question in questions]))
            batch[keys.get(camera, IMAGES + camera)] = pixels.permute(0, 3, 1, 2)
        return batch

"""Tests that every arena must pass: derive a test class, name an arena and a task, run pytest.

class TestMine(ArenaContract):
    arena, task = MyArena(), "reach"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from holdfast.arenas.arena import Arena
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.core.records import Reached

STEPS = 5  # enough for a difference to show


class ArenaContract:
    """Tests of one task of an arena, opened once for all tests. Override `actions` if these do not fit."""

    arena: ClassVar[Arena]
    task: ClassVar[str]
    size: ClassVar[tuple[int, int]] = (48, 64)
    _opened: ClassVar[dict[type, ScoredEpisode]] = {}

    @property
    def episode(self) -> ScoredEpisode:
        """The task, just begun."""
        if type(self) not in self._opened:
            self._opened[type(self)] = ScoredEpisode(self.arena, self.arena.task(self.task))
        found = self._opened[type(self)]
        found.begin(1, self.arena.default_level)
        return found

    def actions(self, episode: ScoredEpisode) -> Sequence[np.ndarray]:
        """A few actions that move something: close to the measured state if actions have its dimensions."""
        names = self.arena.action
        start = episode.environment.observe().state if self.arena.state == names else np.zeros(len(names))
        steps = np.linspace(0.02, 0.1, STEPS)
        return [start + step for step in steps]

    def test_it_says_what_it_is(self) -> None:
        """Names, rate and levels are set, and no name occurs twice."""
        arena = self.arena
        assert arena.name
        assert arena.rate > 0
        for names in (arena.cameras, arena.state, arena.action, arena.levels):
            assert names, "a name is missing"
            assert len(set(names)) == len(names), f"a name occurs twice in {names}"
        assert arena.default_level in arena.levels
        assert set(arena.kinds) <= set(arena.action), "a kind is of no action"
        assert arena.embodiment is None or arena.embodiment.names == arena.state == arena.action

    def test_its_tasks_go_by_their_names_and_end(self) -> None:
        """Every task has a time limit, and arms that the embodiment has."""
        for name, task in self.arena.tasks.items():
            assert task.name == name
            assert self.arena.max_steps(name) > 0
            if self.arena.embodiment:
                self.arena.embodiment.active(task.arms)

    def test_unknown_names_are_errors_that_list_the_valid_ones(self) -> None:
        """A typo is easy to correct."""
        assert self.task in refused(lambda: self.arena.task("no such task"))
        assert self.arena.default_level in refused(lambda: self.arena.level("no such level"))

    def test_an_observation_has_the_names_and_the_size_that_were_asked_for(self) -> None:
        """Images come at the policy's size, and only on request."""
        environment = self.episode.environment
        assert environment.observe().images == {}
        seen = environment.observe(self.size, self.arena.cameras)
        assert seen.state.shape == (len(self.arena.state),)
        assert np.issubdtype(seen.state.dtype, np.floating)
        assert np.isfinite(seen.state).all()
        assert tuple(seen.images) == self.arena.cameras
        for camera, image in seen.images.items():
            assert (image.shape, image.dtype) == ((*self.size, 3), np.uint8), camera
        last = self.arena.cameras[-1]
        assert np.array_equal(environment.observe(self.size, [last]).images[last], seen.images[last])

    def test_a_seed_is_a_layout(self) -> None:
        """The same seed gives the same episode, another seed a different one."""
        first = self.played(self.episode)
        assert same(first, self.played(self.episode)), "an episode depends on the one before it"
        episode = self.episode
        episode.begin(2, self.arena.default_level)
        assert not same(first, self.played(episode)), "another seed gives the same episode"

    def test_opened_anew_it_is_the_same(self) -> None:
        """Trials must not depend on the process that runs them."""
        other = ScoredEpisode(self.arena, self.arena.task(self.task))
        other.begin(1, self.arena.default_level)
        fresh = self.played(other)
        other.environment.close()
        assert same(self.played(self.episode), fresh)

    def test_looking_changes_nothing(self) -> None:
        """Filming a trial must not change it."""
        plain, watched = self.played(self.episode)[-1:], self.played(self.episode, looks=2)[-1:]
        assert same(plain, watched)

    def test_what_an_observation_holds_is_its_own(self) -> None:
        """It does not change while the episode goes on."""
        episode = self.episode
        seen = episode.environment.observe(self.size, self.arena.cameras)
        before = seen.state.copy()
        for action in self.actions(episode):
            episode.step(action)
        assert np.array_equal(seen.state, before), "the state of an old observation changes"
        assert not np.array_equal(episode.environment.observe().state, before), "the actions move nothing"

    def test_a_recording_gets_what_is_observed(self) -> None:
        """Its frames may come later, but in order, and none is left to the next episode."""
        self.episode.draw_frame(self.size)
        episode, frames = self.episode, []
        for action in self.actions(episode):
            frames += episode.draw_frame(self.size)
            episode.step(action)
        frames += episode.last_frames(self.size)
        observed = self.played(self.episode)[:-1]
        for images, seen in zip(frames, observed, strict=True):
            for camera in self.arena.cameras:
                assert np.array_equal(images[camera], seen.images[camera]), camera

    def test_a_malformed_action_is_refused(self) -> None:
        """The error says how many numbers an action has."""
        episode = self.episode
        size = len(self.arena.action)
        for action in (np.zeros(size + 1), np.zeros((2, size)), np.full(size, np.nan)):
            assert str(size) in refused(partial(episode.step, action))

    def test_reset_clears_and_nothing_is_reached_yet(self) -> None:
        """Every episode begins at score 0."""
        for _ in range(2):
            episode = self.episode
            assert episode.reached == Reached()
            assert (episode.score, episode.done, episode.over, episode.steps) == (0, False, False, 0)
            for action in self.actions(episode):
                episode.step(action)

    def test_it_is_over_when_its_time_is_up_and_speaks_the_words_of_the_rubric(self) -> None:
        """What it reports as reached can be scored at every step, and the next episode is as any other."""
        first, episode = self.played(self.episode), self.episode
        task, action = episode.task, self.actions(episode)[-1]
        while not episode.environment.over:
            assert episode.steps < self.arena.max_steps(self.task), "it goes on beyond its time"
            episode.step(action)
            assert set(episode.reached.milestones) <= {milestone.name for milestone in task.milestones}
            assert set(episode.reached.penalties) <= {penalty.name for penalty in task.penalties}
            assert 0 <= episode.score <= 100
        assert episode.trial().seconds == episode.steps / self.arena.rate
        assert same(first, self.played(self.episode)), "an episode after one whose time was up is another"

    def test_its_picture_can_be_filmed(self) -> None:
        """Codecs need even sizes."""
        picture = self.episode.environment.picture()
        assert picture.dtype == np.uint8
        assert picture.ndim == 3
        assert picture.shape[2] == 3
        assert picture.shape[0] % 2 == picture.shape[1] % 2 == 0

    def test_its_scripted_policies_act(self) -> None:
        """Every policy that it lists gives an action."""
        for name in self.arena.policies:
            episode = self.episode
            action = episode.policy(name, None).act()
            assert action is not None, name
            episode.step(action)

    def test_its_expert_reaches_full_score(self) -> None:
        """Otherwise there would be nothing to record; and the next episode is as any other."""
        if "expert" not in self.arena.policies:
            return
        first = self.played(self.episode)
        for seed in (None, 7):
            episode = self.episode
            expert = episode.policy("expert", seed)
            while not episode.over and (action := expert.act()) is not None:
                episode.step(action)
            assert episode.done, f"the expert ends with {episode.score:.0f} of 100"
            assert same(first, self.played(self.episode)), "an episode after a success is another"

    def played(self, episode: ScoredEpisode, looks: int = 1) -> list[Observation]:
        """The observations of an episode that has just begun."""
        seen = []
        for action in self.actions(episode):
            for _ in range(looks):
                seen.append(episode.environment.observe(self.size, self.arena.cameras))
            episode.step(action)
        return [*seen, episode.environment.observe(self.size, self.arena.cameras)]


def run_contract(tested: Arena, name: str) -> Iterator[tuple[str, str]]:
    """Run all tests of one task; yields each as words, with what is wrong or nothing."""
    contract = type("Contract", (ArenaContract,), {"arena": tested, "task": name})()
    for test in (word for word in vars(ArenaContract) if word.startswith("test_")):
        wrong = ""
        try:
            getattr(contract, test)()
        except (AssertionError, HoldfastError) as error:
            wrong = str(error) or "not so"
        except Exception as error:  # of the simulator
            wrong = f"{type(error).__name__}: {error}"
        yield test.removeprefix("test_").replace("_", " "), wrong
    if type(contract) in ArenaContract._opened:
        ArenaContract._opened.pop(type(contract)).close()


def same(first: Sequence[Observation], second: Sequence[Observation]) -> bool:
    """Whether all states and images are equal to the last bit."""
    return len(first) == len(second) and all(
        np.array_equal(a.state, b.state) and all(np.array_equal(a.images[name], b.images[name]) for name in a.images)
        for a, b in zip(first, second, strict=True)
    )


def refused(attempt: Callable[[], object]) -> str:
    """The message of the HoldfastError that a call raises."""
    try:
        attempt()
    except HoldfastError as error:
        return str(error)
    raise AssertionError("it was not refused with a HoldfastError")

"""Every arena passes one contract; arenas go by name, and their mistakes are named."""

import subprocess
import sys

import numpy as np
import pytest
from fake_arena import FakeArena, Point

from holdfast import arenas
from holdfast.arenas.arena import Arena, ArenaError
from holdfast.arenas.contract import ArenaContract, run_contract
from holdfast.arenas.demonstrate import RecordingOrder, demonstrate
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.arenas.scripted import score
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Reached, TrialProtocol
from holdfast.evaluate.rollout import LocalLane, PolicyNeeds, TrialOrder


class TestFake(ArenaContract):
    arena, task = FakeArena(), "mirror"


class TestPlainSuccess(ArenaContract):
    arena, task = FakeArena(), "touch"


@pytest.mark.sim
class TestTwin(ArenaContract):
    arena, task = arenas.load("twin"), "press_button"


@pytest.mark.sim
def test_the_twin_is_described_as_it_is():
    from holdfast.twin.cell import CAMERAS, CONTROL_HZ
    from holdfast.twin.scripted import POLICIES
    from holdfast.twin.task import LEVELS
    from holdfast.twin.tasks import TASKS

    twin = arenas.load("twin")
    assert (twin.cameras, twin.rate, twin.levels) == (CAMERAS, CONTROL_HZ, tuple(LEVELS))
    assert (twin.policies, tuple(twin.tasks)) == (tuple(POLICIES), tuple(TASKS))


class Forgetful(Point):
    """Remembers the place of the last episode."""

    at = np.zeros(2)

    def reset(self, seed, level):
        at = self.at
        super().reset(seed, level)
        self.at = at


class Tired(Point):
    """Starts elsewhere after an episode that took all its time."""

    tired = False

    def reset(self, seed, level):
        super().reset(seed, level)
        self.at += 0.1 * self.tired

    def step(self, action):
        super().step(action)
        self.tired = self.tired or self.over


class Proud(Tired):
    """Starts elsewhere after a success."""

    def step(self, action):
        super().step(action)
        self.tired = self.reached().final


class Shared(Point):
    """Gives its own array away."""

    def observe(self, size=None, cameras=()):
        seen = super().observe(size, cameras)
        object.__setattr__(seen, "state", self.at)
        return seen

    def step(self, action):
        self.at[:] = np.clip(action, self.at - 0.2, self.at + 0.2)
        self.steps += 1


class Endless(Point):
    over = False


class Seedless(Point):
    def reset(self, seed, level):
        super().reset(0, level)


class Odd(Point):
    def picture(self):
        return self.draw(127, 127)


class Curious(Point):
    """Its mark moves when it is looked at."""

    def observe(self, size=None, cameras=()):
        self.mark = self.mark + 0.02
        return super().observe(size, cameras)


class SmallImages(Point):
    """Draws in a size of its own."""

    def draw(self, height, width):
        return super().draw(16, 16)


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Forgetful, "test_a_seed_is_a_layout"),
        (Tired, "test_it_is_over_when_its_time_is_up_and_speaks_the_words_of_the_rubric"),
        (Proud, "test_its_expert_reaches_full_score"),
        (Shared, "test_what_an_observation_holds_is_its_own"),
        (Endless, "test_it_is_over_when_its_time_is_up_and_speaks_the_words_of_the_rubric"),
        (Seedless, "test_a_seed_is_a_layout"),
        (Odd, "test_its_picture_can_be_filmed"),
        (Curious, "test_looking_changes_nothing"),
        (SmallImages, "test_an_observation_has_the_names_and_the_size_that_were_asked_for"),
    ],
)
def test_the_contract_finds_what_is_wrong(kind, test):
    class Wrong(FakeArena):
        def open(self, task):
            return kind(-1)

    class Contract(ArenaContract):
        arena, task = Wrong(), "mirror"

    with pytest.raises(AssertionError):
        getattr(Contract(), test)()


class Careless(FakeArena):
    """Keeps frames for later, and does not drop them when an episode begins."""

    def __init__(self):
        self.kept = []

    def draw_frame(self, environment, size):
        self.kept += super().draw_frame(environment, size)
        return []

    def last_frames(self, environment, size):
        kept, self.kept = self.kept, []
        return kept


class Lazy(FakeArena):
    """Draws when it is asked for the frames."""

    def draw_frame(self, environment, size):
        self.count = 1 if environment.steps == 0 else self.count + 1
        return []

    def last_frames(self, environment, size):
        return [environment.observe(size, self.cameras).images] * self.count


@pytest.mark.parametrize(("kind", "said"), [(Careless, "5 frames were left, 6 were returned"), (Lazy, "top")])
def test_the_contract_finds_frames_of_another_moment(kind, said):
    class Contract(ArenaContract):
        arena, task = kind(), "mirror"

    with pytest.raises((AssertionError, HoldfastError), match=said):
        Contract().test_a_recording_gets_what_is_observed()


def test_an_arena_is_loaded_by_name_or_by_path_once():
    assert arenas.load("twin") is arenas.load("twin")
    assert isinstance(arenas.load("fake_arena:FakeArena"), FakeArena)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("twn", "Did you mean 'twin'"),
        ("nowhere.at.all:Arena", "PYTHONPATH"),
        ("fake_arena:Nothing", "has no Nothing"),
        ("fake_arena:", "has no"),
        ("fake_arena:Point", "derive the class"),
        ("test_contract:Impostor", "taken"),
    ],
)
def test_a_wrong_name_says_what_would_be_right(name, said):
    with pytest.raises(HoldfastError, match=said):
        arenas.load(name)


class Impostor(FakeArena):
    name = "twin"


def test_an_environment_of_the_twin_needs_neither_lerobot_nor_torch():
    """So that many of them fit beside a GPU, each in a process of its own."""
    code = (
        "import sys\nfrom holdfast.evaluate.rollout import LocalLane\nLocalLane('twin')._arena.open('press_button')\n"
        "assert not {'lerobot', 'torch'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def nan(point):
    point.at = np.array([np.nan, 0.0])


def short(point):
    point.at = np.zeros(1)


def floats(point):
    point.draw = lambda height, width: np.zeros((height, width, 3))


def gray(point):
    point.draw = lambda height, width: np.zeros((height, width), np.uint8)


def strange(point):
    point.reached = lambda: Reached(("flown",))


def nothing(point):
    point.reached = lambda: None


def fail(*arguments):
    raise RuntimeError("no context")


class Acts:
    def __init__(self, action):
        self.act = lambda: action


class Fails:
    act = fail


@pytest.mark.parametrize(
    ("word", "found", "doing", "said"),
    [
        ("policy", fail, "policy", "RuntimeError: no context"),
        ("policy", lambda *arguments: Fails(), "act", "RuntimeError: no context"),
        ("policy", lambda *arguments: Acts("up"), "act", "an action must be 2 numbers, got 'up'"),
        ("policy", lambda *arguments: Acts(["left", "up"]), "act", "TypeError"),
        ("policy", lambda *arguments: Acts([0, np.nan]), "act", "an action must be 2 numbers"),
        ("policy", lambda *arguments: None, "act", "AttributeError"),
        ("film", fail, "film", "RuntimeError: no context"),
        ("film", lambda *arguments: np.zeros(3, np.uint8), "film", "must be uint8"),
    ],
)
def test_a_failing_expert_or_film_is_the_arenas_failure(monkeypatch, word, found, doing, said):
    monkeypatch.setattr(FakeArena, word, found)
    episode = ScoredEpisode(FakeArena(), FakeArena.tasks["mirror"])
    episode.begin(0, "")
    with pytest.raises(ArenaError, match=rf"The arena 'fake' failed in {doing}\(\) .*{said}"):
        episode.film() if word == "film" else episode.policy("expert", 0).act()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (nan, "state must be 2 numbers"),
        (short, "observe"),
        (floats, "must be uint8"),
        (gray, "must be uint8"),
        (strange, "'flown'"),
        (nothing, "AttributeError"),
    ],
)
def test_what_an_arena_gets_wrong_is_said_with_its_name(spoil, said):
    episode = ScoredEpisode(FakeArena(), FakeArena.tasks["mirror"])
    episode.begin(0, "")
    spoil(episode.environment)
    with pytest.raises(HoldfastError, match=rf"The arena 'fake' failed in .*{said}"):
        look_and_step(episode)
    if spoil in (floats, gray):
        with pytest.raises(HoldfastError, match=rf"The arena 'fake' failed in draw_frame.*{said}"):
            episode.draw_frame((8, 8))


class Breaks(Point):
    """It fails in the middle of an episode, and then cannot be closed either."""

    @property
    def over(self):
        if self.steps == 2:
            raise RuntimeError("no context")
        return super().over

    def close(self):
        raise RuntimeError("no context to close")


def test_a_broken_end_of_an_episode_is_one_dropped_layout_or_invalid_trial(monkeypatch, tmp_path):
    monkeypatch.setattr(FakeArena, "open", lambda self, task: Breaks(1))
    name, wanted = (
        "fake_arena:FakeArena",
        "The arena 'fake' failed in over() of task 'touch': RuntimeError: no context.",
    )
    order = RecordingOrder("touch", 1, "", 8, 8, 0, name)
    for seed in (0, 1):
        found = demonstrate(order, seed, tmp_path, lambda: None)
        assert not found.full
        assert found.failure.startswith(wanted)
    lane = LocalLane(name)
    for seed in (0, 1):
        order = TrialOrder(tmp_path, tmp_path, 1, FakeArena.tasks["touch"], seed, "", "w", "n", TrialProtocol(4))
        lane.begin(order, PolicyNeeds((8, 8), ("top",), 4))
        lane.go(np.zeros((4, 2)))
        trial = lane.result()
        assert (trial.valid, trial.seconds) == (False, 0.2)
        assert trial.notes.startswith(wanted)
    with pytest.raises(HoldfastError, match=r"failed in over"):
        score(name, "touch", "expert", "", [0])
    said = dict(run_contract(FakeArena(), "touch"))
    assert "no context" in said["its expert reaches full score"]
    assert said["opened anew it is the same"] == "RuntimeError: no context to close"


def look_and_step(episode):
    episode.observe((8, 8), ("top",))
    episode.step(np.zeros(2))


def test_an_endless_arena_ends_with_its_limit():
    class Forever(FakeArena):
        def open(self, task):
            return Endless(1)

    episode = ScoredEpisode(Forever(), FakeArena.tasks["touch"])
    episode.begin(0, "")
    while not episode.over:
        episode.step(np.zeros(2))
    assert episode.steps == 20


def test_an_arena_without_scripted_policies_or_window_refuses_both():
    class Bare(FakeArena):
        policies = ()
        policy = Arena.policy

    arena = Bare()
    arena.check()
    with pytest.raises(HoldfastError, match=r"Unknown scripted policy 'expert' of the arena 'fake'. Valid: none"):
        arena.policy("expert", arena.open("touch"), None)
    with pytest.raises(HoldfastError, match=r"has no window. Give --out"):
        arena.view(arena.open("touch"))
    assert not arena.has_viewer
    assert arenas.load("twin").has_viewer
    Bare.policies = ("expert",)
    with pytest.raises(HoldfastError, match=r"names policies \('expert',\) but has no policy"):
        arena.check()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def (", "SyntaxError"),
        ("raise RuntimeError('no licence')", "no licence"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("from fake_arena import FakeArena\nclass Mine(FakeArena):\n    cameras = 'top'", "tuple of names, got 'top'"),
        (
            "from fake_arena import FakeArena\nclass Mine(FakeArena):\n    kinds = None",
            "must be kinds by name, got None",
        ),
        (
            "from fake_arena import FakeArena\nclass Mine(FakeArena):\n    kinds = {'z': 'delta'}",
            "Unknown action with a kind 'z' of the arena 'fake'. Valid: x, y",
        ),
        (
            "from fake_arena import FakeArena\nclass Mine(FakeArena):\n    kinds = {'x': 'detla'}",
            "Unknown kind 'detla' of the action 'x'. Did you mean 'delta'",
        ),
        ("from fake_arena import FakeArena\nclass Mine(FakeArena):\n    rate = '10'", "whole number above 0, got '10'"),
        ("from fake_arena import FakeArena\nclass Mine(FakeArena):\n    def __init__(self, x): pass", "cannot be made"),
    ],
)
def test_an_arena_that_cannot_be_loaded_is_one_clear_error(tmp_path, monkeypatch, text, said):
    name = f"strange_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(HoldfastError, match=said):
        arenas.load(f"{name}:Mine")

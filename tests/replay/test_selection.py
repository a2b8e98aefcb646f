"""Rankings: whole, repeatable, and following what they are shown."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toys import TINY, candidates

from holdfast.cli import main
from holdfast.data.cache.cache import Cache
from holdfast.data.cache.thumbnails import thumbnails
from holdfast.replay import selection
from holdfast.replay.buffer import Buffer
from holdfast.replay.selection import SELECTIONS


def points(values):
    """Episodes of three frames that each stay at one value."""
    frames = np.repeat(np.array(values, dtype=float), 3)[:, None]
    return candidates("a", [3] * len(values), state=frames, action=frames)


def test_random_ranks_as_it_always_did():
    assert SELECTIONS["random"].rank(candidates("stack_bowls", [30] * 12, 42)) == (9, 11, 3, 8, 1, 0, 7, 6, 4, 2, 10, 5)
    assert SELECTIONS["random"].rank(candidates("stack_bowls", [5] * 12, 42)) == (9, 11, 3, 8, 1, 0, 7, 6, 4, 2, 10, 5)


def test_summaries_are_mean_deviation_first_and_last_of_state_and_action():
    state, action = np.arange(12.0).reshape(6, 2), np.arange(6.0)[:, None] ** 2
    found = candidates("a", [4, 2], state=state, action=action).summaries
    assert found.shape == (2, 4 * 3)
    first = np.hstack([state[:4], action[:4]])
    assert np.allclose(found[0], np.concatenate([first.mean(0), first.std(0), first[0], first[-1]]))
    assert found[1, -3:].tolist() == [10, 11, 25]


def test_diverse_goes_farthest_first_from_the_most_usual_episode():
    ranked = SELECTIONS["diverse"].rank(points([0, 0.1, -0.1, 10, -9, 5]))
    assert ranked[0] == 1  # nearest to the mean of 1
    assert ranked[1:4] == (3, 4, 5)
    assert set(ranked) == set(range(6))


def test_diverse_ranks_every_episode_once_where_all_are_alike():
    assert sorted(SELECTIONS["diverse"].rank(points([1] * 7))) == list(range(7))
    assert SELECTIONS["diverse"].rank(points([1])) == (0,)


def test_diverse_does_not_depend_on_units():
    values = np.random.default_rng(0).normal(size=(30, 3))
    shown = [candidates("a", [3] * 10, state=values * scale, action=values) for scale in (1, [1e3, 1, 1e-3])]
    assert SELECTIONS["diverse"].rank(shown[0]) == SELECTIONS["diverse"].rank(shown[1])


def test_hard_takes_the_highest_loss_first():
    shown = candidates("a", [3] * 4, scores=np.array([0.1, 0.7, 0.3, 0.7]))
    assert SELECTIONS["hard"].rank(shown) == (1, 3, 2, 0)


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_kept_later_is_a_prefix_of_what_was_kept_before(name):
    rng, buffer, before = np.random.default_rng(1), Buffer(0.5), {}
    for task in ("a", "b", "c"):
        values = rng.normal(size=(60, 2))
        shown = candidates(task, [3] * 20, state=values, action=values, scores=rng.random(20))
        buffer = buffer.after_stage(shown, "f", name)
        for kept in buffer.tasks:
            assert kept.episodes == before.get(kept.task, kept.episodes)[: len(kept.episodes)]
            before[kept.task] = kept.episodes


def train(toy, name, *more):
    base = ["train", f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--tasks=[reach, lift]", "--device=cpu"]
    assert main([*base, *TINY, "--steps=4", "--batch_size=4", "--replay.ratio=1", *more]) == 0
    content = json.loads((toy / name / "stages" / "01-reach" / "checkpoint" / "buffer.json").read_text())
    return content["tasks"][0]["episodes"]


def test_a_run_shows_scores_of_its_own_policy_to_a_selection_that_asks(toy, monkeypatch):
    seen = []

    def hard(shown):
        seen.append(shown)
        return selection.hard(shown)

    monkeypatch.setitem(SELECTIONS, "hard", selection.Selection(hard, needs_scores=True))
    assert train(toy, "one", "--replay.selection=hard") == train(toy, "two", "--replay.selection=hard")
    assert [shown.task for shown in seen] == ["reach", "lift"] * 2
    assert np.array_equal(seen[0].scores, seen[2].scores)  # the same policy, the same noise
    assert len(set(seen[0].scores.tolist())) == 6
    assert (seen[0].scores > 0).all()
    assert train(toy, "three", "--replay.selection=diverse") == list(SELECTIONS["diverse"].rank(seen[0]))


def paths(*curves, still=0):
    """Episodes whose only state follows the given curves, with dimensions beside it that never move."""
    values = np.concatenate(curves)[:, None]
    state = np.hstack([values, np.full((len(values), still), 3.0)])
    return candidates("a", [len(curve) for curve in curves], state=state, action=values)


def test_trajectories_are_compared_in_their_own_time():
    slow, fast = np.linspace(0, 1, 50), np.linspace(0, 1, 7)
    found = paths(slow, fast, slow[::-1], still=2).trajectories
    assert found.shape == (3, 3 * selection.POINTS)
    assert np.allclose(found[0], found[1])
    assert np.allclose(found[0, : selection.POINTS], found[2, : selection.POINTS][::-1])
    assert not found[:, selection.POINTS :].any()  # what never moves does not count
    assert paths([2.0]).trajectories.shape == (1, selection.POINTS)


def radius(points, chosen):
    """The largest distance from any point to the nearest chosen one."""
    return max(min(np.linalg.norm(p - points[c]) for c in chosen) for p in points)


@pytest.mark.parametrize("seed", range(5))
def test_coverage_is_within_twice_the_best_cover_for_every_number_of_episodes(seed):
    curves = np.random.default_rng(seed).normal(size=(8, 5)).cumsum(1)
    shown = paths(*curves)
    ranked = SELECTIONS["coverage"].rank(shown)
    for count in range(1, 8):
        best = min(radius(shown.trajectories, chosen) for chosen in itertools.combinations(range(8), count))
        assert radius(shown.trajectories, ranked[:count]) <= 2 * best + 1e-12


def test_coverage_tells_apart_what_summaries_cannot():
    there, back = np.array([0.0, 1, 0, -1, 0]), np.array([0.0, -1, 0, 1, 0])
    ranked = SELECTIONS["coverage"].rank(paths(there, there, there, back, there))
    assert 3 in ranked[:2]
    assert sorted(ranked) == list(range(5))
    assert 3 not in SELECTIONS["diverse"].rank(paths(there, there, there, back, there))[:2]


def test_coverage_sees_the_first_images():
    seen = np.zeros((5, 64), np.float32)
    seen[2, :32] = 1  # one scene is different, all movements are alike
    alike = paths(*[np.arange(4.0)] * 5)
    ranked = SELECTIONS["coverage"].rank(replace(alike, thumbnails=seen))
    assert 2 in ranked[:2]
    assert SELECTIONS["coverage"].rank(alike) == (0, 1, 2, 3, 4)


def test_thumbnails_are_the_mean_grey_of_every_camera():
    rng = np.random.default_rng(0)
    pixels = {name: torch.from_numpy(rng.integers(0, 256, (3, 3, 16, 24), dtype=np.uint8)) for name in "ab"}
    spec = SimpleNamespace(format="raw", cameras=dict.fromkeys(pixels, (16, 24)))
    found = thumbnails(Cache(spec, np.zeros(3), np.zeros(3), pixels, {}), np.array([2, 0]))
    assert found.shape == (2, 2 * 64)
    blocks = pixels["b"][0].numpy().mean(0).reshape(8, 2, 8, 3).mean((1, 3)) / 255
    assert np.allclose(found[1, 64:].reshape(8, 8), blocks, atol=1e-6)


def test_a_run_shows_first_images_to_coverage(toy, monkeypatch):
    seen = []

    def coverage(shown):
        seen.append(shown)
        return selection.coverage(shown)

    monkeypatch.setitem(SELECTIONS, "coverage", selection.Selection(coverage, needs_thumbnails=True))
    assert train(toy, "one", "--replay.selection=coverage") == list(selection.coverage(seen[0]))
    assert seen[0].thumbnails.shape == (6, 2 * 64)
    assert len(np.unique(seen[0].thumbnails, axis=0)) > 1
    assert seen[0].scores is None

"""Rankings: whole, repeatable, and following what they are shown."""

import json

import numpy as np
import pytest
from toys import TINY, candidates

from holdfast.cli import main
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

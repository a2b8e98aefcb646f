"""merge: the share it finds against arithmetic, and against runs of er that take the same steps."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from method_runs import STAGES, kept, same, train, weights

from holdfast.core.errors import HoldfastError
from holdfast.methods import build_method
from holdfast.methods.merge import Merge
from holdfast.train.loss_probe import LossProbe

SEEN = "network.state.weight"


def at(values):
    model = torch.nn.Linear(len(values), 1, bias=False).double()
    model.weight.data[0] = torch.tensor(values)
    return model


def state_of(values):
    return Merge().keep(at(values), None, None)


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3), st.integers(1, 12))
def test_on_a_parabola_it_finds_the_share_nearest_to_the_minimum(goal, parts):
    start, end = np.array([1.0, -1.0, 0.5]), np.array([0.0, 2.0, 1.0])
    model = at(end.tolist())
    done = Merge(parts=parts).finish(
        model, lambda: float((model.weight[0].detach() - torch.tensor(goal)).square().sum()), state_of(start.tolist())
    )
    way = end - start
    exact = np.clip((np.array(goal) - start) @ way / (way @ way), 0, 1)
    assert abs(done["share"] - exact) <= 0.5 / parts + 1e-9
    np.testing.assert_allclose(model.weight.detach()[0], start + done["share"] * way, atol=1e-12)


@given(st.lists(st.integers(0, 5), min_size=5, max_size=5))
def test_it_is_never_worse_than_both_ends_and_ends_there_with_exact_weights(scores):
    start, end = [0.1, 0.2], [0.7, -0.3]
    model, said = at(end), iter(map(float, scores))
    done = Merge(parts=4).finish(model, lambda: next(said), state_of(start))
    best = scores[round(done["share"] * 4)]
    assert best == min(scores) <= min(scores[0], scores[-1])
    assert done["scores"] == scores
    if done["share"] in (0, 1):
        assert torch.equal(model.weight.detach()[0], torch.tensor(end if done["share"] else start).double())


def test_the_first_stage_is_left_as_it_is():
    model = at([1.0, 2.0])
    assert Merge().finish(model, lambda: pytest.fail("nothing to measure"), None) is None
    assert torch.equal(model.weight.detach()[0], torch.tensor([1.0, 2.0]).double())


def test_a_bad_number_of_parts_is_named():
    with pytest.raises(HoldfastError, match=r"--method\.parts must be at least 1, got 0"):
        build_method("merge", {"parts": "0"})


def test_a_stage_ends_between_its_start_and_the_end_of_er(toy):
    er = train(toy, "er", "--method=er")
    run = train(toy, "run", "--method=merge", "--method.parts=4")
    first, last = weights(er, "01-reach"), weights(er)
    assert same(weights(run, "01-reach"), first)
    noted = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    (found,) = (line for line in noted if line["event"] == "finish")
    scores = found["scores"]
    assert (found["stage"], len(scores)) == (2, 5)
    assert len(set(scores)) == 5
    assert scores[round(found["share"] * 4)] == min(scores)
    for name, value in weights(run).items():
        torch.testing.assert_close(value, torch.lerp(first[name], last[name], found["share"]))
    assert all(torch.equal(value, weights(run)[name.removeprefix("anchor/")]) for name, value in kept(run).items())


def test_surprise_notes_the_losses_of_the_weights_that_are_saved(toy, monkeypatch):
    def halve(self, policy, score, kept):
        with torch.no_grad():
            policy.get_parameter(SEEN).mul_(0.5)
        return {"share": 0.5, "scores": []}

    def weight(self, row, places=None, stage=None):  # in place of losses
        value = self._adapter.policy.get_parameter(SEEN).double().sum().item()
        return np.full(len(self._data.lessons[row].source.starts) if places is None else len(places), value)

    monkeypatch.setattr(Merge, "finish", halve)
    monkeypatch.setattr(LossProbe, "episode_scores", weight)
    run = train(toy, "run", "--method=merge", "--replay.selection=surprise")
    for number, stage in enumerate(STAGES):
        buffer = json.loads((run / "stages" / stage / "checkpoint" / "buffer.json").read_text())
        (noted,) = {*buffer["tasks"][number]["losses"]}
        assert noted == weights(run, stage)[SEEN].double().sum().item()

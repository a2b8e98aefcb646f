"""Kept episodes whose loss rose most stay, the others are dropped first; killed or not, on one rank or two."""

import json
import os
import signal

import numpy as np
import pytest
from toys import TINY, candidates

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.core.processes import FORKED
from holdfast.replay.buffer import Buffer, Kept
from holdfast.replay.config import ReplayConfig
from holdfast.train import engine, keep


def stage(buffer, task, scores, rises=None):
    shown = candidates(task, [3] * len(scores), scores=np.array(scores))
    return buffer.after_stage(shown, "f", "surprise", rises)


def test_the_episodes_that_rose_least_are_dropped_and_the_rest_keeps_its_order():
    first = stage(Buffer(1), "a", np.arange(6.0))
    kept = first.of("a")
    assert sorted(kept.episodes) == list(range(6))
    assert kept.losses == tuple(float(e) for e in kept.episodes)
    second = stage(first, "b", np.arange(6.0), {"a": np.array([0.1, 0.5, -0.2, 0.5, 0.4, 0.0])})
    assert second.of("a").episodes == tuple(kept.episodes[place] for place in (1, 3, 4))
    assert second.of("a").losses == tuple(kept.losses[place] for place in (1, 3, 4))
    third = stage(second, "c", np.arange(6.0), {"a": np.array([0.0, 0.2, 0.9]), "b": np.array([3.0, 2.0, 1.0])})
    assert third.of("a").episodes == second.of("a").episodes[1:]
    assert third.of("b").episodes == second.of("b").episodes[:2]


def test_what_is_kept_later_is_part_of_what_was_kept_before():
    rng, buffer = np.random.default_rng(0), Buffer(1)
    for task in "abcd":
        before = {kept.task: kept for kept in buffer.tasks}
        rises = {kept.task: rng.normal(size=len(kept.episodes)) for kept in buffer.tasks}
        buffer = stage(buffer, task, rng.random(20), rises)
        for kept in buffer.tasks[:-1]:
            rose = dict(zip(before[kept.task].episodes, rises[kept.task], strict=True))
            dropped = set(rose) - set(kept.episodes)
            assert set(kept.episodes) < set(rose)
            assert max(rose[e] for e in dropped) < min(rose[e] for e in kept.episodes)


def test_losses_are_read_back_and_must_be_those_of_the_episodes():
    buffer = stage(Buffer(0.5), "a", np.random.default_rng(0).random(9))
    content = json.loads(json.dumps(to_json(buffer)))
    assert from_json(Buffer, content, "buffer.json") == buffer
    content["tasks"][0]["losses"].pop()
    with pytest.raises(HoldfastError, match="'a' in the buffer has 3 losses of 4 episodes"):
        from_json(Buffer, content, "buffer.json")
    del content["tasks"][0]["losses"]  # a buffer of an earlier version, or an imported one
    assert from_json(Buffer, content, "buffer.json").of("a").losses is None
    assert Kept("a", "f", 5, (3, 1, 2)).shrunk(2).episodes == (3, 1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"store": "copy"}, "--replay.store must be reference with --replay.selection=surprise.*got copy"),
        ({"frequency": 0.0}, "--replay.frequency must be above 0 with --replay.selection=surprise.*got 0"),
    ],
)
def test_what_cannot_be_looked_at_again_is_refused(setting, message):
    with pytest.raises(HoldfastError, match=message):
        ReplayConfig(selection="surprise", **setting)


def arguments(toy, name):
    base = ["train", f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--tasks=[reach, lift]", "--device=cpu"]
    small = ("--steps=6", "--batch_size=4", "--optim.lr=3e-3", "--replay.ratio=1", "--replay.selection=surprise")
    return [*base, *TINY, *small]


def buffer_of(run, stage):
    return json.loads((run / "stages" / stage / "checkpoint" / "buffer.json").read_text())["tasks"]


def _die_before_the_checkpoint(toy):
    """Decide what to keep after the second stage, and be killed with it."""
    real = keep.keep_episodes

    def dying(setting, data, buffer, probe):
        kept = real(setting, data, buffer, probe)
        if len(kept.tasks) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return kept

    from holdfast.train import engine

    engine.keep_episodes = dying
    os._exit(main(arguments(toy, "killed")))


def test_a_run_drops_what_rose_least_and_a_kill_at_the_stages_end_changes_nothing(toy, monkeypatch):
    process = FORKED.Process(target=_die_before_the_checkpoint, args=(toy,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL

    measured = []
    real = Buffer.after_stage

    def after_stage(self, *arguments):
        measured.append(arguments[-1])
        return real(self, *arguments)

    monkeypatch.setattr(Buffer, "after_stage", after_stage)
    assert main(arguments(toy, "whole")) == 0
    assert main(arguments(toy, "killed")) == 0
    assert measured[0] == {}
    rises = measured[1]["reach"]
    assert np.array_equal(rises, measured[2]["reach"])  # of the killed run
    assert len(set(rises.tolist())) == 6

    first, second = (buffer_of(toy / "whole", name)[0] for name in ("01-reach", "02-lift"))
    chosen = sorted(np.argsort(-rises)[:3].tolist())
    assert second["episodes"] == [first["episodes"][place] for place in chosen]
    assert second["losses"] == [first["losses"][place] for place in chosen]
    for name in ("buffer.json", "policy/model.safetensors"):
        one, other = (toy / run / "stages" / "02-lift" / "checkpoint" / name for run in ("whole", "killed"))
        assert checked_folder.file_hash(one) == checked_folder.file_hash(other)


def test_the_rise_is_zero_while_the_weights_stay_the_same(toy, monkeypatch):
    """Later stages measure on the same frames with the same noise."""
    found = []
    real = keep.keep_episodes

    def looking(setting, data, buffer, probe):
        kept = real(setting, data, buffer, probe)
        found.append(probe.rises(kept))
        return kept

    monkeypatch.setattr(engine, "keep_episodes", looking)
    assert main([*arguments(toy, "run"), "--optim.lr=1e-30"]) == 0
    assert [list(rises) for rises in found] == [["reach"], ["reach", "lift"]]
    assert not any(rise.any() for rises in found for rise in rises.values())

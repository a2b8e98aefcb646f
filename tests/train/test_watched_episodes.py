"""Replay that follows watched episodes: what is drawn, against its own formulas; and the same weights after kills."""

import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
from toys import TINY, stream_text

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.core.processes import FORKED
from holdfast.data.sampler import Sampler
from holdfast.replay.config import ReplayConfig
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.parallel import refuse_shards
from holdfast.train.distributed.ranks import Ranks
from holdfast.train.watch import Watch

FREQUENCY, ALARM, BATCH, STEPS = 0.6, 0.5, 20, 10
FOLLOWING = ("--replay.share=need", f"--replay.alarm={ALARM}", "--replay.watch_every=3")


def arguments(folder, name, *more):
    base = ["train", f"--stream={folder}/stream.toml", f"--output={folder}/{name}", "--device=cpu", "--replay.ratio=1"]
    small = (f"--steps={STEPS}", f"--batch_size={BATCH}", "--log.every=1", "--checkpoint.every=5", "--optim.lr=3e-3")
    return [*base, *TINY, *small, f"--replay.frequency={FREQUENCY}", *more]


@pytest.fixture(scope="module")
def folder(recorded, tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    shutil.copytree(recorded, folder, dirs_exist_ok=True)
    (folder / "stream.toml").write_text(stream_text())
    return folder


@pytest.fixture(scope="module")
def whole(folder):
    """A run of three stages and every draw it made: (stage, step) to rows and frames."""
    drawn, real = {}, Sampler.draw

    def draw(self, step, rank=0, world=1):
        found = real(self, step, rank, world)
        drawn[self.stage, step] = found
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sampler, "draw", draw)
        assert main(arguments(folder, "whole", *FOLLOWING)) == 0
    return folder / "whole", drawn


def looks_of(run, stage):
    last = sorted((run / "stages" / stage / "progress").glob("step-*"))[-1]
    return json.loads((last / "state.json").read_text())


def file_hash(run, stage, file="policy/model.safetensors"):
    return checked_folder.file_hash(run / "stages" / stage / "checkpoint" / file)


def kept_after(run, stage):
    content = json.loads((run / "stages" / stage / "checkpoint" / "buffer.json").read_text())
    return {kept["task"]: kept["episodes"] for kept in content["tasks"]}


def test_the_watched_episode_is_not_replayed_and_the_others_are(whole):
    run, drawn = whole
    for number, before in ((2, "01-reach"), (3, "02-lift")):
        for row, episodes in enumerate(kept_after(run, before).values(), 1):
            draws = [draw for (stage, _), draw in drawn.items() if stage == number]
            frames = np.concatenate([draw.frames[draw.rows == row] for draw in draws])
            assert set((frames // 14).tolist()) == set(episodes[1:])


def test_shares_and_frequency_follow_the_looks(whole):
    run, drawn = whole
    stage, steps = "03-sweep", int(STEPS / (1 - FREQUENCY))
    looks = looks_of(run, stage)["looks"]
    assert [look["step"] for look in looks] == [*range(0, steps, 3), steps]
    checked = 0
    for step in range(steps):
        seen = [look for look in looks if look["step"] + 3 <= step] or looks[:1]
        grown = {t: max(1, seen[-1]["losses"][t] / looks[0]["losses"][t]) for t in ("reach", "lift")}
        now = FREQUENCY * min(1, (max(grown.values()) - 1) / ALARM)
        replays = np.random.default_rng([42, 3, step]).random() < now
        draw = drawn[3, step]
        assert draw.replayed == (BATCH if replays else 0)
        if replays:
            wanted = BATCH * grown["reach"] / sum(grown.values())
            assert abs(np.sum(draw.rows == 1) - wanted) < 1
            checked += abs(wanted - BATCH / 2) > 1  # where equal shares would be wrong
    assert checked > 2


def test_an_alarm_eases_nothing_where_a_stage_starts_from_the_base(folder):
    def replayed(name, *more):
        run = folder / name
        assert main(arguments(folder, name, "--tasks=[reach, lift]", "--method=joint-cumulative", *more)) == 0
        lines = (run / "stages" / "02-lift" / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["replay_samples"] for line in lines]

    always = replayed("anew")
    assert min(always) > 0
    assert replayed("anew-alarm", f"--replay.alarm={ALARM}", "--replay.watch_every=3") == always


def test_the_metrics_show_the_latest_look_and_the_run_says_what_it_took(folder, whole, capsys):
    lines = [json.loads(line) for line in (whole[0] / "stages" / "03-sweep" / "metrics.jsonl").read_text().splitlines()]
    looks = {look["step"]: look["losses"] for look in looks_of(whole[0], "03-sweep")["looks"]}
    assert all(line["watched_loss"] == looks[line["step"]] for line in lines if line["step"] in looks)
    replayed = sum(line["replay_steps"] for line in lines)
    assert 0 < replayed < round(FREQUENCY * len(lines))
    shutil.copytree(whole[0], folder / "again")
    shutil.rmtree(folder / "again" / "stages" / "03-sweep" / "checkpoint")
    progress = folder / "again" / "stages" / "03-sweep" / "progress"
    shutil.rmtree(progress / f"step-{len(lines):08d}")
    assert main(arguments(folder, "again", *FOLLOWING)) == 0
    said = " ".join(capsys.readouterr().out.split())
    first = kept_after(whole[0], "02-lift")
    assert f"Watched and not replayed: episode {first['reach'][0]} of reach, {first['lift'][0]} of lift." in said
    assert f"{replayed} of {len(lines)} steps replayed." in said
    assert "at most 15" in said  # the plan
    assert file_hash(folder / "again", "03-sweep") == file_hash(whole[0], "03-sweep")


def _die(folder, owner, hook, call):
    """Train, and be killed right after the n-th call of a hook."""
    owner = {"watch": Watch, "files": checked_folder}[owner]
    real, count = getattr(owner, hook), 0

    def dying(*args, **named):
        nonlocal count
        count += 1
        done = real(*args, **named)
        if count == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, hook, dying)
    os._exit(main(arguments(folder, "killed", *FOLLOWING)))


def test_killed_around_its_looks_it_ends_with_the_same_weights_and_the_same_looks(folder, whole):
    # In the second stage, in the third, and while its progress is saved.
    for kill in [("watch", "_measure", 4), ("watch", "_measure", 11), ("files", "_sync", 2)]:
        process = FORKED.Process(target=_die, args=(folder, *kill))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, kill
    assert main(arguments(folder, "killed", *FOLLOWING)) == 0
    for stage in ("02-lift", "03-sweep"):
        assert file_hash(folder / "killed", stage) == file_hash(whole[0], stage)
        assert file_hash(folder / "killed", stage, "buffer.json") == file_hash(whole[0], stage, "buffer.json")
    assert looks_of(folder / "killed", "03-sweep") == looks_of(whole[0], "03-sweep")


def test_with_one_kept_episode_nothing_is_watched_and_the_run_is_the_usual_one(folder, capsys):
    few = ("--tasks=[reach, lift]", "--replay.ratio=0.2")
    for name, more in (("plain", ()), ("single", FOLLOWING)):
        assert main(arguments(folder, name, *few, *more)) == 0
    assert "Not watched, because only one episode is kept: reach." in capsys.readouterr().out
    assert file_hash(folder / "single", "02-lift") == file_hash(folder / "plain", "02-lift")
    assert looks_of(folder / "single", "02-lift") == {"step": 25}


@pytest.mark.parametrize("flag", ["--replay.share=need", "--replay.alarm=0.1"])
def test_sharded_weights_cannot_be_looked_at(flag):
    setting = {"share": "need"} if "share" in flag else {"alarm": 0.1}
    config = TrainConfig("stream.toml", parallel="fsdp", replay=ReplayConfig(**setting))
    with pytest.raises(HoldfastError, match=f"{flag} needs the whole policy on one rank"):
        refuse_shards(config, Ranks(0, 2))
    refuse_shards(config, Ranks(0, 1))
    refuse_shards(replace(config, method="sequential"), Ranks(0, 2))

"""A run that keeps copies needs no dataset after its stage, and ends where the run that kept them all ends."""

import errno
import json
import os
import shutil
import signal

import numpy as np
import pytest
import torch
from toys import TASKS, TINY, candidates, never_wait_for_the_disk, stream_text, write_numbers

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import read_json
from holdfast.core.processes import FORKED
from holdfast.data.cache.listing import list_caches
from holdfast.data.lerobot import export
from holdfast.data.lerobot.source import open_source
from holdfast.replay.buffer import Buffer, Kept
from holdfast.replay.store import EpisodeStore, read_buffer, size

STAGES = [f"{number:02d}-{name}" for number, name in enumerate(TASKS, 1)]
FLAGS = (
    *TINY, "--device=cpu", "--steps=6", "--batch_size=4", "--checkpoint.every=3", "--log.every=3",
    "--replay.ratio=0.7", "--replay.frequency=0.5",
)  # fmt: skip


@pytest.mark.parametrize("task", ["../../victim/buffer/reach", "/victim/buffer/reach", "a/b", "..", "", "x" * 300])
def test_a_task_that_is_no_folder_of_the_buffer_is_refused(tmp_path, task):
    kept = {"task": task, "fingerprint": "f", "total": 3, "episodes": [0], "copy": "c"}
    (tmp_path / "buffer.json").write_text(json.dumps({"ratio": 0.2, "tasks": [kept]}))
    with pytest.raises(HoldfastError, match=r"buffer.json cannot be used: Task in the buffer: (name|the name is too)"):
        read_buffer(tmp_path / "buffer.json")


@pytest.mark.parametrize("linked", ["buffer", "buffer/reach"])
def test_a_link_in_the_buffer_is_not_followed(tmp_path, linked):
    photos = tmp_path / "photos"
    (photos / "reach" / "2024").mkdir(parents=True)
    (photos / "2024").mkdir()
    place = tmp_path / "run" / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(photos)
    store, kept = EpisodeStore(tmp_path / "run" / "buffer"), Kept("reach", "f", 3, (0,), "c")
    learned = open_numbers(tmp_path / "data")
    for use in (lambda: store.check(kept), lambda: store.settle(Buffer(0.2, (kept, kept)), learned, None)):
        with pytest.raises(HoldfastError, match=f"{linked} is a link"):
            use()
    assert (photos / "2024").exists()
    assert (photos / "reach" / "2024").exists()


def test_a_linked_copy_is_damaged_and_what_it_leads_to_stays(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    (tmp_path / "run" / "buffer" / "reach").mkdir(parents=True)
    for number in (1, 7):
        (tmp_path / "run" / "buffer" / "reach" / str(number)).symlink_to(photos)
    store, kept = EpisodeStore(tmp_path / "run" / "buffer"), Kept("reach", "f", 3, (0,), "c")
    with pytest.raises(HoldfastError, match="reach/1, is damaged: it is a link"):
        store.settle(Buffer(0.2, (kept, kept)), open_numbers(tmp_path / "data"), None)
    assert photos.exists()


def open_numbers(root):
    write_numbers(root, ("a",), ("a",), episodes=1)
    return open_source(str(root))


def train(toy, output, *flags):
    return main(["train", f"--stream={toy}/stream.toml", f"--output={toy}/{output}", *FLAGS, *flags])


def weights(toy, output, stage=STAGES[-1]):
    return checked_folder.file_hash(toy / output / "stages" / stage / "checkpoint" / "policy" / "model.safetensors")


def events(run, kind):
    lines = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def kept_of(toy, output, stage):
    path = toy / output / "stages" / stage / "checkpoint" / "buffer.json"
    return read_json(Buffer, path)


@pytest.fixture
def deleting(toy, monkeypatch):
    """Delete a task's dataset as soon as its stage's checkpoint stands; watch the bytes of copies and current task."""
    write, sync = checked_folder.write, checked_folder._sync
    seen = {"peak": 0, "buffer": 0}

    def current():
        return next((size(toy / name) for name in TASKS if (toy / name).exists()), 0)

    def watched(path):
        sync(path)
        if "buffer" in path.parts:
            seen["peak"] = max(seen["peak"], size(toy / "copy" / "buffer") + current())

    def written(folder, *rest, **more):
        write(folder, *rest, **more)
        if folder.name == "checkpoint":
            seen["buffer"] = max(seen["buffer"], size(toy / "copy" / "buffer"))
            shutil.rmtree(toy / folder.parent.name[3:])

    monkeypatch.setattr(checked_folder, "_sync", watched)
    monkeypatch.setattr(checked_folder, "write", written)
    return seen


@pytest.fixture(scope="module")
def reference(recorded, tmp_path_factory):
    """Weights of every stage of the run that reads its datasets where they lie."""
    toy = tmp_path_factory.mktemp("reference")
    shutil.copytree(recorded, toy, dirs_exist_ok=True)
    (toy / "stream.toml").write_text(stream_text())
    assert train(toy, "run") == 0
    return {stage: weights(toy, "run", stage) for stage in STAGES}


def test_with_its_datasets_deleted_a_run_ends_with_the_same_weights(toy, reference, deleting, capsys):
    largest = max(size(toy / name) for name in TASKS)
    assert train(toy, "copy", "--replay.store=copy") == 0
    assert not any((toy / name).exists() for name in TASKS)
    assert {stage: weights(toy, "copy", stage) for stage in STAGES} == reference

    peaks = [event["peak_bytes"] for event in events(toy / "copy", "copies")]
    assert deleting["peak"] == max(peaks)
    # Beside the budget and the task in hand, no more than one copy's table of episodes, while it is written anew.
    table = max(p.stat().st_size for p in (toy / "copy" / "buffer").rglob("meta/**/*.parquet"))
    assert max(peaks) <= deleting["buffer"] + largest + 2 * table
    shown = " ".join(capsys.readouterr().out.split())
    assert f"with this task's dataset at most {peaks[-1] / 2**20:.1f} MiB" in shown

    # Started again it has nothing to do, and its plan still knows what it learned.
    assert train(toy, "copy", "--replay.store=copy") == 0
    capsys.readouterr()
    assert train(toy, "copy", "--replay.store=copy", "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["episodes"] == dict.fromkeys(TASKS, 6)


def test_copies_shrink_with_the_buffer_and_hold_the_original_episodes(toy):
    assert train(toy, "copy", "--replay.store=copy", f"--cache.root={toy}/frames") == 0
    assert list_caches(toy / "frames") == []  # decoded frames would take more disk than all episodes
    for stage, counts in zip(STAGES, ([4], [2, 2], [1, 1, 1]), strict=True):
        assert [len(kept.episodes) for kept in kept_of(toy, "copy", stage).tasks] == counts
    assert sorted(str(p.relative_to(toy / "copy" / "buffer")) for p in (toy / "copy" / "buffer").glob("*/*")) == [
        "lift/1", "reach/1", "sweep/1",
    ]  # fmt: skip
    for kept in kept_of(toy, "copy", STAGES[-1]).tasks:
        place = EpisodeStore(toy / "copy" / "buffer").place(kept)
        copy, original = open_source(str(place)), open_source(str(toy / kept.task))
        assert kept.fingerprint == original.fingerprint != kept.copy
        for place, episode in zip(kept.places, kept.episodes, strict=True):
            here, there = copy.frames_of([place]), original.frames_of([episode])
            assert np.array_equal(copy.state[here], original.state[there])
            assert np.array_equal(copy.action[here], original.action[there])
            for camera in copy.cameras:
                assert torch.equal(copy.images(camera, here), original.images(camera, there))
        # The videos are the packets of the source, not larger ones made without loss.
        assert size(copy.root / "videos") < size(original.root / "videos")


def _die_while_copying(toy, output, killing):
    """Run the command and die before the n-th table is written or file synced below buffer/."""
    os.setsid()
    never_wait_for_the_disk()
    count = 0

    def counted(real):
        def call(*args, **named):
            nonlocal count
            count += any("buffer" in path.parts for path in args if isinstance(path, os.PathLike))
            if count == killing:
                os.kill(os.getpid(), signal.SIGKILL)
            real(*args, **named)

        return call

    export._write, checked_folder._sync = counted(export._write), counted(checked_folder._sync)
    shutil.rmtree = counted(shutil.rmtree)
    os._exit(train(toy, output, "--replay.store=copy"))


@pytest.mark.slow
def test_killed_while_copying_or_shrinking_it_goes_on_to_the_same_weights(toy, reference):
    codes = []
    for killing in (4, 20, 48, 3, 29, 55, 12, 0):
        process = FORKED.Process(target=_die_while_copying, args=(toy, "killed", killing))
        process.start()
        process.join()
        codes.append(process.exitcode)
    assert codes == [-signal.SIGKILL] * 7 + [0]
    assert {stage: weights(toy, "killed", stage) for stage in STAGES} == reference
    assert not list((toy / "killed").rglob(".writing-*"))


def test_a_stage_whose_steps_are_done_needs_no_old_episode(toy, reference, monkeypatch):
    """The kill that comes after the old copies shrank and before the checkpoint stands."""
    real = EpisodeStore._copy

    def fail(self, kept, source):
        if kept.task == "lift":
            raise KeyboardInterrupt
        real(self, kept, source)

    with monkeypatch.context() as patch:
        patch.setattr(EpisodeStore, "_copy", fail)
        assert train(toy, "copy", "--replay.store=copy") == 130
    assert [p.name for p in (toy / "copy" / "buffer" / "reach").iterdir()] == ["2"]
    assert train(toy, "copy", "--replay.store=copy") == 0
    assert {stage: weights(toy, "copy", stage) for stage in STAGES} == reference


def test_a_full_disk_is_said_and_costs_nothing_that_stood(toy, reference, monkeypatch, capsys):
    real = export._write

    def full(table, path):
        if "buffer" in path.parts and ".writing-4" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(table, path)

    with monkeypatch.context() as patch:
        patch.setattr(export, "_write", full)
        assert train(toy, "copy", "--replay.store=copy") == 2
    said = capsys.readouterr().err
    assert "The disk is full" in said
    assert "buffer/reach/4" in said
    assert "run the same command again" in said
    assert not list((toy / "copy" / "buffer" / "reach").iterdir())
    assert train(toy, "copy", "--replay.store=copy") == 0
    assert weights(toy, "copy") == reference[STAGES[-1]]


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_damaged_copy_stops_the_run_before_its_first_step(toy, capsys):
    (toy / "sweep" / "meta").rename(toy / "meta-of-sweep")
    assert train(toy, "copy", "--replay.store=copy") == 2
    (toy / "meta-of-sweep").rename(toy / "sweep" / "meta")
    flip_a_bit(next((toy / "copy" / "buffer" / "reach").rglob("*.mp4")))
    capsys.readouterr()
    assert train(toy, "copy", "--replay.store=copy") == 2
    out, said = capsys.readouterr()
    assert "sweep  step" not in out
    assert "copy of task 'reach'" in said
    assert "file-000.mp4 does not have the bytes that were written" in said


def test_a_damaged_copy_is_not_shrunk_into_a_sound_one(toy):
    memory, source = EpisodeStore(toy / "run" / "buffer"), open_source(str(toy / "reach"))
    buffer = Buffer(0.7).after_stage(candidates("reach", source.lengths, 0), source.fingerprint, "random")
    memory.settle(buffer, source, lambda kept, folder: "copy")
    flip_a_bit(next((toy / "run" / "buffer" / "reach").rglob("*.mp4")))
    lift = open_source(str(toy / "lift"))
    with pytest.raises(HoldfastError, match=r"copy of task 'reach'.*reach/2, is damaged"):
        memory.settle(
            buffer.after_stage(candidates("lift", lift.lengths, 0), "f", "random"), lift, lambda kept, folder: "copy"
        )


def test_a_copy_that_is_gone_is_named(tmp_path):
    with pytest.raises(HoldfastError, match=r"copy of task 'reach'.*is missing.*--output"):
        EpisodeStore(tmp_path / "buffer").check(Kept("reach", "f", 6, (0, 1), "c"))

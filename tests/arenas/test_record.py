"""Recorded demonstrations: what is in them, and that no kill and no number of processes changes it."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from toys import fork_workers

from holdfast.arenas import demonstrate, record
from holdfast.arenas import recording_shards as shards
from holdfast.arenas.demonstrate import RecordingOrder
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.catalog import task as catalog_task
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.processes import FORKED
from holdfast.data.lerobot.source import Source, open_source
from holdfast.twin.env import CellEnv

pytestmark = [pytest.mark.slow, pytest.mark.sim]
ORDER = RecordingOrder("press_button", episodes=3, level="standard", height=64, width=96, seed=500)
OTHER = RecordingOrder("stack_bowls", episodes=1, level="easy", height=32, width=32, seed=500)
SHARP = 30.0  # dB


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """The dataset of ORDER, recorded in one go with another by two processes in shards of two episodes."""
    output = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD", 2)
        steps: list[int] = []
        done, other = record.record([ORDER, OTHER], output, processes=2, watch=steps.append)
    assert (done.seeds, other.seeds) == ((500, 501, 502), (500,))
    assert done.dropped == other.dropped == ()
    assert sorted(output.iterdir()) == [done.folder, other.folder]
    assert len(open_source(str(other.folder)).lengths) == 1
    assert steps == sorted(steps)
    assert steps[-1] == sum(sum(open_source(str(one.folder)).lengths) for one in (done, other))
    return done.folder


def same(a: Source, b: Source) -> bool:
    """Whether two datasets hold the same numbers and the same decoded images."""
    numbers = all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("state", "action", "starts", "ends"))
    frames = np.arange(a.starts[-1], a.ends[-1], 20)
    return numbers and all((a.images(c, frames) == b.images(c, frames)).all() for c in a.cameras)


def psnr(image: np.ndarray, wanted: np.ndarray) -> float:
    error = np.mean((image.astype(float) - wanted.astype(float)) ** 2)
    return float(10 * np.log10(255**2 / error))


def test_opens_in_lerobot_and_holds_what_was_rendered(recorded):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/press_button", root=recorded)
    assert (dataset.num_episodes, dataset.fps, dataset.meta.robot_type) == (3, 30, "piper_x_pair")
    env = CellEnv("press_button")
    for seed, start, end in zip((500, 501, 502), *open_source_edges(recorded), strict=True):
        env.reset(seed)
        for index in range(start, end):
            sample = dataset[index] if (index - start) % 25 == 0 else None
            if sample is not None:
                seen = env.observe((ORDER.height, ORDER.width))
                assert sample["task"] == catalog_task("press_button").instruction
                assert np.allclose(sample["observation.state"], seen.state, atol=1e-6)
                for camera, image in seen.images.items():
                    decoded = (sample[f"observation.images.{camera}"].permute(1, 2, 0).numpy() * 255).round()
                    assert psnr(decoded, image) > SHARP, (camera, index)
            env.step(dataset.hf_dataset[index]["action"].numpy())
        assert env.score() == 100, "replaying the recorded actions solves the task again"


def open_source_edges(folder: Path) -> tuple[list[int], list[int]]:
    source = open_source(str(folder))
    return source.starts.tolist(), source.ends.tolist()


def test_the_frames_of_a_demonstration_are_what_the_cameras_see(tmp_path):
    order = replace(OTHER, task="press_button")
    env = CellEnv(order.task)
    for seed in (500, 501):  # one after the other in the same environment
        shown = demonstrate.demonstrate(order, seed, tmp_path, lambda: None)
        stored = np.fromfile(shown.frames, np.uint8).reshape(len(shown.actions), 4, 32, 32, 3)
        assert len(stored) > 64, "more frames than are read back at once, twice"
        env.reset(seed, order.level)
        for state, action, views in zip(shown.states, shown.actions, stored, strict=True):
            seen = env.observe((32, 32))
            assert np.array_equal(state, seen.state)
            assert np.array_equal(views, list(seen.images.values()))
            env.step(action)
    env.close()


def test_a_failed_demonstration_leaves_nothing_to_the_next(tmp_path, monkeypatch):
    order = replace(OTHER, task="press_button")
    good = demonstrate.demonstrate(order, 500, tmp_path, lambda: None)
    stored = good.frames.read_bytes()
    good.frames.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(ScoredEpisode, "done", False)
        assert not demonstrate.demonstrate(order, 501, tmp_path, lambda: None).full
    assert not list(tmp_path.iterdir())

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demonstrate.demonstrate(order, 502, tmp_path, interrupt)
    assert demonstrate.demonstrate(order, 500, tmp_path, lambda: None).frames.read_bytes() == stored


def test_demonstrations_differ_in_tempo(recorded):
    assert len(set(open_source(str(recorded)).lengths)) > 1


def test_doctor_finds_nothing(recorded, capsys):
    assert main(["doctor", str(recorded)]) == 0
    assert "nothing found" in capsys.readouterr().out


def test_finished_recording_is_left_alone_and_other_settings_are_refused(recorded, capsys):
    before = {path: path.stat().st_mtime_ns for path in recorded.rglob("*")}
    flags = ["--tasks", "press_button", "--size", "64x96", "--seed", "500", "--output", str(recorded.parent)]
    assert main(["record", *flags, "--episodes", "3", "--processes", "1"]) == 0
    assert "3 demonstrations, none dropped" in capsys.readouterr().out
    assert main(["record", *flags, "--episodes", "2"]) == 2
    assert "episodes was 3, now 2" in capsys.readouterr().err
    assert main(["record", *flags, "--episodes", "4", "--seed", "501"]) == 2
    assert "seed was 500, now 501" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in recorded.rglob("*")} == before


@pytest.fixture(scope="module")
def shorter(tmp_path_factory) -> Path:
    """A recording of the first two episodes."""
    return record.record([replace(ORDER, episodes=2)], tmp_path_factory.mktemp("shorter"), 1)[0].folder


@pytest.mark.parametrize("killed", [False, True])
def test_a_shorter_recording_is_extended_to_what_one_go_gives(recorded, shorter, tmp_path, killed):
    first = shutil.copytree(shorter, tmp_path / "press_button")
    if killed:  # when the longer recording was about to take the place of the shorter one
        work = record.Work(ORDER, tmp_path / ".press_button.recording", first)
        shards.write_json(work.folder / "order.json", asdict(ORDER))
        first.rename(work.folder / shards.BEFORE)
    reports: list[tuple[str, int, int]] = []
    (done,) = record.record([ORDER], tmp_path, 1, lambda *said: reports.append(said))
    assert (done.folder, done.seeds) == (first, (500, 501, 502))
    assert [said[1] for said in reports] == [2, 3], "the first two were not recorded again"
    assert same(open_source(str(done.folder)), open_source(str(recorded)))
    assert shards.read_notes(done.folder) == shards.read_notes(recorded)
    assert list(tmp_path.iterdir()) == [done.folder]


@pytest.mark.parametrize("running", [False, True])
def test_shards_of_a_longer_recording_outlive_the_command_of_the_shorter_one(recorded, running):
    longer = record.Work(replace(ORDER, episodes=9), recorded.parent / ".press_button.recording", recorded)
    with longer.locked() if running else nullcontext():
        longer.begin()
        (longer.folder / "part-503-5").mkdir()
        assert record.record([ORDER], recorded.parent, 1)[0].folder == recorded
    assert (longer.folder / "part-503-5").exists()
    (longer.folder / "order.json").write_text(json.dumps(asdict(ORDER)))  # as if a kill had left it at the end
    record.record([ORDER], recorded.parent, 1)
    assert not longer.folder.exists()


def test_a_link_in_place_of_the_shards_is_refused(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis").write_text("text")
    notes = {"order": asdict(ORDER), "seeds": [500, 501, 502], "dropped": []}
    (tmp_path / "press_button" / shards.NOTES).parent.mkdir(parents=True)
    (tmp_path / "press_button" / shards.NOTES).write_text(json.dumps(notes))
    (tmp_path / ".press_button.recording").symlink_to(tmp_path / "precious")
    with pytest.raises(HoldfastError, match="is a link; it must be a folder"):
        record.record([ORDER], tmp_path, 1)
    (tmp_path / ".press_button.recording").unlink()
    (tmp_path / "precious").rename(tmp_path / ".press_button.recording")
    record.record([ORDER], tmp_path, 1)
    assert (tmp_path / ".press_button.recording" / "thesis").read_text() == "text", "nobody recorded this"


@pytest.mark.parametrize("link", ["frames", "order.json", "before", "part-500-3", "part-500-3/meta/info.json", ".lock"])
def test_a_link_among_the_shards_is_refused_before_anything_is_recorded(tmp_path, link):
    (tmp_path / "precious").mkdir()
    place = tmp_path / "data" / ".press_button.recording" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "precious")
    with pytest.raises(HoldfastError, match=f"{link} is a link; it must be"):
        record.record([ORDER], tmp_path / "data", 1)
    assert place.is_symlink()
    assert not list((tmp_path / "precious").iterdir())


def test_a_dataset_that_is_a_link_to_nowhere_is_refused_before_anything_is_recorded(tmp_path):
    (tmp_path / "press_button").symlink_to("nowhere")
    with pytest.raises(HoldfastError, match="press_button is a link that leads nowhere"):
        record.record([ORDER], tmp_path, 1)


def test_an_extended_recording_goes_on_after_the_last_seed_that_was_tried(tmp_path):
    notes = {"order": asdict(replace(ORDER, episodes=2)), "seeds": [500, 503], "dropped": [501, 502]}
    (tmp_path / "begun" / "meta").mkdir(parents=True)
    (tmp_path / "begun" / shards.NOTES).write_text(json.dumps(notes))
    longer = replace(ORDER, episodes=9)
    assert shards.missing_shards(longer, tmp_path, tmp_path / "begun") == [range(504, 509), range(509, 511)]


def test_interrupted_recording_goes_on_and_ends_the_same(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 1)

    def interrupt(task: str, kept: int, dropped: int) -> None:
        if kept == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record.record([ORDER], tmp_path, 1, interrupt)
    assert not (tmp_path / "press_button").exists()
    reports: list[tuple[str, int, int]] = []
    (done,) = record.record([ORDER], tmp_path, 1, lambda *said: reports.append(said))
    assert reports[0][1] >= 1, "the first shard was not recorded again"
    assert reports[-1] == ("press_button", 3, 0)
    assert same(open_source(str(done.folder)), open_source(str(recorded)))


def _record(folder: Path) -> None:
    """Record in a process of its own, which leads a group."""
    os.setsid()
    fork_workers()
    shards.SHARD = 2
    record.record([ORDER], folder, 1)


def test_killed_recording_goes_on_and_leaves_no_process_behind(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 2)
    process = FORKED.Process(target=_record, args=(tmp_path,))
    process.start()
    first_shard = tmp_path / ".press_button.recording" / "part-500-2"
    while not first_shard.exists():
        assert process.is_alive()
        time.sleep(0.05)
    process.kill()
    process.join()
    while alive(process.pid):  # only the test's own limit of time can end this: a worker has outlived the recorder
        time.sleep(0.1)
    (done,) = record.record([ORDER], tmp_path, 1)
    assert same(open_source(str(done.folder)), open_source(str(recorded)))


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class Here:
    """Stands in for the pool of worker processes: work is done at once, in this process."""

    def __init__(self, processes, preload, begin, *values) -> None:
        begin(*values)

    def submit(self, work, *arguments):
        future: Future = Future()
        future.set_result(work(*arguments))
        return future

    def shutdown(self, cancel_futures: bool) -> None: ...


def test_only_full_scores_are_kept_and_drops_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "worker_pool", Here)
    monkeypatch.setattr(shards, "SHARD", 1)  # so that whole shards fail too
    real = demonstrate.demonstrate
    monkeypatch.setattr(shards, "demonstrate", lambda o, seed, *more: replace(real(o, seed, *more), full=seed % 2 == 0))
    order = RecordingOrder("press_button", episodes=2, level="easy", height=32, width=32, seed=7)
    reports: list[tuple[str, int, int]] = []
    (done,) = record.record([order], tmp_path, 1, lambda *said: reports.append(said))
    assert (done.seeds, done.dropped) == ((8, 10), (7, 9))
    assert reports[-1] == ("press_button", 2, 2)
    notes = json.loads((done.folder / "meta" / "recording.json").read_text())
    assert notes["order"]["level"] == "easy"
    assert len(open_source(str(done.folder)).lengths) == 2


def test_the_first_task_then_the_longest_is_recorded_and_joined_before_others_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "worker_pool", Here)
    monkeypatch.setattr(shards, "SHARD", 2)
    log = []

    def shard(order, work, seeds, count, stepped):
        log.append((order.task, *seeds))
        kept = [seed for seed in seeds if seed != 1]  # the second layout fails, another takes its place
        for seed in seeds:
            count(seed in kept)
        shards._write_notes(work / f"part-{seeds.start}-{len(seeds)}", order, kept, [s for s in seeds if s not in kept])

    def join(order, folders, work, final):
        log.append((order.task, [folder.name for folder in folders]))
        shards._write_notes(final, order, *shards.seeds_of(folders))

    monkeypatch.setattr(record, "record_shard", shard)
    monkeypatch.setattr(record, "join_shards", join)
    tasks = ("press_button", "hang_cup", "fold_towel")
    orders = [replace(OTHER, task=task, episodes=3, seed=0) for task in tasks]
    reports: list[tuple[str, int, int]] = []
    done = record.record(orders, tmp_path, 1, lambda *said: reports.append(said))
    once = [(0, 1), (2,), (3,), (["part-0-2", "part-2-1", "part-3-1"],)]
    assert log == [(task, *what) for task in ("press_button", "fold_towel", "hang_cup") for what in once]
    assert [(d.folder.name, d.seeds, d.dropped) for d in done] == [(task, (0, 2, 3), (1,)) for task in tasks]
    assert reports[-1] == ("hang_cup", 3, 1)


def test_an_expert_that_mostly_fails_stops_the_recording():
    record._check_expert(ORDER, kept=30, dropped=30)
    with pytest.raises(HoldfastError, match="21 of 24"):
        record._check_expert(ORDER, kept=3, dropped=21)


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--tasks", "stack_bowl"], "stack_bowls"),
        (["--tasks", "stack_bowls", "--size", "95"], "480x640"),
        (["--tasks", "stack_bowls", "--size", "large"], "480x640"),
        (["--tasks", "stack_bowls", "--level", "hard"], "standard"),
        (["--tasks", "stack_bowls", "--processes", "0"], "at least 1"),
        (["--tasks", "stack_bowls", "--seed", "-1"], "--seed must be at least 0"),
        (["--stream", "one_arm"], "single_arm"),
    ],
)
def test_mistakes_are_named(capsys, tmp_path, flags, hint):
    assert main(["record", *flags, "--episodes", "1", "--output", str(tmp_path)]) == 2
    assert hint in capsys.readouterr().err


def test_a_foreign_folder_is_refused_before_anything_is_recorded(capsys, tmp_path):
    (tmp_path / "press_button").mkdir()
    flags = ["--tasks", "stack_bowls", "press_button", "--episodes", "1", "--output", str(tmp_path)]
    assert main(["record", *flags]) == 2
    assert "not a recording of an arena" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["press_button"]


def test_a_link_beside_the_notes_is_not_written_through(tmp_path):
    (tmp_path / "notes.txt").write_text("keep")
    (tmp_path / "order.writing").symlink_to("notes.txt")
    shards.write_json(tmp_path / "order.json", {"task": "reach"})
    assert (tmp_path / "notes.txt").read_text() == "keep"
    assert json.loads((tmp_path / "order.json").read_text()) == {"task": "reach"}

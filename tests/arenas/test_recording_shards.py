"""Shards of a recording: whose they are, and what is left of them when a kill comes between."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from fake_arena import FakeArena

from holdfast.arenas import recording_shards as shards
from holdfast.arenas.demonstrate import RecordingOrder
from holdfast.arenas.record import Work
from holdfast.core.errors import HoldfastError

ORDER = RecordingOrder("touch", episodes=2, level="", height=32, width=32, seed=0, arena="fake_arena:FakeArena")


@pytest.fixture
def work(tmp_path):
    """A recording of which nothing is recorded yet."""
    work = Work(ORDER, tmp_path / ".touch.recording", tmp_path / "touch")
    work.folder.mkdir()
    work.begin()
    return work


def add_notes(work, place, seeds, dropped=(), order=ORDER):
    notes = {"order": asdict(order), "seeds": list(seeds), "dropped": list(dropped)}
    shards.write_json(work.folder / place / shards.NOTES, notes)
    return work.folder / place


def test_a_deletion_that_is_killed_leaves_no_shard_without_its_order(work, monkeypatch):
    add_notes(work, "part-0-2", [0, 1])

    def kill(*arguments, **flags):
        raise KeyboardInterrupt

    listed = Path.iterdir
    with monkeypatch.context() as patch:
        patch.setattr(shards.shutil, "rmtree", kill)
        patch.setattr(
            Path, "iterdir", lambda folder: sorted(listed(folder), key=lambda path: path.name != "order.json")
        )
        with pytest.raises(KeyboardInterrupt):
            work.delete()
    assert (work.folder / "order.json").exists()
    work.delete()
    assert not work.folder.exists()


def test_shards_of_another_order_are_not_taken_for_ones_own(work):
    add_notes(work, "part-0-2", [0, 1], order=replace(ORDER, arena="other.toml"))
    mine = add_notes(work, "part-2-2", [2, 3], order=replace(ORDER, episodes=9))
    (work.folder / "order.json").unlink()
    work.begin()
    assert list(work.folder.glob("part-*")) == [mine]
    assert shards.missing_shards(ORDER, work.folder) == [range(2)]


def test_a_join_that_is_killed_and_done_again_counts_every_layout_once(work, monkeypatch):
    folders = [add_notes(work, "part-0-2", [], [0, 1]), add_notes(work, "part-2-2", [2, 3])]
    rename = Path.rename

    def kill(path, target):
        if target == work.final:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", kill)
        with pytest.raises(KeyboardInterrupt):
            shards.join_shards(ORDER, folders, work.folder, work.final)
    shards.join_shards(ORDER, folders, work.folder, work.final)
    assert shards.seeds_of([work.final]) == ([2, 3], [0, 1])


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("rate", 20, "rate was 10, now 20"),
        ("name", "new", "robot was 'fake', now 'new'"),
        ("state", ("x", "z"), "state was"),
        ("action", ("y", "x"), "action was"),
        ("cameras", ("left",), r"cameras was \['top'\], now \['left'\]"),
    ],
)
def test_a_recording_is_not_continued_in_an_arena_that_has_changed(work, monkeypatch, word, value, said):
    shard = work.folder / "part-0-2"
    with shards._open(ORDER, shard):
        pass
    header = (shard / "meta" / "info.json").read_text()
    (shard / "meta" / "info.json").write_text(header.replace('"total_episodes": 0', '"total_episodes": 1'))
    add_notes(work, shard.name, [0])
    work.begin()
    monkeypatch.setattr(FakeArena, word, value)
    with pytest.raises(HoldfastError, match=rf"part-0-2 was recorded with other settings: .*{said}"):
        work.begin()
    assert shard.exists()

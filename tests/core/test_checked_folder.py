import errno
import json
import shutil
from collections import namedtuple

import pytest

from holdfast.core import checked_folder
from holdfast.core.checked_folder import MANIFEST, newest, prune, verify, write
from holdfast.core.errors import HoldfastError

Usage = namedtuple("Usage", "total used free")


def files(**contents):
    """A `fill` that writes these files, `weights` into a folder of its own."""

    def fill(folder):
        for name, content in contents.items():
            path = folder / "policy" / name if name == "weights" else folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)

    return fill


def content(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST}


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "progress" / "step-00000010"
    write(folder, files(weights="old weights", state="10"))
    return folder


OLD = {"policy/weights": "old weights", "state": "10"}


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def change_manifest(folder, change):
    manifest = json.loads((folder / MANIFEST).read_text())
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_what_was_written_is_there_and_sound(saved):
    assert content(saved) == OLD
    assert set(json.loads((saved / MANIFEST).read_text())) == set(OLD)
    assert verify(saved) is None
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_new_folder_takes_the_place_of_the_old_one_whole(saved):
    write(saved, files(state="20", extra="new"))
    assert content(saved) == {"state": "20", "extra": "new"}
    assert verify(saved) is None
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def failing(error):
    def fill(folder):
        (folder / "half").write_text("half of it")
        raise error

    return fill


@pytest.mark.parametrize("error", [RuntimeError("oops"), OSError(errno.EIO, "input/output error"), KeyError("w")])
def test_a_failing_write_leaves_nothing_new_and_keeps_the_old(saved, error):
    for folder in (saved, saved.with_name("step-00000020")):
        with pytest.raises(type(error)) as caught:
            write(folder, failing(error))
        assert caught.value is error
    assert content(saved) == OLD
    assert verify(saved) is None
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_the_checkpoint_does_not_appear_before_it_is_complete(tmp_path):
    folder = tmp_path / "step-00000001"
    seen = []

    def fill(temporary):
        (temporary / "state").write_text("1")
        seen.append((folder.exists(), temporary.parent == tmp_path, newest(tmp_path, seen.append)))

    write(folder, fill)
    assert seen == [(False, True, None)]


def test_a_killed_write_leaves_the_old_one_and_does_not_disturb_the_next(saved):
    with pytest.raises(KeyboardInterrupt):
        write(saved, failing(KeyboardInterrupt()))
    assert content(saved) == OLD
    assert newest(saved.parent, print) == saved
    write(saved, files(state="20"))
    assert content(saved) == {"state": "20"}  # nothing of the half-written one


def test_a_kill_between_the_two_renames_costs_a_checkpoint_but_misleads_nobody(saved, monkeypatch):
    older = saved.with_name("step-00000005")
    write(older, files(state="5"))
    original = type(saved).rename

    def killed(self, target):
        if self.name.startswith(".writing-"):
            raise KeyboardInterrupt
        return original(self, target)

    monkeypatch.setattr(type(saved), "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        write(saved, files(state="10 again"))
    monkeypatch.undo()
    assert newest(saved.parent, print) == older
    write(saved, files(state="10 again"))
    assert newest(saved.parent, print) == saved
    assert content(saved) == {"state": "10 again"}
    assert {p.name for p in saved.parent.iterdir()} == {saved.name, older.name}


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError(errno.EFBIG, "File too large"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
    ids=["full", "quota", "file size", "safetensors"],
)
def test_a_full_disk_says_what_to_do_and_leaves_the_last_checkpoint(saved, error):
    for folder in (saved, saved.with_name("step-00000020")):
        with pytest.raises(HoldfastError) as caught:
            write(folder, failing(error))
        for part in ("disk is full", str(folder), "untouched", "Free some space", "same command again"):
            assert part in str(caught.value)
    assert content(saved) == OLD
    assert verify(saved) is None
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_disk_that_fills_up_with_the_manifest_is_the_same(saved, monkeypatch):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checked_folder, "_write_manifest", full)
    with pytest.raises(HoldfastError, match="disk is full"):
        write(saved, files(state="20"))
    assert content(saved) == OLD
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_too_little_space_is_noticed_before_anything_is_written(saved, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**40, 2**40 - 5 * 2**20, 5 * 2**20))
    called = []
    with pytest.raises(HoldfastError, match=r"disk is full.*7 MiB needed, 5 MiB free.*Free some space"):
        write(saved, called.append, needed=7 * 2**20)
    assert called == []
    assert content(saved) == OLD
    write(saved, files(state="20"), needed=5 * 2**20)
    assert content(saved) == {"state": "20"}


DAMAGES = {
    "flipped bit": (lambda f: flip_a_bit(f / "policy" / "weights"), "weights does not have the bytes"),
    "truncated": (lambda f: (f / "state").write_text("1"), "state does not have the bytes"),
    "emptied": (lambda f: (f / "state").write_text(""), "state does not have the bytes"),
    "missing": (lambda f: (f / "policy" / "weights").unlink(), "weights is missing"),
    "missing folder": (lambda f: shutil.rmtree(f / "policy"), "weights is missing"),
    "a folder instead of a file": (lambda f: ((f / "state").unlink(), (f / "state").mkdir()), "cannot be read"),
    "manifest lists more": (lambda f: change_manifest(f, lambda m: m.update(ghost="0")), "ghost is missing"),
    "manifest lists another hash": (lambda f: change_manifest(f, lambda m: m.update(state="0")), "state does not have"),
    "manifest missing": (lambda f: (f / MANIFEST).unlink(), f"{MANIFEST} is missing"),
    "manifest cut": (lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text()[:40]), "manifest cannot be read"),
    "manifest empty": (lambda f: (f / MANIFEST).write_text(""), "manifest cannot be read"),
    "manifest of nothing": (lambda f: (f / MANIFEST).write_text("{}"), "manifest lists no file"),
    "manifest a list": (lambda f: (f / MANIFEST).write_text("[1]"), "manifest cannot be read"),
    "manifest no text": (lambda f: (f / MANIFEST).write_bytes(b"\xff\x00\xfe"), "manifest cannot be read"),
    "folder gone": (lambda f: shutil.rmtree(f), f"{MANIFEST} is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_says_what_is_damaged(saved, damage):
    hurt, message = DAMAGES[damage]
    hurt(saved)
    assert message in (verify(saved) or "")


def steps(folder, *numbers):
    for number in numbers:
        write(folder / f"step-{number:08d}", files(state=str(number)))
    return [folder / f"step-{number:08d}" for number in numbers]


def test_the_newest_sound_checkpoint_is_found(tmp_path):
    assert newest(tmp_path / "progress", print) is None
    _, last, _ = steps(tmp_path, 500, 1500, 1000)
    assert newest(tmp_path, print) == last


def test_damaged_ones_are_named_and_passed_over(tmp_path):
    first, second, third = steps(tmp_path, 1, 2, 3)
    (third / MANIFEST).unlink()
    (second / "state").write_text("x")
    said = []
    assert newest(tmp_path, said.append) == first
    assert len(said) == 2
    assert str(third) in said[0]
    assert "manifest.json is missing" in said[0]
    assert str(second) in said[1]
    assert "state does not have the bytes" in said[1]


def test_when_all_are_damaged_there_is_none(tmp_path):
    for folder in steps(tmp_path, 1, 2):
        (folder / "state").unlink()
    said = []
    assert newest(tmp_path, said.append) is None
    assert len(said) == 2


@pytest.mark.parametrize(("keep", "left"), [(0, []), (1, [4]), (2, [3, 4]), (4, [1, 2, 3, 4]), (9, [1, 2, 3, 4])])
def test_prune_keeps_the_newest_and_removes_what_kills_left(tmp_path, keep, left):
    steps(tmp_path, 2, 4, 1, 3)
    for leftover in (".writing-step-00000005", ".old-step-00000004"):
        (tmp_path / leftover).mkdir()
        (tmp_path / leftover / "state").write_text("half")
    (tmp_path / "metrics.jsonl").write_text("{}")
    prune(tmp_path, keep)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["metrics.jsonl", *(f"step-{number:08d}" for number in left)]
    )


def test_pruning_what_is_not_there_is_fine(tmp_path):
    prune(tmp_path / "absent", 2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("linked", ["", "state", "policy", "policy/weights"])
def test_a_link_is_damage_even_if_it_leads_to_the_same_bytes(saved, linked):
    place, elsewhere = saved / linked, saved.parents[1] / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    assert "is a link" in verify(saved)


def test_a_link_anywhere_in_a_folder_is_refused(tmp_path):
    (tmp_path / "ours" / "a" / "b").mkdir(parents=True)
    checked_folder.check_no_links(tmp_path / "ours")
    checked_folder.check_no_links(tmp_path / "not there")
    (tmp_path / "ours" / "a" / "b" / "link").symlink_to("nowhere")
    with pytest.raises(HoldfastError, match="b/link is a link"):
        checked_folder.check_no_links(tmp_path / "ours")


def test_a_folder_that_a_link_leads_to_is_refused(tmp_path):
    (tmp_path / "real" / "a" / "b").mkdir(parents=True)
    (tmp_path / "root").symlink_to(tmp_path / "real")  # the user's own choice
    checked_folder.check_no_link(tmp_path / "root" / "a" / "b", tmp_path / "root")
    checked_folder.check_no_link(tmp_path / "root" / "c", tmp_path / "root")
    (tmp_path / "real" / "link").symlink_to(tmp_path / "real" / "a")
    for folder in ("link", "link/b", "link/b/c"):
        with pytest.raises(HoldfastError, match="root/link is a link; it must be a folder"):
            checked_folder.check_no_link(tmp_path / "root" / folder, tmp_path / "root")

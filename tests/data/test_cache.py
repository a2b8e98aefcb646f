"""The frame cache gives what LeRobot gives, notices every damage, and mends only what is damaged."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from toys import fork_workers

from holdfast.core.errors import HoldfastError
from holdfast.core.processes import FORKED
from holdfast.core.records import Task
from holdfast.data.cache import build as cache_build
from holdfast.data.cache import cache as caches
from holdfast.data.cache import spec as cache_spec
from holdfast.data.cache.cache import open_cache, plan_bytes
from holdfast.data.cache.config import CacheConfig
from holdfast.data.cache.files import CacheFiles
from holdfast.data.lerobot.source import ACTION, IMAGES, STATE, Source, open_source
from holdfast.data.lerobot.writer import dataset_writer, frame
from holdfast.data.lesson import Layout, Lesson
from holdfast.data.loader import Batches
from holdfast.data.resize import Resize
from holdfast.data.sampler import Draw

HEAD, FRONT = IMAGES + "head", IMAGES + "front"
EPISODES, LENGTH = 6, 14  # of the recorded toys


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(cache_spec, "BLOCK", 1)  # every episode is a block


@pytest.fixture
def built(monkeypatch):
    """Blocks built so far: (camera, number)."""
    done, original = [], cache_build._build

    def build(writer, source, camera, number):
        done.append((camera.key, number))
        return original(writer, source, camera, number)

    monkeypatch.setattr(cache_build, "_build", build)
    return done


class Shelf:
    """A private cache of one toy dataset, opened each time as a new process would."""

    def __init__(self, root, dataset):
        self.root, self.dataset, self.said = root, dataset, io.StringIO()

    def open(self, kind="raw", resize=None, **options):
        caches._CHECKED.clear()
        console = Console(file=self.said, width=10_000)
        return open_cache(open_source(str(self.dataset)), resize, CacheConfig(str(self.root), kind, **options), console)

    def files(self, kind="raw"):
        source = open_source(str(self.dataset))
        return CacheFiles(self.root, cache_spec.make_spec(source, None, kind, 0))


@pytest.fixture
def shelf(toy, tmp_path):
    return Shelf(tmp_path / "shelf", toy / "reach")


def pixels(cache, camera, frames):
    out = torch.empty(len(frames), 3, *cache.spec.cameras[camera], dtype=torch.uint8)
    cache.images(camera, torch.as_tensor(frames), out)
    return out


def decoded(source, key):
    camera = next(c for c in source.cameras if c.key == key)
    runs = [source.images(camera, np.arange(a, b)) for a, b in zip(source.starts, source.ends, strict=True)]
    return torch.cat(runs)


def record(root, lengths, size=(32, 48)):
    rng = np.random.default_rng(sum(lengths))
    names = ("a", "b", "c")
    with dataset_writer(
        root, fps=30, names=names, cameras=("head", "front"), height=size[0], width=size[1], robot="x"
    ) as dataset:
        for length in lengths:
            for _ in range(length):
                images = {c: rng.integers(0, 256, (*size, 3), dtype=np.uint8) for c in ("head", "front")}
                dataset.add_frame(frame("Go.", rng.normal(size=3), rng.normal(size=3), images))
            dataset.save_episode()


@given(st.lists(st.integers(2, 7), min_size=1, max_size=3), st.integers(1, 12))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cached_samples_equal_lerobots(lengths, chunk):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "set"
        record(root, lengths)
        deltas = {"action": [i / 30 for i in range(chunk)]}
        wanted = LeRobotDataset("local/set", root=root, delta_timestamps=deltas, return_uint8=True)
        source = open_source(str(root))
        cache = open_cache(source, None, CacheConfig(f"{scratch}/cache", "raw"), Console(quiet=True))
        lesson = Lesson(Task("go", "Go.", ("left",)), source, np.ones(3, bool), hold=False)
        batches = Batches([lesson], [cache], Layout(None, tuple(range(chunk)), np.zeros(3, bool)))
        every = np.arange(sum(lengths))
        batch = batches.make(Draw(np.zeros_like(every), every, replayed=0))
        batches.close()
        for i in every:
            for key in (STATE, ACTION, "action_is_pad", HEAD, FRONT):
                assert torch.equal(batch[key][i], wanted[int(i)][key]), (i, key)


@pytest.mark.parametrize("key", [HEAD, FRONT])
def test_raw_pixels_are_exactly_the_decoded_ones(shelf, key):
    source, cache = open_source(str(shelf.dataset)), shelf.open()
    assert torch.equal(pixels(cache, key, np.arange(EPISODES * LENGTH)), decoded(source, key))
    np.testing.assert_array_equal(cache.state, source.state)
    np.testing.assert_array_equal(cache.action, source.action)


def test_jpeg_is_close_and_smaller(shelf):
    raw, jpeg = shelf.open("raw"), shelf.open("jpeg")
    every = np.random.default_rng(0).permutation(EPISODES * LENGTH)
    off = (pixels(raw, HEAD, every).int() - pixels(jpeg, HEAD, every).int()).abs().float().mean()
    assert 0 < off < 4
    sizes = [shelf.files(kind).pixels(HEAD).stat().st_size for kind in ("raw", "jpeg")]
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("rule", "source", "kept"),
    [
        (Resize(224, 224, True), (480, 640), (168, 224)),
        (Resize(224, 224, False), (480, 640), (168, 224)),
        (Resize(224, 224, True), (480, 848), (127, 224)),
        (Resize(224, 224, False), (480, 848), (126, 224)),
        (Resize(224, 224, True), (640, 480), (224, 168)),
        (Resize(384, 512, False), (480, 640), (384, 512)),
        (Resize(224, 224, True), (96, 128), (96, 128)),  # enlarging is left to the policy
    ],
)
def test_images_are_kept_at_the_size_the_policy_would_give_them(rule, source, kept):
    assert rule.shrunk(*source) == kept


@pytest.mark.parametrize("source", [(480, 640), (480, 848), (333, 517), (1080, 1920), (97, 31)])
def test_a_policy_that_gets_kept_images_sees_what_it_would_have_made_itself(source):
    from lerobot.policies.common.vla_utils import resize_with_pad, resize_with_pad_torch

    from holdfast.data.resize import scale
    from holdfast.policies.nano.modeling_nano import resize_with_pad as nano

    picture = torch.randint(0, 256, (1, 3, *source), dtype=torch.uint8)
    for rule, policy in (
        (Resize(64, 64, True), lambda x: nano(x, 64)),
        (Resize(64, 64, False), lambda x: resize_with_pad_torch(x, 64, 64)),
        (Resize(64, 64, False), lambda x: resize_with_pad(x, 64, 64, pad_value=0)),
    ):
        kept = scale(picture, rule.shrunk(*source), rule.antialias)
        error = (policy(kept.float() / 255) - policy(picture.float() / 255)).abs().max()
        assert error * 255 < 1.01


def test_a_second_opening_builds_nothing(shelf, built):
    shelf.open()
    assert len(built) == 2 * EPISODES
    shelf.open()
    assert len(built) == 2 * EPISODES


def test_another_size_or_format_is_another_cache(shelf, built):
    keys = {c.spec.key for c in (shelf.open(), shelf.open("jpeg"), shelf.open(resize=Resize(16, 16, True)))}
    assert len(keys) == 3
    assert shelf.open(resize=Resize(64, 64, True)).spec.key in keys  # no smaller than the dataset: the same as native


def hurt(path, place, *, cut=False):
    if cut:
        os.truncate(path, place)
    else:
        with path.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 4]))


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_a_flipped_bit_is_found_and_only_its_block_built_again(shelf, built, kind):
    good = pixels(shelf.open(kind), HEAD, np.arange(EPISODES * LENGTH))
    files = shelf.files(kind)
    block = files.read_blocks()[HEAD, 3]
    hurt(files.pixels(HEAD), block.offset + block.size // 2)
    built.clear()
    mended = shelf.open(kind)
    assert built == [(HEAD, 3)]
    assert shelf.said.getvalue().count("is damaged in 1 of 12 blocks") == 1
    assert torch.equal(pixels(mended, HEAD, np.arange(EPISODES * LENGTH)), good)


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_a_truncated_file_is_found_and_its_end_built_again(shelf, built, kind):
    good = pixels(shelf.open(kind, workers=1), FRONT, np.arange(EPISODES * LENGTH))
    files = shelf.files(kind)
    lost = max(files.read_blocks().values(), key=lambda b: (b.camera == FRONT, b.offset))
    hurt(files.pixels(FRONT), lost.offset + 7, cut=True)
    built.clear()
    mended = shelf.open(kind)
    assert built == [(FRONT, lost.number)]
    assert torch.equal(pixels(mended, FRONT, np.arange(EPISODES * LENGTH)), good)


@pytest.mark.parametrize("name", ["state.npy", "action.npy", "cache.json", "blocks.jsonl"])
def test_damaged_small_files_are_mended_too(shelf, name):
    state = shelf.open().state.copy()
    folder = shelf.files().folder
    hurt(folder / name, (folder / name).stat().st_size // 2)
    cache = shelf.open()
    np.testing.assert_array_equal(cache.state, state)
    assert torch.equal(pixels(cache, HEAD, [5]), decoded(open_source(str(shelf.dataset)), HEAD)[5:6])
    (folder / name).unlink()
    np.testing.assert_array_equal(shelf.open().state, state)


def test_no_block_passes_for_another(shelf, built):
    good = pixels(shelf.open("jpeg"), HEAD, np.arange(EPISODES * LENGTH))
    journal = shelf.files("jpeg").folder / "blocks.jsonl"
    text = journal.read_text()
    journal.write_text(text.replace('"number": 3', '"number": 2'))
    built.clear()
    mended = shelf.open("jpeg")
    assert {number for _, number in built} == {2, 3}
    assert torch.equal(pixels(mended, HEAD, np.arange(EPISODES * LENGTH)), good)


def test_a_dataset_that_changed_gets_a_cache_of_its_own(shelf, toy, built):
    before = shelf.open().spec.key
    shutil.rmtree(shelf.dataset)
    shutil.copytree(toy / "sweep", shelf.dataset)
    built.clear()
    after = shelf.open()
    assert after.spec.key != before
    assert len(built) == 2 * EPISODES
    assert torch.equal(pixels(after, HEAD, [9]), decoded(open_source(str(toy / "sweep")), HEAD)[9:10])


def test_a_video_encoded_anew_is_noticed_even_at_the_same_size(toy):
    before = open_source(str(toy / "reach")).fingerprint
    video = next((toy / "reach").rglob("*.mp4"))
    content = bytearray(video.read_bytes())
    content[-40] ^= 1
    video.write_bytes(content)
    assert open_source(str(toy / "reach")).fingerprint != before


def test_the_same_dataset_elsewhere_shares_the_cache(shelf, tmp_path, built):
    shelf.open()
    shutil.move(shelf.dataset, tmp_path / "moved")
    shelf.dataset = tmp_path / "moved"
    built.clear()
    shelf.open()
    assert built == []


def test_two_cameras_that_change_places_do_not_share_a_cache(shelf):
    from dataclasses import replace

    source = open_source(str(shelf.dataset))

    class Swapped(Source):
        def video_path(self, camera, episode):
            other = {HEAD: FRONT, FRONT: HEAD}[camera.key]
            return super().video_path(replace(camera, key=other), episode)

    swapped = Swapped(**{f: getattr(source, f) for f in source.__dataclass_fields__})
    assert cache_spec.make_spec(swapped, None, "raw", 0).key != cache_spec.make_spec(source, None, "raw", 0).key


def test_a_full_disk_keeps_what_was_built(shelf, built, monkeypatch):
    put, count = cache_build.Writer._put, []

    def full(self, camera, data, place):
        count.append(camera)
        if len(count) > 4:
            raise OSError(28, "No space left on device")
        put(self, camera, data, place)

    monkeypatch.setattr(cache_build.Writer, "_put", full)
    with pytest.raises(HoldfastError, match=r"disk is full.*run the same command again"):
        shelf.open(workers=1)
    monkeypatch.setattr(cache_build.Writer, "_put", put)
    built.clear()
    cache = shelf.open()
    assert len(built) == 2 * EPISODES - 4
    assert torch.equal(pixels(cache, FRONT, [50]), decoded(open_source(str(shelf.dataset)), FRONT)[50:51])


def test_too_little_room_is_said_before_any_work(shelf, built, monkeypatch):
    small = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: small)
    with pytest.raises(HoldfastError, match=r"needs 0\.5 MiB.*0\.0 MiB are free.*--cache\.format=jpeg"):
        shelf.open()
    assert built == []


@pytest.mark.parametrize(("raw", "free", "chosen"), [(10, 20, "raw"), (10, 19, "jpeg"), (2**40, 2**50, "jpeg")])
def test_raw_is_chosen_where_it_fits(raw, free, chosen):
    assert cache_spec.choose_format(raw, free) == chosen


def test_with_auto_a_cache_that_is_there_decides(shelf, built):
    shelf.open("jpeg")
    built.clear()
    assert shelf.open("auto").spec.format == "jpeg"
    assert built == []


def test_the_size_is_known_from_the_header(shelf):
    assert plan_bytes(shelf.dataset, None, CacheConfig(str(shelf.root), "raw")) == shelf.files().spec.bytes
    assert plan_bytes(shelf.dataset / "nowhere", None, CacheConfig()) == 0


def test_a_recording_that_lost_frames_is_refused(shelf, built):
    import pyarrow.parquet as pq

    path = next((shelf.dataset / "meta/episodes").rglob("*.parquet"))
    table = pq.read_table(path)
    name = f"videos/{HEAD}/to_timestamp"
    ends = np.array(table[name].to_pylist())
    ends[2] -= 1 / 30
    pq.write_table(table.set_column(table.column_names.index(name), name, [ends]), path)
    with pytest.raises(HoldfastError, match=r"cannot be trained on: .*head, episode 2: .*13 for 14.*out of step"):
        shelf.open()
    assert built == []


def builder(shelf, log, kill=0):
    """Build in a process of its own, which dies after `kill` finished blocks; returns its number."""
    child = os.fork()
    if child:
        return child
    build, finished, count = cache_build._build, CacheFiles.finished, []

    def logged(writer, source, camera, number):
        with log.open("a") as file:
            file.write(f"{camera.key} {number}\n")
        return build(writer, source, camera, number)

    def dying(self, block):
        finished(self, block)
        count.append(block)
        if len(count) == kill:
            os.kill(os.getpid(), signal.SIGKILL)

    cache_build._build, CacheFiles.finished = logged, dying
    shelf.open("jpeg", workers=1)
    os._exit(0)


def end(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_killed_build_goes_on_and_two_at_once_share_the_work(shelf, tmp_path):
    first, then = tmp_path / "first.log", tmp_path / "then.log"
    assert end(builder(shelf, first, kill=5)) == -signal.SIGKILL
    done = len(shelf.files("jpeg").read_blocks())
    assert 5 <= done < 2 * EPISODES
    both = [builder(shelf, then) for _ in range(2)]
    assert [end(child) for child in both] == [0, 0]
    lines = then.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 2 * EPISODES - done  # the rest, and nothing twice
    fresh = Shelf(tmp_path / "fresh", shelf.dataset)
    every = np.arange(EPISODES * LENGTH)
    assert torch.equal(pixels(shelf.open("jpeg"), FRONT, every), pixels(fresh.open("jpeg"), FRONT, every))


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_processes_build_what_threads_build(shelf, tmp_path, monkeypatch, kind):
    every = np.arange(EPISODES * LENGTH)
    wanted = {key: pixels(shelf.open(kind), key, every) for key in (HEAD, FRONT)}
    monkeypatch.setattr(cache_build, "_FEW", 0)
    monkeypatch.setattr(cache_build, "_build", None)  # of this process
    cache = Shelf(tmp_path / "fresh", shelf.dataset).open(kind, workers=3)
    for key, images in wanted.items():
        assert torch.equal(pixels(cache, key, every), images)


def test_what_goes_wrong_in_a_process_is_said(shelf, monkeypatch):
    monkeypatch.setattr(cache_build, "_FEW", 0)
    monkeypatch.setattr(cache_build, "_check_recording", lambda source: None)
    for video in shelf.dataset.rglob("*.mp4"):
        os.truncate(video, video.stat().st_size // 2)
    with pytest.raises(HoldfastError, match=r"cannot be decoded.*holdfast doctor"):
        shelf.open(workers=3)


def _build_and_die(dataset, root):
    """Die after three blocks, in a process of its own, which leads a group."""
    os.setsid()
    fork_workers()
    finished = CacheFiles.finished

    def dying(self, block):
        finished(self, block)
        if block.number == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    cache_build._FEW, cache_spec.BLOCK, CacheFiles.finished = 0, 1, dying
    open_cache(open_source(dataset), None, CacheConfig(root, "jpeg", 3), Console(quiet=True))


def test_a_killed_build_leaves_no_process_behind_and_goes_on(shelf, tmp_path, built):
    process = FORKED.Process(target=_build_and_die, args=(str(shelf.dataset), str(shelf.root)))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    while alive(process.pid):  # only the test's own limit of time can end this: a worker has outlived the builder
        time.sleep(0.05)
    done = len(shelf.files("jpeg").read_blocks())
    assert 1 <= done < 2 * EPISODES
    every, fresh = np.arange(EPISODES * LENGTH), Shelf(tmp_path / "fresh", shelf.dataset)
    found = pixels(shelf.open("jpeg"), FRONT, every)
    assert len(built) == 2 * EPISODES - done
    assert torch.equal(found, pixels(fresh.open("jpeg"), FRONT, every))


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_reading_needs_no_lerobot():
    code = "import sys, holdfast.data.loader as _; assert not {'lerobot', 'datasets'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_cache_opened_before_a_fork_is_read_after_it(shelf):
    cache = shelf.open("jpeg")
    wanted = int(pixels(cache, HEAD, [3, 60]).sum()) % 251
    child = os.fork()
    if not child:
        os._exit(int(pixels(cache, HEAD, [3, 60]).sum()) % 251)
    assert end(child) == wanted


def test_two_processes_that_write_the_same_numbers_do_not_meet(shelf, monkeypatch):
    """Without the lock, as where a file system has none: each writes a file of its own, and the last one counts."""
    source, files = open_source(str(shelf.dataset)), shelf.files()
    files.folder.mkdir(parents=True)
    save, inner = np.save, []

    def meeting(target, values):
        save(target, values)
        if not inner:  # another process writes all of them in between
            inner.append(True)
            files.write_numbers(source.state, source.action, source.starts)

    monkeypatch.setattr(np, "save", meeting)
    files.write_numbers(source.state, source.action, source.starts)
    assert np.array_equal(np.load(files.folder / "state.npy"), source.state)
    assert sorted(p.name for p in files.folder.iterdir()) == ["action.npy", "cache.json", "episodes.npy", "state.npy"]


@pytest.mark.parametrize("name", ["blocks.jsonl", "head.raw"])
def test_a_pipe_in_a_cache_is_not_waited_for(shelf, name):
    shelf.open()
    files = shelf.files()
    (block, *_) = files.read_blocks().values()
    place = files.pixels(block.camera) if name == "head.raw" else files.folder / name
    place.unlink()
    os.mkfifo(place)
    if name == "head.raw":
        assert not files.is_sound(block)
    else:
        with pytest.raises(HoldfastError, match="not a regular file"):
            files.read_blocks()


def test_a_cache_that_was_deleted_and_begun_again_by_a_killed_process_is_built(shelf):
    first = pixels(shelf.open(), HEAD, [3])
    folder = shelf.files().folder
    for file in folder.iterdir():
        if file.name != "cache.json":
            file.unlink()
    again = open_cache(open_source(str(shelf.dataset)), None, CacheConfig(str(shelf.root), "raw"), Console(quiet=True))
    assert torch.equal(pixels(again, HEAD, [3]), first)

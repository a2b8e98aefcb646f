"""The doctor reads a dataset to its last byte: every image is decoded, every file compared with what it first was."""

import io
import json
import shutil

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from toy_world import write_dataset
from toys import write_numbers

from holdfast import embodiments
from holdfast.core.records import Task
from holdfast.data.doctor.checks import examine
from holdfast.data.lerobot.fingerprint import record_file
from holdfast.data.lerobot.source import open_source
from holdfast.data.lerobot.writer import dataset_writer, frame

HEAD = "observation.images.head"
FPS, LENGTH, EPISODES = 30, 16, 4
CODECS = {"av1": False, "h264": True}  # name -> full_colour


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """One dataset per codec of our recorder, whose images have enough detail for videos of some size."""
    folder = tmp_path_factory.mktemp("recordings")
    for name, full_colour in CODECS.items():
        rng = np.random.default_rng(0)
        room = rng.integers(0, 256, (64, 96, 3), dtype=np.uint8)
        sizes = {"height": 64, "width": 96}
        with dataset_writer(
            folder / name, fps=FPS, names=["x"], cameras=["head"], robot="none", full_colour=full_colour, **sizes
        ) as dataset:
            for _ in range(EPISODES):
                path = np.cumsum(rng.uniform(0, 1, LENGTH))
                for t in range(LENGTH):
                    sight = {"head": np.roll(room, 3 * t, axis=1)}
                    dataset.add_frame(frame("Go.", path[t : t + 1], path[t : t + 1], sight))
                dataset.save_episode()
    return folder


@pytest.fixture(params=CODECS)
def patient(recordings, tmp_path, request, monkeypatch):
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return shutil.copytree(recordings / request.param, tmp_path / "patient")


def video(root):
    return min(root.rglob("*.mp4"))


def packets(path):
    """Place, size and time of every frame in the file."""
    with av.open(str(path)) as container:
        return [(p.pos, p.size, float(p.pts * p.time_base)) for p in container.demux(video=0) if p.size]


def alter(path, offset, count=200):
    content = bytearray(path.read_bytes())
    content[offset : offset + count] = bytes(b ^ 0x55 for b in content[offset : offset + count])
    path.write_bytes(content)


def found(root, kind, **options):
    return [finding for finding in examine(str(root), **options).findings if finding.kind == kind]


def test_a_sound_recording_is_decoded_to_its_last_frame(patient):
    seen = []
    assert examine(str(patient), advance=lambda more, total: seen.append((more, total))).findings == ()
    assert sum(more for more, _ in seen) == EPISODES * LENGTH
    assert {total for _, total in seen} == {EPISODES * LENGTH}


def test_a_frame_that_cannot_be_decoded_is_named_with_file_episode_and_time(patient):
    place, size, seconds = packets(video(patient))[2 * LENGTH]  # the key frame of episode 2
    alter(video(patient), place, count=size)
    (finding,) = found(patient, "damaged-images")
    assert finding.severity == "error"
    assert finding.where.startswith(f"{HEAD}, videos/")
    assert finding.where.endswith("file-000.mp4, episode 2")
    assert finding.detail.startswith("Episode 2, 0.00 s (frame 0): ")
    assert "--operation.episode_indices=[2]" in finding.advice
    assert seconds == pytest.approx(2 * LENGTH / FPS)


def test_damage_that_decodes_is_seen_once_the_dataset_is_known(patient):
    assert examine(str(patient)).findings == ()
    good = video(patient).read_bytes()
    for offset in np.random.default_rng(0).integers(64, len(good) - 200, 5):
        alter(video(patient), int(offset))
        (finding,) = found(patient, "altered-file")
        assert finding.severity == "error"
        assert finding.where.endswith("file-000.mp4")
        assert str(record_file(patient)) in finding.advice
        video(patient).write_bytes(good)
        assert examine(str(patient)).findings == (), "a file that was restored is sound again"


def test_training_in_between_does_not_make_damage_the_norm(patient):
    before = open_source(str(patient)).fingerprint
    alter(video(patient), 500)
    assert open_source(str(patient)).fingerprint != before
    assert len(found(patient, "altered-file")) == 1
    record_file(patient).unlink()  # as the advice says
    assert found(patient, "altered-file") == []


def test_fast_leaves_both_out(patient):
    examine(str(patient))
    place, size, _ = packets(video(patient))[2 * LENGTH + 5]
    alter(video(patient), place, count=size)
    kinds = {finding.kind for finding in examine(str(patient), fast=True).findings}
    assert not kinds & {"damaged-images", "altered-file"}
    assert "altered-file" in {finding.kind for finding in examine(str(patient)).findings}


def test_recording_again_is_not_damage(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    for seed in range(3):
        shutil.rmtree(tmp_path / "reach", ignore_errors=True)
        task, robot = Task("reach", "Reach.", ("left",)), embodiments.load("piper_x_pair")
        write_dataset(tmp_path / "reach", task, robot, episodes=2, length=17, size=32, seed=seed)
        assert examine(str(tmp_path / "reach")).findings == ()


def test_an_edited_header_is_not_damage(patient):
    examine(str(patient))
    header = patient / "meta/info.json"
    header.write_text(header.read_text().replace('"none"', '"nine"'))
    assert examine(str(patient)).findings == ()


def test_a_stored_image_that_cannot_be_decoded_is_named(tmp_path):
    write_numbers(tmp_path / "stored", ("x",), ("x",))
    assert found(tmp_path / "stored", "damaged-images") == []
    table = next((tmp_path / "stored/data").rglob("*.parquet"))
    rows = pq.read_table(table)
    picture = io.BytesIO()
    Image.effect_noise((32, 32), 50).convert("RGB").save(picture, "PNG")
    images = rows["observation.image"].to_pylist()
    images[14]["bytes"] = picture.getvalue()[:200]
    column = rows.schema.get_field_index("observation.image")
    pq.write_table(rows.set_column(column, rows.schema.field(column), [images]), table)
    (finding,) = found(tmp_path / "stored", "damaged-images")
    assert finding.where == "observation.image, tables, episode 1"
    assert finding.detail.startswith("Episode 1, 0.20 s (frame 2): ")


def test_the_command_tells_and_leaves_with_1(patient, capsys):
    from holdfast.commands.doctor import main

    assert main([str(patient), "--json"]) == 0
    alter(video(patient), video(patient).stat().st_size // 2)
    assert main([str(patient), "--fast", "--json"]) == 0
    capsys.readouterr()
    assert main([str(patient), "--json"]) == 1
    assert "altered-file" in {f["kind"] for f in json.loads(capsys.readouterr().out)["findings"]}

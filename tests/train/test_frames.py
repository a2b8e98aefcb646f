"""Training from the frame cache: the weights do not depend on what the cache looked like at the start."""

import json
import shutil

import pytest
from toys import TINY

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.data.cache import cache
from holdfast.data.lerobot.source import Source


def train(toy, *more, code=0, name="run"):
    cache._CHECKED.clear()  # as in a new process
    base = [f"--stream={toy}/stream.toml", f"--output={toy}/{name}", f"--cache.root={toy}/frames", "--device=cpu"]
    assert main(["train", *base, *TINY, "--tasks=[reach, lift]", "--steps=4", "--batch_size=4", *more]) == code
    return toy / name


def weights(run):
    return checked_folder.file_hash(run / "stages" / "02-lift" / "checkpoint" / "policy" / "model.safetensors")


def test_weights_do_not_depend_on_the_state_of_the_cache(toy, capsys):
    first = weights(train(toy, name="first"))
    assert weights(train(toy, name="second")) == first
    for path in (toy / "frames").rglob("*head.raw"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    capsys.readouterr()
    assert weights(train(toy, name="damaged")) == first
    out = capsys.readouterr().out
    assert out.count("is damaged in 1 of 2") == 2
    assert 0 < out.index("is damaged") < out.index("step 4/4")
    shutil.rmtree(toy / "frames")
    assert weights(train(toy, name="removed")) == first


def test_a_second_run_decodes_no_video_and_measures_nothing(toy, monkeypatch):
    first = weights(train(toy, name="first"))

    def refuse(*given):
        raise AssertionError("decoded or measured again")

    monkeypatch.setattr(Source, "images", refuse)
    monkeypatch.setattr("holdfast.data.cache.quantiles.measure", refuse)
    assert weights(train(toy, name="second")) == first


def test_a_run_keeps_the_format_it_began_with(toy, capsys):
    run = train(toy, "--cache.format=jpeg")
    before = weights(run)
    assert json.loads((run / "frames.json").read_text()) == {"reach": "jpeg", "lift": "jpeg"}
    shutil.rmtree(run / "stages" / "02-lift")
    train(toy, "--cache.format=raw", code=2)
    assert "has trained on jpeg frames" in capsys.readouterr().err
    shutil.rmtree(toy / "frames")
    train(toy)  # auto would choose raw
    assert weights(run) == before
    assert not list((toy / "frames").rglob("*.raw"))


def test_a_dry_run_tells_the_size_and_builds_nothing(toy, capsys):
    train(toy, "--dry-run", "--json")
    plan = json.loads(capsys.readouterr().out)
    assert plan["estimate"]["cache_bytes"] == 2 * 6 * 14 * 2 * 3 * 32 * 32
    assert not list((toy / "frames").rglob("*.raw"))


@pytest.mark.parametrize("flag", ["--cache.format=png", "--cache.workers=-1"])
def test_wrong_cache_flags_are_refused(toy, flag, capsys):
    train(toy, flag, code=2)
    assert "cache." in capsys.readouterr().err

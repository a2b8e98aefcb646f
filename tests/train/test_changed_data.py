"""A run goes on with the bytes it was trained on, or says which file differs."""

import json
import shutil

import pytest
from test_engine import train, weights

from holdfast.data.lerobot.fingerprint import partial_fingerprint
from holdfast.data.lerobot.source import Source


def alter(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def interrupt(run, stage="01-reach"):
    """What a kill between the last step and the final checkpoint leaves."""
    shutil.rmtree(run / "stages" / stage / "checkpoint")


def said(capsys):
    return " ".join(capsys.readouterr().err.split())


def test_a_stage_does_not_go_on_with_an_altered_video(toy, capsys):
    run = train(toy, "--tasks=[reach]")
    done = weights(run)
    interrupt(run)
    video = min((toy / "reach").rglob("*.mp4"))
    good = video.read_bytes()
    alter(video)
    train(toy, "--tasks=[reach]", code=2)
    assert f"has changed since its stage: {video.relative_to(toy / 'reach')} differs." in said(capsys)
    assert not (run / "stages/01-reach/checkpoint").exists()
    video.write_bytes(good)
    train(toy, "--tasks=[reach]")
    assert weights(run) == done


def test_an_altered_video_is_not_replayed_and_is_named(toy, capsys):
    run = train(toy, "--tasks=[reach, lift]")
    shutil.rmtree(run / "stages" / "02-lift")
    video = min((toy / "reach").rglob("*.mp4"))
    alter(video)
    train(toy, "--tasks=[reach, lift]", code=2)
    assert f"{video.relative_to(toy / 'reach')} differs" in said(capsys)


def test_data_may_be_mended_before_the_first_step_is_saved(toy, capsys):
    run = train(toy, "--tasks=[reach, lift]", "--norm.floor=0", code=2)  # stopped by the range check of lift
    recorded = json.loads((run / "data_files.json").read_text())["tasks"]["lift"]
    alter(toy / "lift" / "meta" / "stats.json")
    train(toy, "--tasks=[reach, lift]", "--norm.floor=0", code=2)
    assert "would be normalized to" in said(capsys)
    assert json.loads((run / "data_files.json").read_text())["tasks"]["lift"] != recorded


def test_a_run_of_an_older_version_goes_on(toy, monkeypatch):
    whole = train(toy, "--tasks=[reach, lift]", name="whole")
    with monkeypatch.context() as older:
        older.setattr(Source, "fingerprint", property(lambda self: partial_fingerprint(self.root)))
        run = train(toy, "--tasks=[reach, lift]", name="run")
        shutil.rmtree(run / "stages" / "02-lift")
        (run / "data_files.json").unlink()
    train(toy, "--tasks=[reach, lift]", name="run")
    assert weights(run) == weights(whole)


@pytest.mark.parametrize("content", ["[]", "{", '{"tasks": {"reach": 3}}'])
def test_a_damaged_list_of_files_is_named(toy, capsys, content):
    run = train(toy, "--tasks=[reach]")
    interrupt(run)
    (run / "data_files.json").write_text(content)
    train(toy, "--tasks=[reach]", code=2)
    assert "data_files.json cannot be" in said(capsys)

import base64
import io
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml
from PIL import Image
from synthetic import NAMES, write_run, write_video

from holdfast.commands.report import main
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.report.gather import gather
from holdfast.report.page import write
from holdfast.report.videos import clips, strips, together
from holdfast.runs.trials import Trials

EVIL = "<script>alert(1)</script>"


def test_command_writes_page_numbers_and_figures(folders, tmp_path, capsys):
    target = tmp_path / "out" / "compare.html"
    assert main([str(folders["er"]), str(folders["sequential"]), f"--output={target}"]) == 0
    assert capsys.readouterr().out.strip() == str(target)
    assert json.loads((target.parent / "metrics.json").read_text())["runs"][0]["name"] == "er"
    names = {file.name for file in (target.parent / "figures").iterdir()}
    for figure in ("trace-as", "trace-bwt", "matrix-er", "matrix-sequential", "loss-stack_bowls", "heldout"):
        assert {f"{figure}.svg", f"{figure}.png"} <= names
    assert (target.parent / "figures" / "matrix-er.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("linked", ["report", "report/figures"])
def test_a_folder_of_the_report_that_leads_elsewhere_is_refused(tmp_path, linked):
    run, elsewhere = write_run(tmp_path / "run", evaluated=False), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / linked).parent.mkdir(exist_ok=True)
    (run / linked).symlink_to(elsewhere)
    with pytest.raises(HoldfastError, match=f"{linked} is a link; it must be a folder"):
        write([run])
    assert not list(elsewhere.iterdir())


def test_files_of_the_report_are_not_written_through_links(tmp_path):
    run, notes = write_run(tmp_path / "run", evaluated=False), tmp_path / "notes.txt"
    notes.write_text("keep")
    names = [file.relative_to(run) for file in write([run]).parent.rglob("*") if file.is_file()]
    assert len(names) > 2
    for name in names:
        (run / name).unlink()
        (run / name).symlink_to(notes)
    write([run])
    assert notes.read_text() == "keep"
    assert not any((run / name).is_symlink() for name in names)


def test_output_must_be_a_page(tmp_path):
    with pytest.raises(HoldfastError, match=r"\.html file, got .*here\. Try --output="):
        main(["run", f"--output={tmp_path / 'here'}"])


def test_page_asks_for_nothing_outside_itself(page):
    text = page.read_text()
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert not re.search(r"url\((?!#)|@import|fetch\(", text)
    assert "default-src 'none'" in text


def test_values_are_escaped(tmp_path):
    folder = write_run(tmp_path / f"er{EVIL.replace('/', '')}", names=NAMES[:2], trials=2, video=write_video)
    content = yaml.safe_load((folder / "run.yaml").read_text())
    content["tasks"][0]["title"] = EVIL
    content["tasks"][0]["milestones"][0]["text"] = f'"{EVIL}'
    (folder / "run.yaml").write_text(yaml.safe_dump(content))
    trial = Trial(NAMES[0], 2, (), source=EVIL, seed=9, score=0.0, notes=EVIL, operator=EVIL, video="videos/x.mp4")
    shutil.copy(next((folder / "videos").iterdir()), folder / "videos" / "x.mp4")
    Trials(folder / "trials.sqlite").add(trial)
    text = write([folder]).read_text()
    assert text.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in text


def test_a_run_not_evaluated_says_so_and_shows_no_score(tmp_path):
    folder = write_run(tmp_path / "er", names=NAMES[:2], evaluated=False, heldout=False)
    text = write([folder]).read_text()
    assert f"holdfast evaluate {folder}" in text
    assert not re.search(r'class="value">0\.0<', text)
    assert 'id="milestones"' not in text
    assert 'id="heldout"' not in text
    assert 'id="losses"' in text


def test_a_run_not_evaluated_is_not_scored_beside_one_that_is(tmp_path):
    done = write_run(tmp_path / "er", names=NAMES[:2], trials=2)
    waiting = write_run(tmp_path / "sequential", "sequential", names=NAMES[:2], evaluated=False)
    text = write([done, waiting]).read_text()
    row = text[text.index("<tbody>") :].split("<tr>")[2].split("</tr>")[0]
    assert "sequential" in row
    assert row.count("not measured") == 5 + row.count('title="not measured')  # two tasks, AS, BWT, FWT


def test_figures_follow_the_theme_and_the_page_has_no_id_twice(page):
    text = page.read_text()
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert "var(--run-1)" in text
    for reference in re.findall(r'(?:xlink:href="|url\()#([^")]+)', text):
        assert reference in ids


def test_videos_beyond_the_budget_are_linked(folders):
    runs = gather([folders["er"], folders["sequential"]])
    page = folders["er"] / "report" / "index.html"
    size = max(file.stat().st_size for file in (folders["er"] / "videos").iterdir())
    found = clips(runs, ["er", "sequential"], page, budget=3 * size)
    assert len(found) == 30
    assert [clip.inside for clip in found].count(True) == 3
    assert found[0].source.startswith("data:video/mp4;base64,")
    assert found[-1].source.startswith("../../sequential/videos/05-")
    assert (page.parent / found[-1].source).resolve().is_file()


def test_only_videos_of_the_run_itself_are_taken(tmp_path):
    folder = write_run(tmp_path / "er", names=NAMES[:1], trials=1)
    write_video(tmp_path / "outside.mp4", frames=2)
    (folder / "secret.txt").write_text("secret")
    stored = Trials(folder / "trials.sqlite")
    for seed, video in enumerate(("../outside.mp4", "secret.txt", "videos/lost.mp4"), 10):
        stored.add(Trial(NAMES[0], 1, (), source="twin", seed=seed, score=0.0, video=video))
    assert clips(gather([folder]), ["er"], folder / "report" / "index.html") == []


def test_a_video_has_a_poster_of_its_shape_and_a_lost_one_has_none(tmp_path):
    folder = write_run(tmp_path / "er", names=NAMES[:1], trials=1, video=write_video)
    (folder / "videos" / "broken.mp4").write_bytes(b"not a video")
    broken = Trial(NAMES[0], 1, (), source="twin", seed=9, score=0.0, video="videos/broken.mp4")
    Trials(folder / "trials.sqlite").add(broken)
    whole, lost = clips(gather([folder]), ["er"], folder / "report" / "index.html")
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(whole.poster.removeprefix("data:image/jpeg;base64,")))))
    assert picture.shape == (640, 640, 3)
    assert picture[280, 352, 0] > 150, "the square has come to the right: the last picture"
    assert picture[280, 48, 0] < 80
    assert (lost.poster, lost.strip) == ("", [])
    assert len(whole.poster) < 20_000


def test_attempts_at_one_layout_stand_together(tmp_path):
    runs = [write_run(tmp_path / m, m, names=NAMES[:2], trials=2, video=write_video) for m in ("sequential", "er")]
    with Trials(runs[1] / "trials.sqlite") as stored:  # another layout of the other arena is not compared
        stored.add(replace(stored.all()[0], source="other", score=0.0))
    judged = gather(runs)
    labels = [f"{run.name}, {run.source}" for run in judged]
    found = clips(judged, labels, tmp_path / "index.html")
    bowls, _ = together(found).values()
    assert [(group.stage, [clip.label for clip in group.clips]) for group in bowls] == [
        (1, ["sequential, twin", "er, twin"]),
        (1, ["er, other"]),
        (2, ["sequential, twin", "er, twin"]),
    ]
    assert [(strip.title, [clip.label for clip in strip.clips]) for strip in strips(found)] == [
        ("Stack bowls", ["sequential, twin", "er, twin"]),
        ("Hang cup", ["sequential, twin", "er, twin"]),
    ]
    page = write(runs)
    assert {file.name for file in (page.parent / "figures").glob("strip-*.png")} == {
        "strip-1-Stack-bowls.png",
        "strip-2-Hang-cup.png",
    }
    text = page.read_text()
    assert text.count('poster="data:image/jpeg;base64,') == 7
    assert text.count("Play together</button>") == 3


@pytest.mark.parametrize("found", [True, False])
def test_open_opens_the_page(folders, tmp_path, capsys, monkeypatch, found):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or found)
    target = tmp_path / "page.html"
    assert main([str(folders["finetune"]), f"--output={target}", "--open"]) == 0
    assert opened == [target.as_uri()]
    assert ("No browser was found" in capsys.readouterr().out) == (not found)

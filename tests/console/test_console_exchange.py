"""Trials as CSV: out and in again without a change, and nothing half imported."""

import csv
import json
from dataclasses import replace

import pytest
from scoring_runs import make_run

from holdfast.cli import main
from holdfast.console.exchange import export, read
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial, TrialProtocol
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

ADA = Trial(
    task="stack_bowls", stage=2, milestones=("reached", "lifted"), penalties={"green_bowl_knocked": 1}, final=True,
    source="operator", notes='slow, "odd"\nand long; a=b', operator="Ada", times={"reached": 1.1}, seconds=9.3,
    score=37.5, video="rollouts/0001/video.mp4", weights="abc", normalization="def", when=1.8e9 + 1 / 3,
)  # fmt: skip
HEADER = "task,stage,when,operator,milestones,penalties\n"


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "er")


def record_weights(folder, stage, weights):
    """Let a stage's checkpoint have been written with these weights."""
    (checkpoint,) = folder.glob(f"stages/{stage:02d}-*/checkpoint")
    (checkpoint / "manifest.json").write_text(json.dumps({"policy/model.safetensors": weights}))


def stored(folder):
    with Trials(folder / "trials.sqlite") as file:
        return file.all()


def test_what_goes_out_comes_in_again_without_a_change(tmp_path):
    folder = make_run(tmp_path / "er", evaluated=True, trials=3)
    with Trials(folder / "trials.sqlite") as file:
        first = file.add(ADA)
        file.add(replace(ADA, score=None, valid=False, when=ADA.when + 1), supersedes=first)
        file.add(replace(ADA, when=ADA.when + 2))
    assert export([read_run(folder)], tmp_path / "one.csv") == 11
    other = make_run(tmp_path / "other" / "er")
    record_weights(other, 2, ADA.weights)
    assert read([read_run(other)], tmp_path / "one.csv") == (11, 11)
    export([read_run(other)], tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert stored(other) == [replace(trial, run="er") for trial in stored(folder)]
    # Where they came from, and a second time, nothing is added.
    assert read([read_run(folder)], tmp_path / "one.csv") == (11, 0)
    assert read([read_run(other)], tmp_path / "one.csv") == (11, 0)


def test_an_export_of_the_first_form_keeps_its_protocols(tmp_path, folder):
    """It had no column for them: they stood before the notes."""
    rolled = replace(ADA, notes="slow", protocol=TrialProtocol(8, ahead=4, limits=True))
    with Trials(folder / "trials.sqlite") as file:
        file.add(rolled)
    export([read_run(folder)], tmp_path / "new.csv")
    (head, row) = csv.reader((tmp_path / "new.csv").read_text().splitlines())
    assert (head.pop(), row.pop()) == ("protocol", "rolled out, horizon 8, asked 4 ahead")
    row[head.index("notes")] = "rolled out, horizon 8, asked 4 ahead; slow"
    with (tmp_path / "old.csv").open("w") as file:
        csv.writer(file).writerows([head, row])
    assert read([read_run(folder)], tmp_path / "old.csv") == (1, 0)
    other = make_run(tmp_path / "other" / "er")
    record_weights(other, 2, ADA.weights)
    assert read([read_run(other)], tmp_path / "old.csv") == (1, 1)
    assert stored(other) == [replace(rolled, run="er")]
    export([read_run(other)], tmp_path / "old.csv")  # replaces it
    assert (tmp_path / "old.csv").read_bytes() == (tmp_path / "new.csv").read_bytes()


def test_what_a_person_writes_into_the_notes_is_no_protocol(tmp_path, folder):
    (tmp_path / "paper.csv").write_text(
        "task,stage,when,operator,milestones,notes\nstack_bowls,1,4,Ada,,horizon 8; slow\n"
    )
    read([read_run(folder)], tmp_path / "paper.csv")
    (trial,) = stored(folder)
    assert (trial.notes, trial.protocol) == ("horizon 8; slow", None)
    (tmp_path / "paper.csv").write_text("task,stage,when,operator,milestones,protocol\nstack_bowls,1,5,Ada,,8 steps\n")
    with pytest.raises(HoldfastError, match=r"line 2: .*its protocol must be like 'horizon 8' .*got '8 steps'"):
        read([read_run(folder)], tmp_path / "paper.csv")


def test_a_list_from_paper_is_scored_by_the_rubric(tmp_path, folder, capsys):
    (tmp_path / "paper.csv").write_text(
        HEADER
        + "stack_bowls,1,2026-11-15T10:00:00+00:00,Ada,reached; lifted,green_bowl_knocked\n"
        + "press_button,2,2026-11-15T10:05:00+00:00,Ada,,\n"
        + "stack_bowls,2,2026-11-15T10:10:00+00:00,Ada,reached; stacked,\n"  # a person may leave out those between
    )
    assert main(["score", str(folder), "--import", str(tmp_path / "paper.csv")]) == 0
    assert "3 of them new" in capsys.readouterr().out
    assert [(t.score, t.source, t.when) for t in stored(folder)] == [
        (37.5, "operator", 1794736800.0),
        (0.0, "operator", 1794737100.0),
        (50.0, "operator", 1794737400.0),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("stack_bowl,1,5,Ada,reached,", "line 3, column 'task'.*Did you mean 'stack_bowls'"),
        ("stack_bowls,7,5,Ada,reached,", "line 3, column 'stage'.*Valid: 1, 2"),
        ("stack_bowls,one,5,Ada,reached,", "line 3, column 'stage'.*whole number"),
        ("stack_bowls,1,,Ada,reached,", "line 3, column 'when'"),
        ("stack_bowls,1,yesterday,Ada,reached,", "line 3, column 'when'"),
        ("stack_bowls,1,5,,reached,", "line 3, column 'operator'"),
        ("stack_bowls,1,5,Ada,reachd,", "line 3, column 'milestones'.*Did you mean 'reached'"),
        ("stack_bowls,1,5,Ada,reached,spilled", "line 3, column 'penalties'"),
        ("stack_bowls,1,5,Ada,reached,green_bowl_knocked=x", "line 3, column 'penalties'"),
        ("stack_bowls,1,5,Ada,reached,green_bowl_knocked=1; green_bowl_knocked=0", "every name once"),
        ("stack_bowls,1,5,Ada,reached", "line 3: 5 fields for 6 columns"),
        ("stack_bowls,1,nan,Ada,reached,", "line 3, column 'when'"),
        ("stack_bowls,1,-5,Ada,reached,", "line 3: .*when"),
        ("stack_bowls,1,0001-01-01T00:00:00,Ada,reached,", "line 3, column 'when'|line 3: .*when"),
        ("stack_bowls,1" + "0" * 5000 + ",5,Ada,reached,", "line 3, column 'stage'"),
        ("stack_bowls,1,5," + "x" * 10_001 + ",reached,", "line 3: .*operator"),
        ("stack_bowls,1,5," + "x" * 61 + ",reached,", "line 3: .*operator: .*at most 60"),
        ('stack_bowls,1,5,"Ada\nBob",reached,', "line 4: .*operator"),
        ("stack_bowls,1,5," + "x" * 140_000 + ",reached,", "line 3: not valid CSV"),
    ],
)
def test_one_wrong_row_stops_all_and_is_named(tmp_path, folder, row, problem):
    (tmp_path / "bad.csv").write_text(f"{HEADER}stack_bowls,1,4,Ada,reached,\n{row}\n")
    with pytest.raises(HoldfastError, match=problem):
        read([read_run(folder)], tmp_path / "bad.csv")
    assert stored(folder) == []


@pytest.mark.parametrize(
    "name", ["trials.sqlite", "run.yaml", "mine.csv", "link.csv", "folder.csv", "new.txt", "x" * 300 + ".csv"]
)
def test_an_export_replaces_no_file_that_is_no_export(folder, name):
    with Trials(folder / "trials.sqlite") as file:
        file.add(ADA)
    (folder / "mine.csv").write_text("run,task,my own list\n")
    (folder / "link.csv").symlink_to("trials.sqlite")
    (folder / "folder.csv").mkdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(["score", str(folder), "--export", str(folder / name)]) == 2
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert stored(folder) == [ADA]


@pytest.mark.parametrize("notes", ["plain", "a\rb"])  # without quotes, and with quotes around every field
def test_an_export_replaces_an_earlier_one_at_once(tmp_path, folder, monkeypatch, notes):
    with Trials(folder / "trials.sqlite") as file:
        file.add(replace(ADA, notes=notes))
        export([read_run(folder)], tmp_path / "out.csv")
        before = (tmp_path / "out.csv").read_bytes()
        file.add(replace(ADA, when=ADA.when + 1))
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(HoldfastError, match="cannot be written: No space"):
            export([read_run(folder)], tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == before
    assert export([read_run(folder)], tmp_path / "out.csv") == 2
    (tmp_path / "EMPTY.CSV").touch()
    assert export([read_run(folder)], tmp_path / "EMPTY.CSV") == 2


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("seed", "12345678901234567890123"),
        ("seed", "9999999999999999999"),
        ("seed", "-1"),
        ("seconds", "inf"),
        ("seconds", "-1"),
        ("seconds", "1" + "0" * 30),
        ("seconds", "9e18"),
        ("times", "reached=1000000"),
        ("times", "reached=1e30"),
        ("penalties", "green_bowl_knocked=99999999999999999999"),
        ("score", "1e400"),
        ("notes", "x" * 10_001),
        ("source", "x" * 300),
        ("source", "../twin"),
        ("source", "<b>lab</b>"),
    ],
)
def test_a_value_that_cannot_be_stored_leaves_nothing_written(tmp_path, folder, capsys, column, value):
    head = f"task,stage,when,operator,milestones,{column}\n"
    (tmp_path / "bad.csv").write_text(f"{head}stack_bowls,1,4,Ada,reached,\nstack_bowls,1,5,Ada,reached,{value}\n")
    assert main(["score", str(folder), "--import", str(tmp_path / "bad.csv")]) == 2
    said = capsys.readouterr().err
    assert "line 3" in said
    assert column in said
    assert stored(folder) == []


TEXTS = [
    "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "'=1", "''=1", "'quoted'", "'", "-3.5",
    "＝1", "plain", "a =1", "  two spaces  ", "   ",
]  # fmt: skip


def test_no_text_is_a_formula_and_all_come_back(tmp_path, folder):
    with Trials(folder / "trials.sqlite") as file:
        for number, text in enumerate(TEXTS):
            odd = {"notes": text, "level": f"{text}x", "normalization": text.strip()}
            file.add(replace(ADA, **odd, weights="", when=ADA.when + number))
    export([read_run(folder)], tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    for row in rows:
        for name, field in zip(head, row, strict=True):
            if name in ("stage", "when", "score", "seconds"):
                float(field)
            else:
                assert not field.startswith(tuple("=+-@\t\r\n ＝")), (name, field)
    assert [row[head.index("notes")] for row in rows[:3]] == ["'=cmd|' /C calc'!A0", "'+1", "'-1"]
    other = make_run(tmp_path / "other" / "er")
    assert read([read_run(other)], tmp_path / "out.csv") == (len(TEXTS), len(TEXTS))
    assert [(t.notes, t.level, t.normalization) for t in stored(other)] == [
        (text, f"{text}x", text.strip()) for text in TEXTS
    ]


@pytest.mark.parametrize(
    ("head", "rows", "problem"),
    [
        (
            "",
            ("2026-11-15,Ada,reached", "2026-11-15,Ada,reached; lifted"),
            "line 3: .*line 2 has the same .* finer time",
        ),
        ("", ("2026-11-15,Ada,", "2026-11-15,Ada,"), "line 3: .*line 2 has the same .* finer time"),
        (",seed", ("100,Ada,reached,5", "200,Bob,reached,5"), "line 3: .*line 2 has the same .* Leave the seed"),
    ],
)
def test_rows_that_would_be_dropped_are_refused(tmp_path, folder, capsys, head, rows, problem):
    lines = "".join(f"stack_bowls,1,{row}\n" for row in rows)
    (tmp_path / "paper.csv").write_text(f"task,stage,when,operator,milestones{head}\n{lines}")
    with pytest.raises(HoldfastError, match=problem):
        read([read_run(folder)], tmp_path / "paper.csv")
    assert stored(folder) == []


def test_a_changed_row_is_not_ignored(tmp_path, folder):
    paper = tmp_path / "paper.csv"
    paper.write_text(f"{HEADER}stack_bowls,1,100,Ada,reached,\n")
    assert read([read_run(folder)], paper) == (1, 1)
    assert read([read_run(folder)], paper) == (1, 0)
    paper.write_text(f"{HEADER}stack_bowls,1,50,Ada,,\nstack_bowls,1,100,Ada,reached; lifted,\n")
    with pytest.raises(HoldfastError, match=r"line 3: a stored trial .* To correct the stored one"):
        read([read_run(folder)], paper)
    assert [trial.score for trial in stored(folder)] == [25.0]
    # As the error says:
    export([read_run(folder)], tmp_path / "all.csv")
    text = (tmp_path / "all.csv").read_text().replace("reached", "reached; lifted").replace("25.0", "")
    (tmp_path / "all.csv").write_text(text)
    (folder / "trials.sqlite").rename(folder / "old.sqlite")
    assert read([read_run(folder)], tmp_path / "all.csv") == (1, 1)
    assert [trial.score for trial in stored(folder)] == [50.0]


@pytest.mark.parametrize("wrong", ["damaged", "contradicts"])
def test_what_one_run_cannot_take_no_run_takes(tmp_path, wrong):
    folders = [make_run(tmp_path / name) for name in ("er", "sequential")]
    runs = [read_run(folder) for folder in folders]
    text = "run,task,stage,when,operator,milestones\n"
    if wrong == "damaged":
        (folders[1] / "trials.sqlite").touch()
    else:
        (tmp_path / "first.csv").write_text(f"{text}sequential,stack_bowls,1,4,Ada,reached\n")
        read(runs, tmp_path / "first.csv")
    (tmp_path / "two.csv").write_text(f"{text}er,stack_bowls,1,4,Ada,\nsequential,stack_bowls,1,4,Ada,\n")
    with pytest.raises(HoldfastError, match=r"sequential.*damaged|line 3"):
        read(runs, tmp_path / "two.csv")
    assert stored(folders[0]) == []


def test_no_row_voids_a_cell_with_weights_that_the_run_does_not_know(tmp_path, folder):
    paper, head = tmp_path / "paper.csv", "task,stage,when,operator,milestones,policy\n"

    def take(*rows):
        paper.write_text(head + "".join(f"stack_bowls,1,{row}\n" for row in rows))
        return read([read_run(folder)], paper)

    def counted():
        with Trials(folder / "trials.sqlite") as file:
            return [(trial.weights, trial.score) for trial in file.counted()]

    record_weights(folder, 1, "old")
    take("100,Ada,reached,old")
    record_weights(folder, 1, "good")
    assert take("101,Ada,reached,good", "102,Ada,,") == (2, 2)
    for weights in ("typo", "goo"):
        with pytest.raises(HoldfastError, match=r"line 3, column 'policy': .*stage 1 \(good\)"):
            take("50,Bob,,", f"51,Bob,,{weights}")
    assert counted() == [("good", 25.0), ("", 0.0)]
    assert take("500,Bob,,old") == (1, 1), "known in the cell, and still replaced"
    assert counted() == [("good", 25.0), ("", 0.0)]


def test_a_quote_that_a_person_wrote_stays(tmp_path, folder):
    (tmp_path / "paper.csv").write_text("task,stage,when,operator,milestones,notes\nstack_bowls,1,4,Ada,,'twas slow\n")
    read([read_run(folder)], tmp_path / "paper.csv")
    assert stored(folder)[0].notes == "'twas slow"


def test_a_score_that_is_not_the_rubrics_is_refused(tmp_path, folder):
    (tmp_path / "bad.csv").write_text("task,stage,when,operator,milestones,score\nstack_bowls,1,4,Ada,reached,100\n")
    with pytest.raises(HoldfastError, match="line 2, column 'score': the rubric gives 25, not 100"):
        read([read_run(folder)], tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("task,stage,when", "column 'milestones' is missing"),
        ("task,stage,when,milestone", "Did you mean 'milestones'"),
        ("task,stage,when,milestones,task", "'task' is there twice"),
        ("", "column 'task' is missing"),
    ],
)
def test_a_wrong_header_is_named(tmp_path, folder, header, problem):
    (tmp_path / "bad.csv").write_text(header)
    with pytest.raises(HoldfastError, match=problem):
        read([read_run(folder)], tmp_path / "bad.csv")


def test_rows_of_several_runs_find_their_run(tmp_path):
    runs = [read_run(make_run(tmp_path / name)) for name in ("er", "sequential")]
    text = "run,task,stage,when,operator,milestones\n"
    (tmp_path / "two.csv").write_text(text + "sequential,stack_bowls,1,4,Ada,reached\ner,stack_bowls,2,4,Ada,\n")
    assert read(runs, tmp_path / "two.csv") == (2, 2)
    assert [t.stage for t in stored(tmp_path / "er")] == [2]
    (tmp_path / "none.csv").write_text(text + ",stack_bowls,1,4,Ada,reached\n")
    with pytest.raises(HoldfastError, match="line 2, column 'run'"):
        read(runs, tmp_path / "none.csv")

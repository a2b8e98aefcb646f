import io
import json

import pytest

from holdfast.commands.metrics import main
from holdfast.core.errors import HoldfastError

CSV = "stage,stack_bowls,hang_cup\n1,100,\n2,70,90\nbaseline,95,80\n"
TRIALS = {"tasks": ["a[b]", "b"], "cells": [[[100, 50]], [[50, 25], [75, 100]]]}


def run(path, capsys, *flags):
    assert main([str(path), *flags]) == 0
    return capsys.readouterr().out


def test_json_output_holds_every_metric(tmp_path, capsys):
    (tmp_path / "scores.csv").write_text(CSV)
    assert json.loads(run(tmp_path / "scores.csv", capsys, "--json")) == {
        "tasks": ["stack_bowls", "hang_cup"],
        "stages": [1, 2],
        "as": [100, 80],
        "bwt": [None, -30],
        "fwt": [None, 10],
        "intervals": {"as": [None, None], "bwt": [None, None], "fwt": [None, None]},
        "missing": {"as": [[], []], "bwt": [[], []], "fwt": [[], []]},
    }


def test_json_output_gives_intervals_and_what_is_missing(tmp_path, capsys):
    (tmp_path / "scores.json").write_text(json.dumps(TRIALS))
    result = json.loads(run(tmp_path / "scores.json", capsys, "--json"))
    low, high = result["intervals"]["bwt"][1]
    assert low < result["bwt"][1] == -37.5 < high
    assert result["intervals"]["fwt"] == [None, None]
    assert result["missing"]["fwt"] == [[], ["baseline of b"]]


def test_tables_show_matrix_and_metrics(tmp_path, capsys):
    (tmp_path / "scores.csv").write_text(CSV)
    words = [line.split() for line in run(tmp_path / "scores.csv", capsys).splitlines()]
    assert ["hang_cup", "-", "90.0", "80.0"] in words
    assert ["2", "80.0", "-30.0", "+10.0"] in words
    assert "measured" not in str(words)


def test_tables_show_intervals_and_print_names_as_they_are(tmp_path, capsys):
    (tmp_path / "scores.json").write_text(json.dumps(TRIALS))
    out = run(tmp_path / "scores.json", capsys)
    assert "a[b]" in out
    assert "-37.5 [-75.0, +0.0]" in out
    assert "95 % intervals" in out
    assert out.endswith("\nNo baseline was given, so there is no fwt.\n")


def test_missing_scores_are_named_in_lines_of_their_own(tmp_path, capsys):
    obj = {"tasks": ["a[b]", "b", "c"], "cells": [[100], [None, 60]], "baseline": [1, None, 2]}
    (tmp_path / "scores.json").write_text(json.dumps(obj))
    assert run(tmp_path / "scores.json", capsys).splitlines()[-4:] == [
        "Stage 2: no as, not measured: a[b] after stage 2.",
        "Stage 2: no bwt, not measured: a[b] after stage 2.",
        "Stage 2: no fwt, not measured: baseline of b.",
        "Stage 3 was not measured.",
    ]


def test_numbers_of_ten_stages_stay_on_one_line(tmp_path, capsys):
    obj = {"tasks": [f"place_fruits_{i}" for i in range(10)], "cells": [[100.0] * j for j in range(1, 11)]}
    (tmp_path / "scores.json").write_text(json.dumps(obj))
    assert ["place_fruits_0", *["100.0"] * 10] in [
        line.split() for line in run(tmp_path / "scores.json", capsys).split("\n")
    ]


def test_dash_reads_json_from_standard_input(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(TRIALS)))
    assert json.loads(run("-", capsys, "--json"))["as"] == [75, 62.5]


def test_help_shows_both_forms(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert '"cells": [[100], [80, 95], [75, 90, 100]]' in out
    assert "stage,stack_bowls,hang_cup,press_button" in out


@pytest.mark.parametrize("form", ["json", "csv"])
def test_examples_in_the_help_work(form, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    help_text = capsys.readouterr().out
    start = {"json": '  {"tasks"', "csv": "  stage,"}[form]
    example = help_text[help_text.index(start) :].split("\n\n")[0]
    (tmp_path / f"scores.{form}").write_text(example)
    assert json.loads(run(tmp_path / f"scores.{form}", capsys, "--json"))["bwt"] == [None, -20, -15]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("scores.json", b'{"tasks": ["a"],\n "cells": [[1]', r"scores.json: not valid JSON.*line 2, column \d+"),
        ("scores.json", b"[1]", "scores.json: .*object"),
        ("scores.csv", b"stage,a\n1,x\n", "scores.csv: a after stage 1"),
        ("scores.txt", b"1", r"scores.txt must end in .json or .csv"),
        ("scores.csv", b"\xff\xfe", "UTF-8"),
    ],
)
def test_bad_file_is_explained(name, content, says, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HoldfastError, match=says):
        main([str(tmp_path / name)])


def test_missing_file_and_folder_are_explained(tmp_path):
    with pytest.raises(HoldfastError, match=r"no file .*none.json.*--help"):
        main([str(tmp_path / "none.json")])
    with pytest.raises(HoldfastError, match="is a folder"):
        main([str(tmp_path)])


def test_bad_standard_input_is_explained(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(HoldfastError, match=r"standard input: not valid JSON.*line 1"):
        main(["-"])

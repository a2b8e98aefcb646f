import io
import json

import pytest
from report.synthetic import judge_by_hand, write_run

from holdfast.commands.metrics import main
from holdfast.core.errors import HoldfastError
from holdfast.report.page import write

CSV = "stage,stack_bowls,hang_cup\n1,100,\n2,70,90\nbaseline,95,80\n"
TRIALS = {"tasks": ["a[b]", "b"], "cells": [[[100, 50]], [[50, 25], [75, 100]]]}


def stdin(content):
    return io.TextIOWrapper(io.BytesIO(content))


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


@pytest.fixture
def judged(tmp_path):
    """A run that the twin and an operator have judged, with its report."""
    folder = write_run(tmp_path / "er", names=("stack_bowls", "hang_cup"), trials=4, heldout=False)
    judge_by_hand(folder, {(1, 1): [50.0, 100.0], (1, 2): [25.0, 0.0], (2, 2): [75.0, 75.0]})
    write([folder])
    return folder


def test_a_run_is_read_with_a_matrix_for_every_source(judged, capsys):
    out = run(judged, capsys)
    assert [line.split(" ─")[0] for line in out.splitlines() if "judged by" in line] == [
        "er, judged by twin",
        "er, judged by operator",
    ]
    assert ["stack_bowls", "75.0", "12.5"] in [line.split() for line in out.splitlines()]
    twin, operator = json.loads(run(judged, capsys, "--json"))
    assert (operator["run"], operator["source"], operator["as"], operator["bwt"]) == (
        "er", "operator", [75.0, 43.75], [None, -62.5]
    )  # fmt: skip
    assert twin["source"] == "twin"
    assert json.loads(run(judged, capsys, "--json", "--source", "operator")) == [operator]


@pytest.mark.parametrize("flags", [["--json"], [], ["--source", "operator"]])
def test_the_numbers_of_a_report_say_what_the_run_says(judged, capsys, flags):
    assert run(judged / "report" / "metrics.json", capsys, *flags) == run(judged, capsys, *flags)


def test_a_run_without_stages_has_the_mean_of_every_task(tmp_path, capsys):
    folder = write_run(tmp_path / "joint", "joint", names=("stack_bowls", "hang_cup"), trials=4, heldout=False)
    out = run(folder, capsys)
    assert "of 4 trials" in out
    assert "Stage 1" not in out


def test_a_run_that_learned_each_task_alone_gives_fwt_by_source(judged, tmp_path, capsys):
    assert "fwt" not in run(judged, capsys, "--source", "operator").replace("there is no fwt", "")
    alone = write_run(tmp_path / "finetune", "finetune", names=("hang_cup", "stack_bowls"), trials=4, heldout=False)
    judge_by_hand(alone, {(1, 1): [50.0, 60.0], (2, 2): [90.0, 80.0]})
    operator = json.loads(run(judged, capsys, "--json", "--source", "operator", "--baseline", str(alone)))
    assert [entry["fwt"] for entry in operator] == [[None, 75.0 - 55.0]], "the second task by name, not by place"
    shown = run(judged, capsys, "--baseline", str(alone))
    assert shown.count("judged by") == 2, "the baseline itself is not shown"
    assert ["stage", "as", "bwt", "fwt"] in [line.split() for line in shown.splitlines()]


def test_a_baseline_that_cannot_be_one_is_refused(judged, tmp_path):
    with pytest.raises(HoldfastError, match=r"trained with --method=er.*--method=finetune"):
        main([str(judged), "--baseline", str(judged)])
    untried = write_run(tmp_path / "finetune", "finetune", names=("stack_bowls",), evaluated=False)
    with pytest.raises(HoldfastError, match="holdfast evaluate"):
        main([str(judged), "--baseline", str(untried)])
    (tmp_path / "scores.csv").write_text(CSV)
    with pytest.raises(HoldfastError, match=r"give a row 'baseline'"):
        main([str(tmp_path / "scores.csv"), "--baseline", str(untried)])


def test_a_source_that_is_not_there_is_named(judged, tmp_path):
    with pytest.raises(HoldfastError, match=r"'operater'.*Did you mean 'operator'"):
        main([str(judged), "--source", "operater"])
    (tmp_path / "scores.csv").write_text(CSV)
    with pytest.raises(HoldfastError, match="holds scores of no source"):
        main([str(tmp_path / "scores.csv"), "--source", "twin"])
    with pytest.raises(HoldfastError, match="has no trials yet"):
        main([str(write_run(tmp_path / "new", names=("stack_bowls",), evaluated=False))])
    (tmp_path / "metrics.json").write_text('{"runs": [{"name": "er"}]}')
    with pytest.raises(HoldfastError, match=r"metrics\.json: run 1 has no scores.*holdfast report"):
        main([str(tmp_path / "metrics.json")])


def test_a_report_of_endless_runs_is_refused(tmp_path):
    scores = {"tasks": [f"t{n}" for n in range(1000)], "cells": [[50] * 1000]}
    one = {"name": "er", "source": "twin", "continual": True, "scores": scores}
    (tmp_path / "metrics.json").write_text(json.dumps({"runs": [one, one, one]}))
    with pytest.raises(HoldfastError, match=r"at most 2000 tasks.*, got 3000 and 3000"):
        main([str(tmp_path / "metrics.json")])


def test_dash_reads_json_from_standard_input(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", stdin(json.dumps(TRIALS).encode()))
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
        ("scores.json", b'{"tasks": ["a"],\n "cells": [[1]', r"scores.json: .*not valid JSON.*line 2, column \d+"),
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
    with pytest.raises(HoldfastError, match="is not a run"):
        main([str(tmp_path)])


@pytest.mark.parametrize(("content", "says"), [(b"", "not valid JSON.*line 1"), (b'"\xff"', "UTF-8")])
def test_bad_standard_input_is_explained(content, says, monkeypatch):
    monkeypatch.setattr("sys.stdin", stdin(content))
    with pytest.raises(HoldfastError, match=f"standard input.*{says}"):
        main(["-"])


def one_score(text):
    return f'{{"tasks": ["a", "b"], "cells": [[{text}], [1, 2]]}}'


HOSTILE = {
    "400 digits": ("json", one_score("9" * 400), r"cells\[0\]\[0\] is a whole number beyond 64 bits"),
    "5000 digits": ("json", one_score("9" * 5000), "thousand digits"),
    "half a pair": ("json", one_score("1").replace('"a"', r'"\ud800"'), r"tasks\[0\] is not well-formed Unicode"),
    "two lines": ("csv", 'stage,"a\nb"\n1,1', "needs the names of its tasks"),
    "deep": ("json", one_score("[" * 200_000), "nested too deeply"),
    "vast": ("json", one_score("1e308"), r"Score 1e\+308 of a after stage 1 must be a finite number of at most 1e\+15"),
    "infinite": ("json", one_score("1e999"), "is inf, not a finite number"),
    "long field": ("csv", "stage,a\n1," + "1" * 140_000, "field larger than field limit .* line 2"),
    "vast in CSV": ("csv", "stage,a\n1,1e308", "at most"),
    "stage of 5000 digits": ("csv", "stage,a\n" + "1" * 5000 + ",1", "starts with its stage"),
    "odd digit": ("csv", "stage,a\n²,1", "starts with its stage"),
    "many tasks": ("csv", "stage," + ",".join(map(str, range(2001))) + "\n1,1", "at most 2000 tasks, got 2001"),
    "many trials": ("json", one_score([1] * 200_001), "at most 200000 trials, got 200001"),
}


@pytest.mark.parametrize(("form", "text", "says"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(form, text, says, tmp_path):
    (tmp_path / f"scores.{form}").write_text(text)
    with pytest.raises(HoldfastError, match=rf"scores\.{form}: .*{says}") as caught:
        main([str(tmp_path / f"scores.{form}"), "--json"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_thousand_tasks_are_no_trouble(flags, tmp_path, capsys):
    tasks = [f"task_{i}" for i in range(1000)]
    (tmp_path / "scores.json").write_text(json.dumps({"tasks": tasks, "cells": [[50] * j for j in range(1, 1001)]}))
    out = run(tmp_path / "scores.json", capsys, *flags)
    if flags:
        assert json.loads(out)["as"] == [50] * 1000
        assert json.loads(out)["missing"]["fwt"][-1][-2:] == ["baseline of task_100", "899 more"]
    else:
        assert "too wide for a table" in out
        assert ["1000", "50.0", "+0.0"] in [line.split() for line in out.splitlines()]

"""Claims of a study: how they are read, what is refused before any work, and what they are judged to be."""

import json
from dataclasses import replace
from unittest.mock import MagicMock

import pytest
from made_up_study import results, study
from rich.console import Console

from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.studies import Study, load_study, shipped
from holdfast.studies.claims import verdict
from holdfast.studies.statistics import StudyFigure
from holdfast.studies.study import StudyClaim
from holdfast.studies.summary import summary
from holdfast.studies.summary_table import summary_tables

ER, SEQUENTIAL = {"method": "er"}, {"method": "sequential"}
FORGETS_LESS = StudyClaim("Replay forgets less.", "bwt", ER, SEQUENTIAL)
STUDY = """
name = "s"
seeds = [1]
[train]
stream = "single_arm"
policy.type = "nano"
[[grid]]
method = ["sequential", "joint"]
[[grid]]
method = "er"
stream = ["single_arm", "bimanual"]
replay.frequency = [0.2, 0.5]
[evaluate]
trials = 2
[[claim]]
text = "Replay forgets less."
metric = "bwt"
better = { method = "er", stream = "single_arm", replay.frequency = 0.2 }
worse = { method = "sequential" }
than = 1
paper = "1.5 against -81.0"
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


def judged(claim, score, **options):
    """The one claim of a made-up study of three seeds, as it stands in its summary."""
    made = study("sequential", "er", "joint", "finetune", claims=[claim])
    (found,) = summary(results(made, score, **options))["claims"]
    return found


def keeps(flags, seed, i, j, layout):
    """`sequential` forgets 30 points, `er` 2; seeds and layouts vary."""
    lost = {"sequential": 30, "er": 2}.get(flags["method"], 0) if j > i else 0
    return 70 + seed % 2 + layout % 3 + (seed + i + j) % 2 - lost


@pytest.mark.parametrize(
    ("low", "high", "than", "said"),
    [
        (1, 5, 0, "holds"),
        (-5, -1, 0, "does not hold"),
        (-1, 1, 0, "undecided"),
        (0, 1, 0, "undecided"),
        (-4, 1, -5, "holds"),
        (1, 5, 6, "does not hold"),
        (None, None, 0, "undecided"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low, high, than, said):
    assert verdict(StudyFigure(1.0, low, high, 3, 60), than) == said


def test_one_seed_decides_nothing():
    assert verdict(StudyFigure(3.0, 1.0, 5.0, seeds=1, trials=20), 0.0) == "undecided"


def test_what_has_no_value_was_not_measured():
    assert verdict(StudyFigure(), 0.0) == "not measured"


def test_a_claim_is_judged_by_the_paired_difference():
    found = judged(FORGETS_LESS, keeps)
    assert found["verdict"] == "holds"
    assert found["difference"]["value"] == pytest.approx(28)
    assert (found["better"], found["worse"], found["seeds"]) == ("er", "sequential", 3)
    assert found["trials"] == 2 * 3 * 8 * 4  # groups, seeds, layouts; two tasks, each after its own and the last stage
    turned = StudyClaim("Replay forgets more.", "bwt", SEQUENTIAL, ER)
    assert judged(turned, keeps)["verdict"] == "does not hold"
    assert judged(StudyClaim("By 28.", "bwt", ER, SEQUENTIAL, than=28.0), keeps)["verdict"] == "undecided"


def test_a_loss_may_be_claimed_to_be_small():
    small = StudyClaim("Joint training is at most 5 points better.", "average_score", ER, {"method": "joint"}, than=-5)
    assert judged(small, keeps)["verdict"] == "holds"


def test_without_worse_the_value_itself_is_judged():
    found = judged(StudyClaim("Replay loses less than 5 points.", "bwt", ER, than=-5), keeps)
    assert found["verdict"] == "holds"
    assert found["worse"] is None
    assert found["difference"]["value"] == pytest.approx(-2, abs=1)
    assert judged(StudyClaim("Tasks help.", "fwt", ER), keeps)["verdict"] == "undecided"


def test_a_claim_on_runs_without_trials_was_not_measured():
    found = judged(FORGETS_LESS, lambda flags, *rest: keeps(flags, *rest) if flags["method"] == "er" else None)
    assert found["verdict"] == "not measured"
    assert found["difference"]["value"] is None
    assert (found["seeds"], found["trials"]) == (0, 0)
    made = results(study("sequential", "er", claims=[FORGETS_LESS]), keeps)
    (found,) = summary(replace(made, groups=made.groups[:1]))["claims"]
    assert found["verdict"] == "not measured"


def test_a_claim_is_read_from_the_study_and_back_from_json(file):
    (claim,) = load_study(str(file)).claims
    assert claim.better == {"method": "er", "stream": "single_arm", "replay.frequency": 0.2}
    assert (claim.worse, claim.than, claim.paper) == (SEQUENTIAL, 1.0, "1.5 against -81.0")
    study = load_study(str(file))
    assert from_json(Study, json.loads(json.dumps(to_json(study))), "study") == study


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{ method = "sequential" }', '{ method = "ewc" }', "picks no group of runs. There are: single_arm-sequential"),
        ('{ method = "sequential" }', '{ method = "er" }', "picks several groups of runs: single_arm-er-"),
        ("frequency = 0.2 }", "frequencie = 0.2 }", "picks no group"),
        ('{ method = "sequential" }', '"sequential"', "'worse' must be a table"),
        ('worse = { method = "sequential" }', 'worst = { method = "sequential" }', "Unknown key 'worst'"),
        ('metric = "bwt"', 'metric = "forgetting"', "Unknown 'metric' 'forgetting'"),
        ('metric = "bwt"\n', "", "claim 1 lacks metric"),
        ("than = 1", 'than = "1"', "'than' must be a finite number"),
        ('text = "Replay forgets less."', 'text = ""', "'text' must be one line of text"),
        ('text = "Replay forgets less."', r'text = "\u001b[2J"', "'text' must be one line of text"),
        ("[[claim]]", "[claim]", "'claim' must be tables in double brackets"),
        ('{ method = "sequential" }', '{ method = "joint" }', "joint has no bwt"),
        ('metric = "bwt"', 'metric = "fwt"', "fwt needs hang_cup, press_button, fold_towel, push_box learned alone"),
        ('stream = "single_arm", rep', 'stream = "bimanual", rep', "learn different tasks"),
        ("[evaluate]\ntrials = 2", "", "needs trials"),
        (
            'worse = { method = "sequential" }',
            'worse = { method = "er", stream = "single_arm", replay.frequency = 0.2 }',
            "pick the same group of runs",
        ),
    ],
)
@pytest.mark.parametrize("action", ["plan", "run"])
def test_a_claim_that_cannot_be_judged_is_refused_in_one_line(file, tmp_path, capsys, action, old, new, said):
    assert old in STUDY
    file.write_text(STUDY.replace(old, new))
    assert main(["study", action, str(file), f"--output={tmp_path}/out"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_good_claim_is_planned(file, capsys):
    assert main(["study", "plan", str(file)]) == 0
    assert "6 runs" in capsys.readouterr().out


def test_claims_of_a_study_that_was_started_may_change_and_nothing_else(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("holdfast.commands.study._carry_out", lambda *arguments: 0)
    for name in ("Cluster", "print_report"):
        monkeypatch.setattr(f"holdfast.commands.study.{name}", MagicMock())
    run = ["study", "run", str(file), f"--output={tmp_path}/out"]
    assert main(run) == 0
    file.write_text(STUDY.replace("than = 1", "than = 2"))
    assert main(run) == 0
    stored = json.loads((tmp_path / "out" / "study.json").read_text())
    assert [claim["than"] for claim in stored["claims"]] == [2.0]
    del stored["claims"]  # a folder from before there were claims
    (tmp_path / "out" / "study.json").write_text(json.dumps(stored))
    assert main(run) == 0
    file.write_text(STUDY.replace("trials = 2", "trials = 3"))
    assert main(run) == 2
    assert "another version of study 's'" in capsys.readouterr().err


def test_shipped_studies_claim_what_the_paper_reports():
    # Of methods, policies, tasks and settings that the paper does not have.
    own = {"methods", "methods-mini", "memory-mini", "findings-mini", "heterogeneous-mini", "normalization-mini"}
    own |= {"methods-twin-mini", "orders-mini", "act-mini", "act-cw10", "cw10", "recipes"}
    claims = [claim for name in {*shipped()} - own for claim in load_study(name).claims]
    assert all(claim.paper for claim in claims)
    assert {claim.metric for claim in claims} == {"average_score", "bwt", "fwt"}


def test_a_stored_claim_is_checked_too():
    with pytest.raises(HoldfastError, match="'than' must be a finite number, got nan"):
        StudyClaim("a", "bwt", ER, than=float("nan"))


def test_an_unclear_pick_names_the_flags():
    with pytest.raises(HoldfastError, match=r"claim 1: 'better' \(steps = 3\) picks no group of runs. There are: er, "):
        study("er", "joint", claims=[StudyClaim("a", "bwt", {"steps": 3})]).check_picks()


def test_a_mistyped_flag_is_told_before_the_claim_that_names_it(file, capsys):
    file.write_text(STUDY.replace("replay.frequency = [0.2", "replay.freqency = [0.2"))
    assert main(["study", "plan", str(file)]) == 2
    assert "Unknown flag '--replay.freqency'. Did you mean '--replay.frequency'?" in capsys.readouterr().err


def test_the_terminal_shows_groups_and_verdicts_as_they_are():
    claims = [FORGETS_LESS, StudyClaim("[red]Replay[/] keeps 99.", "average_score", ER, than=99)]
    found = summary(results(study("sequential", "er", claims=claims), keeps))
    text = shown(found)
    er = found["groups"][1]["bwt"]
    assert f"{er['value']:.1f} [{er['low']:.1f}, {er['high']:.1f}]" in text
    assert "[red]Replay[/] keeps 99." in text
    assert " holds" in text
    assert "does not hold" in text
    assert "one seed" not in text
    one = shown(summary(results(study("er", seeds=[1]), keeps)))
    assert "one seed: layouts only" in " ".join(one.split())
    assert "Claims" not in one


def test_a_study_has_a_bounded_number_of_claims():
    with pytest.raises(HoldfastError, match="'claim' must be at most 100, got 101"):
        study("er", "sequential", claims=101 * [FORGETS_LESS])


def test_sources_are_shown_as_they_are():
    made = replace(results(study("er"), keeps), others={"[/b]x": 3})
    assert "3 of [/b]x" in " ".join(shown(summary(made)).split())
    made = replace(made, others={"\x1b[31mx": 3}, source="\x1b]0;x\x07")
    assert not {"\x1b", "\x07"} & set(shown(summary(made)))


def test_a_narrow_terminal_cuts_no_number():
    found = summary(results(study("sequential", "er", claims=[FORGETS_LESS]), keeps))
    text = shown(found, width=80)
    assert "…" not in text
    assert "FWT  " not in text  # no task was learned alone, so there is no column


def test_the_terminal_calls_groups_as_the_page_does_and_says_what_the_words_mean():
    found = summary(results(study("er", **{"replay.frequency": [0.05, 0.5]}), keeps))
    text = " ".join(shown(found).split())
    assert " f_r 0.05 " in text
    assert "f_r: replay frequency" in text
    assert "BWT: change of earlier tasks" in text


def shown(found, width=110):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(summary_tables(found))
    return capture.get()

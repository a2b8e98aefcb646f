"""A Markdown page made of evidence: what stands between its markers, and what its prose may not say."""

import json

import pytest
from studied import edit_trials, write_folder, write_study

from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.studies import load_study
from holdfast.studies.docs_page import write_page
from holdfast.studies.evidence_file import SUFFIX
from holdfast.studies.figures.plot import ShownGroup, ShownStream
from holdfast.studies.history import EndedJob, write_ended
from holdfast.studies.jobs import StudyFolder
from holdfast.studies.markdown import tasks_table

CLAIMS = """
[[claim]]
text = "Replay | scores more than <b>joint</b> training."
metric = "average_score"
better = { method = "er" }
worse = { method = "joint" }
paper = "AS 97.2 against 82.6"
[[claim]]
text = "With replay, old tasks lose less than 5 points."
metric = "bwt"
better = { method = "er" }
than = -5
"""


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    """A folder of pages with the evidence of a made-up study, and its report."""
    folder = tmp_path_factory.mktemp("docs")
    file = write_study(folder / "study")
    file.write_text(file.read_text() + CLAIMS)
    runs = write_folder(file, folder / "runs")
    for seed, seconds in ((1, 90.0), (2, 150.0)):
        write_ended(StudyFolder(runs), EndedJob(f"train-er-{seed}", "train", "", seconds, 8))
    (folder / "evidence").mkdir()
    packed = folder / "evidence" / f"mini{SUFFIX}"
    assert main(["study", "pack", str(runs), f"--output={packed}"]) == 0
    assert main(["study", "report", str(packed), f"--output={folder / 'report'}"]) == 0
    return folder


@pytest.fixture(scope="module")
def report(docs):
    return json.loads((docs / "report" / "report" / "metrics.json").read_text())


def block(docs, words):
    """What stands in a block."""
    page = f"Before.\n\n<!-- begin {words} -->\nold\n<!-- end -->\n\nAfter.\n"
    written = write_page(page, docs)
    assert written.text.startswith("Before.\n\n<!-- begin ")
    assert written.text.endswith("<!-- end -->\n\nAfter.\n")
    assert write_page(written.text, docs) == written, "written again, it is the same"
    return written.text.partition("-->\n")[2].rpartition("<!-- end")[0].strip(), written.files


def cells(line):
    return [cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")]


def number(figure, sign="+"):
    value, low, high = (format(figure[key], f"{sign}.1f") for key in ("value", "low", "high"))
    return f"{value} ({low}\xa0to\xa0{high})".replace("+0.0", "0.0")


def test_claims_stand_with_verdict_difference_and_what_the_paper_reports(docs, report):
    head, _, first, second = block(docs, "claims mini")[0].splitlines()
    assert cells(head) == ["claim", "verdict", "ours", "the paper reports"]
    one, two = report["claims"]
    assert cells(first) == [
        "Replay ¦ scores more than &lt;b>joint&lt;/b> training.",
        f"**{one['verdict']}**",
        f"AS difference {number(one['difference'])}; 2 seeds, {one['trials']} trials",
        "AS 97.2 against 82.6",
    ]
    assert cells(second)[2].startswith(f"BWT {number(two['difference'])}, to be above -5; 2 seeds")
    assert block(docs, "claims mini 2")[0].splitlines()[2:] == [second.removesuffix("|  |") + "|"]


def test_groups_and_tasks_have_the_numbers_of_the_report(docs, report):
    head, _, *lines = block(docs, "groups mini")[0].splitlines()
    assert cells(head) == ["runs", "AS", "BWT", "FWT", "seeds", "trials"]
    for line, group in zip(lines, report["groups"], strict=True):
        transfer = [number(group[metric]) if group["continual"] else "" for metric in ("bwt", "fwt")]
        assert cells(line)[:4] == [group["label"], number(group["average_score"], ""), *transfer]
        assert cells(line)[4:] == ["2", str(group["trials"])]
    _, _, head, _, *lines = block(docs, "tasks mini")[0].splitlines()
    assert cells(head) == ["runs", *(task["title"] for task in report["streams"][0]["tasks"])]
    for line, group in zip(lines, report["groups"], strict=True):
        assert cells(line) == [group["label"], *task_cells(group)]


def task_cells(group):
    finals = [f"{task['final']['value']:.1f}" for task in group["tasks"]]
    if not group["continual"]:
        return finals
    return [f"{task['after_own']['value']:.1f} → {f}" for task, f in zip(group["tasks"], finals, strict=True)]


def test_groups_are_columns_where_there_are_no_more_of_them_than_tasks(report):
    titles = [task["title"] for task in report["streams"][0]["tasks"]]
    groups = report["groups"][: len(titles)]
    shown = tuple(ShownGroup(0, 0, group["label"], group["label"], group, None) for group in groups)
    head, _, *lines = tasks_table(ShownStream("", "", report["streams"][0], shown)).splitlines()
    assert cells(head) == ["task", *(group["label"] for group in groups)]
    rows = zip(*map(task_cells, groups), strict=True)
    assert [cells(line) for line in lines] == [[title, *row] for title, row in zip(titles, rows, strict=True)]


def test_a_figure_comes_with_its_data_and_a_text_for_those_who_do_not_see_it(docs, report):
    text, files = block(docs, "figure mini comparison-as")
    scores = ", ".join(f"{group['label']} {group['average_score']['value']:.1f}" for group in report["groups"])
    assert f"![AS, average score: {scores}](pictures/study/mini-comparison-as.svg)" in text
    assert files.keys() == {f"pictures/study/mini-comparison-as.{end}" for end in ("svg", "csv")}
    for path, content in files.items():
        name = path.rpartition("mini-")[2]
        shown = content.replace('\n <rect width="100%" height="100%" fill="#fff"/>', "", 1)  # behind the drawing
        assert shown == (docs / "report" / "report" / "figures" / name).read_text(), "as in the report"


def test_the_cost_names_command_evidence_and_time(docs):
    text = block(docs, "cost mini")[0]
    assert "- Command: `holdfast study run mini.toml`" in text
    assert f"[mini{SUFFIX}](evidence/mini{SUFFIX}) of 8 of 8 runs with seeds 1, 2; 100 trials." in text
    assert "`stream=single_arm steps=400`" in text
    assert "- Time: 4 minutes of training in 2 of 8 runs, summed also where runs shared the machine." in text


def test_memory_is_shown_with_the_minutes_of_training(docs, report):
    _, _, head, _, *lines = block(docs, "memory mini")[0].splitlines()
    assert cells(head) == ["runs", "kept episodes", "minutes of training a run"], "the size of no weights is known"
    for line, group in zip(lines, report["groups"], strict=True):
        episodes = "" if group["kept_episodes"] is None else str(group["kept_episodes"])
        assert cells(line) == [group["label"], episodes, "1.5 to 2.5" if group["label"] == "er" else ""]


def test_a_study_whose_file_has_changed_since_is_not_named_as_if_it_had_not(docs, tmp_path):
    file = write_study(tmp_path)
    file.write_text(file.read_text().replace('name = "mini"', 'name = "methods"'))
    folder, packed = write_folder(file, tmp_path / "runs", ["er-1"]), tmp_path / "evidence" / f"some{SUFFIX}"
    assert main(["study", "pack", str(folder), f"--output={packed}"]) == 0
    text = block(tmp_path, "cost some")[0]
    assert "- Command: `holdfast study run methods`, whose settings have changed since" in text
    assert "of 1 of 8 runs with" in text
    assert "- Not measured yet: `" in text
    assert "`er`" not in text
    assert "- Time: not in the evidence." in text


def test_evidence_without_trials_is_not_measured(tmp_path):
    file = write_study(tmp_path)
    folder = write_folder(file, tmp_path / "runs", ["er-1"])
    edit_trials(folder / "runs" / "er-1", lambda trial: None)
    assert main(["study", "pack", str(folder), f"--output={tmp_path / 'evidence' / f'mini{SUFFIX}'}"]) == 0
    assert block(tmp_path, "groups mini") == block(tmp_path, "figure mini matrices") == ("", {})
    assert "of 1 of 8 runs with seeds 1; 0 trials" in block(tmp_path, "cost mini")[0]


def test_the_cost_names_the_seeds_that_the_evidence_has(tmp_path):
    file = write_study(tmp_path)
    runs = [run.name for run in load_study(str(file)).runs() if run.seed == 2]
    folder = write_folder(file, tmp_path / "runs", runs)
    assert main(["study", "pack", str(folder), f"--output={tmp_path / 'evidence' / f'mini{SUFFIX}'}"]) == 0
    text = block(tmp_path, "cost mini")[0]
    assert "of 4 of 8 runs with seeds 2; " in text
    assert "Not measured yet" not in text


def test_a_study_without_evidence_says_so_and_how_to_run_it(docs):
    study = load_study("replay-ratio")
    claims = block(docs, "claims replay-ratio")[0].splitlines()[2:]
    assert [cells(line)[1] for line in claims] == ["**not measured**"] * len(study.claims)
    assert [cells(line)[2] for line in claims] == [claim.paper.replace("_", "\\_") for claim in study.claims]
    assert block(docs, "cost replay-ratio")[0].startswith(
        "**Not measured.** `holdfast study run replay-ratio` measures"
    )
    for kind in ("groups replay-ratio", "tasks replay-ratio", "figure replay-ratio matrices"):
        assert block(docs, kind) == ("", {})


def test_values_and_verdicts_stand_in_a_sentence(docs, report):
    text = (
        "It scores <!-- value mini er average_score -->?<!-- / --> and <!-- value mini joint bwt --><!-- / -->, and "
        "so it <!-- verdict mini 2 --><!-- / --> and <!-- value replay-ratio sequential bwt --><!-- / -->."
    )
    score = number(next(group for group in report["groups"] if group["label"] == "er")["average_score"], "")
    written = write_page(text, docs).text
    assert f"-->{score}<!-- / --> and <!-- value mini joint bwt -->not measured<!-- / -->" in written
    assert f"<!-- verdict mini 2 -->{report['claims'][1]['verdict']}<!-- / -->" in written
    assert "bwt -->not measured<!-- / -->." in written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Replay scores 96.3 here.", r"Line 1 states the number 96\.3 by hand"),
        ("One\n\nloses 5 points.", "Line 3 states the number 5 by hand"),
        ("```\n1.5\n```\n<!-- begin cost mini -->\n7\n<!-- end -->\nA -20 % change", "Line 7 states the number 20"),
        ("<!-- begin cost mini -->\n", "stands alone"),
        ("<!-- end -->\n", "stands alone"),
        ("<!-- value mini er bwt -->3\n", "stands alone"),
        ("<!-- begin cost mini -->\n<!-- begin groups mini -->\n<!-- end -->", "is not closed before"),
        ("<!-- begin costs mini -->\n<!-- end -->", "Unknown marker 'costs'. Did you mean 'cost'"),
        ("<!-- begin cost -->\n<!-- end -->", "Unknown evidence or study ''. Valid: mini, act-cw10"),
        ("<!-- begin cost ../mini -->\n<!-- end -->", "Unknown evidence or study '../mini'"),
        ("<!-- begin claims mini 3 -->\n<!-- end -->", "Unknown claim '3' of mini. Valid: 1, 2"),
        ("<!-- begin figure mini comparison -->\n<!-- end -->", "Unknown figure 'comparison' of mini"),
        ("<!-- value mini ewc bwt --><!-- / -->", "Unknown group 'ewc' of mini"),
        ("<!-- value mini er score --><!-- / -->", "Unknown metric 'score'"),
        ("<!-- valeu mini er bwt --><!-- / -->", "Unknown marker 'valeu'"),
    ],
)
def test_what_no_evidence_stands_behind_is_refused(docs, text, said):
    with pytest.raises(HoldfastError, match=said):
        write_page(text, docs)


def test_names_lists_links_and_code_may_have_digits(docs):
    text = "# 2. On cw10\n1. nano and pi0.5 with `rho = 0.2`\n\n[here](results.md#run-3)\n\n```toml\nsteps = 800\n```\n"
    assert write_page(text, docs).text == text

"""The page of a study: what it says, what it leaves out, and that hostile text stays text; also in a real browser."""

import json
import re
from dataclasses import replace

import pytest
from shown_study import FLAGS, made_up, write_film

from holdfast.core.errors import HoldfastError
from holdfast.report.drawing import Drawing
from holdfast.studies import load_study
from holdfast.studies import page as study_page
from holdfast.studies.figures.plot import StudyPlot, shown_streams
from holdfast.studies.jobs import StudyFolder, make_jobs
from holdfast.studies.page import render, write
from holdfast.studies.study import StudyClaim
from holdfast.studies.summary import summary

EVIL = "<script>alert(1)</script>"
SMALL = FLAGS | {"tasks": ["stack_bowls", "hang_cup"]}
CLAIMS = (
    StudyClaim("Replay keeps more.", "bwt", {"method": "er"}, {"method": "sequential"}, paper="BWT 1.5 against -81"),
    StudyClaim("Without replay, old tasks gain much.", "bwt", {"method": "sequential"}, than=50.0),
    StudyClaim("Replay scores more than joint training.", "average_score", {"method": "er"}, {"method": "joint"}),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of a study whose runs of joint training have no trials yet."""
    grids = ({"method": ["er", "sequential", "joint", "finetune"]},)
    folder = tmp_path_factory.mktemp("study")
    found = made_up(folder, SMALL, grids, seeds=(1, 2, 3), trials=6, claims=CLAIMS, video=write_film)
    return replace(found, groups=tuple(group for group in found.groups if group.label != "joint"))


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return write(results, tmp_path_factory.mktemp("report") / "new" / "index.html")


def words(text):
    """What a reader sees of some HTML, in one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)).replace(" ,", ",")


def test_the_page_its_numbers_and_its_figures_are_written(results, page):
    assert json.loads((page.parent / "metrics.json").read_text()) == summary(results)
    files = {file.name for file in (page.parent / "figures").iterdir()}
    for name in ("matrices", "comparison-as", "transfer-er", "strip-1-stack_bowls"):
        assert {f"{name}.svg", f"{name}.png", f"{name}.csv"} <= files


def test_it_starts_with_the_question_and_the_findings(results, page):
    text = page.read_text()
    heading = words(text[text.index("<h1>") : text.index("<nav")])
    assert "made-up" in heading
    assert results.study.question in heading
    assert "9 runs" in heading
    claims = [words(part) for part in re.findall(r"<li class=.*?</li>", text, re.DOTALL)]
    found = summary(results)["claims"]
    assert [claim["verdict"] for claim in found] == ["holds", "does not hold", "not measured"]
    for shown, claim in zip(claims, found, strict=True):
        assert claim["verdict"] in shown
        assert claim["text"] in shown
    figure = found[0]["difference"]
    assert (
        f"BWT of er less that of sequential: +{figure['value']:.1f}, 95&nbsp;% interval +{figure['low']:.1f}"
        in claims[0]
    )
    assert "3 seeds" in claims[0]
    assert "The paper: BWT 1.5 against -81." in claims[0]
    assert "It holds above +50.0" in claims[1]
    assert (
        text.index('id="results"') < text.index('id="groups"') < text.index('id="matrices"') < text.index('id="tasks"')
    )


def test_the_table_of_groups_holds_the_summary(results, page):
    text = page.read_text()
    table = text[text.index('id="groups"') :]
    rows = [words(row) for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", table, re.DOTALL)]
    for group, row in zip(summary(results)["groups"], rows, strict=False):
        score = group["average_score"]
        assert row.split()[:2] == [group["label"], f"{score['value']:.1f}"]
        assert f"{score['low']:.1f} to {score['high']:.1f}" in row
        assert row.split()[-2:] == ["3", str(group["trials"])]


def test_nothing_is_asked_for_outside_the_page(page):
    text = page.read_text()
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert not re.search(r"url\((?!#)|@import|fetch\(", text)
    assert "default-src 'none'" in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


def test_what_a_study_lacks_leaves_no_empty_section(tmp_path):
    results = made_up(tmp_path, SMALL, ({"method": ["joint"]},), seeds=(1,), trials=2)
    text = write(replace(results, study=replace(results.study, question="")), tmp_path / "index.html").read_text()
    assert re.findall(r'<section id="(\w+)"', text) == ["results", "groups", "matrices", "tasks"]
    assert "The study makes no claims" in text
    assert not re.search(r'<div class="drawings">\s*</div>', text)


def test_symbols_are_explained_and_only_measured_columns_are_shown(tmp_path):
    results = made_up(tmp_path, SMALL, ({"replay.frequency": [0.2, 0.5]},), seeds=(1,), trials=2)
    text = words(write(results, tmp_path / "one" / "index.html").read_text())
    assert "f_r replay frequency: share of the training that replays old episodes" in text
    assert "ρ replay ratio" not in text
    assert "MB of weights" not in text
    for group in results.groups:
        run = group.runs[1]
        stages = tuple(replace(stage, weights_bytes=2_500_000) for stage in run.stages)
        group.runs[1] = replace(run, stages=stages)
    text = write(results, tmp_path / "other" / "index.html").read_text()
    assert "MB of weights" in text
    table = text[text.index('id="groups"') : text.index("</table>")]
    assert {
        len(re.findall(r"<t[hd]\b", row)) for row in re.findall(r"<tr>(?!<th colspan).*?</tr>", table, re.DOTALL)
    } == {8}


@pytest.mark.filterwarnings("error::UserWarning")  # of matplotlib, when names leave no room for the axes
def test_hostile_text_is_escaped(tmp_path):
    grids = ({"policy.path": [EVIL, "x"]},)
    claim = StudyClaim(EVIL, "bwt", {"policy.path": EVIL}, paper=EVIL)
    results = made_up(tmp_path, SMALL, grids, seeds=(1,), trials=2, claims=(claim,), video=write_film)
    for group in results.groups:
        run = group.runs[1]
        tasks = (replace(run.tasks[0], title=f'"{EVIL}'), *run.tasks[1:])
        trials = tuple(replace(trial, notes=EVIL, times={EVIL: 1.0}) for trial in run.trials)
        group.runs[1] = replace(run, tasks=tasks, trials=trials)
    results = replace(results, study=replace(results.study, question=EVIL))
    text = write(results, tmp_path / "out" / "index.html").read_text()
    assert text.count("<script>") == 1
    assert "alert(1)</script>" not in text
    assert text.count("&lt;script&gt;alert(1)") > 10
    for file in (tmp_path / "out" / "figures").iterdir():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", file.name)


def test_strips_beyond_the_budget_stay_beside_the_page(results, monkeypatch):
    numbers = summary(results)
    svg = f'<svg viewBox="0 0 30 20">{"x" * 1000}</svg>'
    plots = [StudyPlot(Drawing(f"strip-{n}", "strips", f"task {n}", svg, b""), []) for n in range(3)]
    monkeypatch.setattr(study_page, "BUDGET", 2500)
    text = render(numbers, shown_streams(results, numbers), plots)
    assert re.findall(r"Attempts at task (\d)", text) == ["0", "1"]
    assert "with 1 more figures" in text
    monkeypatch.setattr(study_page, "BUDGET", 5000)
    assert "more figures" not in render(numbers, shown_streams(results, numbers), plots)


def test_a_study_without_trials_names_the_next_command(results, tmp_path):
    with pytest.raises(HoldfastError, match="holdfast study run"):
        write(replace(results, groups=()), tmp_path / "index.html")


def test_a_study_films_as_many_trials_as_it_is_told(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text('name = "films"\n[train]\nstream = "single_arm"\n[evaluate]\nvideos = 2\n')
    jobs = make_jobs(load_study(str(file)), StudyFolder(tmp_path))
    command = next(job.command for job in jobs if job.kind == "evaluate")
    assert command[command.index("--videos") + 1] == "2"
    file.write_text(file.read_text().replace("2", "-1"))
    with pytest.raises(HoldfastError, match="'videos' must be at least 0, got -1"):
        load_study(str(file))


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_without_complaint_and_fits(browser, page, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    complaints, requests = [], []
    tab.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda e: complaints.append(str(e)))
    tab.on("request", lambda r: requests.append(r.url) if not r.url.startswith("data:") else None)
    tab.goto(page.as_uri())
    tab.wait_for_load_state("load")
    assert complaints == []
    assert requests == [page.as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    for drawing in tab.locator("svg").all():
        if drawing.is_visible():
            assert drawing.bounding_box()["width"] >= 280  # legible on a phone, where strips scroll
    colour = tab.locator(".claims .verdict").first.evaluate("e => getComputedStyle(e).color")
    assert colour == ("rgb(13, 122, 96)" if scheme == "light" else "rgb(79, 209, 171)")
    tab.get_by_role("grid", name="Scores of er", exact=True).locator("td").first.focus()
    assert "18 trials" in tab.locator("#tip").inner_text()
    context.close()

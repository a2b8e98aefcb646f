"""The figures of a study: which are drawn, and that they show what the summary says."""

import csv
import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from shown_study import FLAGS, made_up, write_film

from holdfast.core.records import Trial
from holdfast.report.drawing import STYLE, finish
from holdfast.report.strips import keyframe_pictures, strip_pictures
from holdfast.studies.figures import draw
from holdfast.studies.figures.arms import arms
from holdfast.studies.figures.comparison import comparison
from holdfast.studies.figures.curves import curves
from holdfast.studies.figures.labels import label, labels, stream_names
from holdfast.studies.figures.matrices import matrices
from holdfast.studies.figures.plot import shown_streams
from holdfast.studies.figures.strips import strips
from holdfast.studies.figures.transfer import transfer
from holdfast.studies.summary import summary

SMALL = FLAGS | {"tasks": ["stack_bowls", "hang_cup", "press_button"]}
EVIL = '../<script>alert(1)</script>&"$x$'


def drawn(results):
    """The plots of a study by name, and the summary they come from."""
    numbers = summary(results)
    return {plot.drawing.name: plot for plot in draw(shown_streams(results, numbers))}, numbers


def rows_of(kind, results):
    """The rows of each plot of one kind, by name."""
    with matplotlib.rc_context(STYLE):
        return {plot.drawing.name: plot.rows for plot in kind(shown_streams(results, summary(results)))}


def small(folder, *grids, train=SMALL, **more):
    return made_up(
        folder, train, grids or ({"method": ["sequential", "er"]},), **{"seeds": (1, 2), "trials": 3, **more}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Everything a study may have but videos and two arms, in small."""
    grids = {"method": "er", "replay.frequency": [0.05, 0.5]}, {"method": ["er", "sequential", "joint", "finetune"]}
    return drawn(small(tmp_path_factory.mktemp("study"), *grids))


def test_every_kind_of_figure_is_drawn_where_its_data_are(whole):
    plots, _ = whole
    assert set(plots) == {
        "matrices",
        "kept",
        *(f"comparison-{metric}" for metric in ("as", "bwt", "fwt")),
        *(f"curve-replay.frequency-{metric}" for metric in ("as", "bwt", "fwt")),
        *(f"transfer-{name}" for name in ("er-f_r-0.05", "er-f_r-0.5", "er", "sequential")),
    }


def test_a_csv_holds_the_values_of_the_summary(whole, tmp_path):
    plots, numbers = whole
    for plot in plots.values():
        plot.write(tmp_path)
        assert (tmp_path / f"{plot.drawing.name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(tmp_path / f"{plot.drawing.name}.svg")
    read = {name: list(csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines())) for name in plots}
    names = dict(zip(labels(numbers["groups"]), numbers["groups"], strict=True))

    cells = {(r["group"], int(r["stage"]), r["task"]): float(r["mean"]) for r in read["matrices"]}
    assert cells == {
        (name, row["stage"], task["name"]): cell["mean"]
        for name, group in names.items()
        for row in group["matrix"]
        for task, cell in zip(numbers["streams"][0]["tasks"], row["cells"], strict=True)
        if cell
    }
    ends = {(r["group"], r["task"]): (float(r["after_its_stage"]), float(r["at_the_end"])) for r in read["kept"]}
    assert ends == {
        (name, task["task"]): (task["after_own"]["value"], task["final"]["value"])
        for name, group in names.items()
        if group["continual"]
        for task in group["tasks"]
    }
    bars = [r for r in read["comparison-bwt"] if r["source"] == "all seeds"]
    assert {r["group"]: (float(r["value"]), float(r["low"]), float(r["high"])) for r in bars} == {
        name: tuple(group["bwt"][key] for key in ("value", "low", "high"))
        for name, group in names.items()
        if group["continual"]
    }
    dots = {
        r["source"]: float(r["value"])
        for r in read["comparison-as"]
        if r["group"] == "joint" and "seed " in r["source"]
    }
    assert dots == {f"seed {seed}": found["average_score"] for seed, found in names["joint"]["by_seed"].items()}
    own = {int(r["stage"]): float(r["value"]) for r in read["transfer-er"] if r["metric"] == "fwt"}
    assert own == {n: names["er"]["tasks"][n - 1]["fwt"]["value"] for n in (2, 3)}
    trace = {int(r["stage"]): float(r["value"]) for r in read["transfer-er"] if r["metric"] == "bwt"}
    assert trace == {stage["stage"]: stage["bwt"]["value"] for stage in names["er"]["stages"][1:]}


def test_a_default_is_a_point_of_the_curve_and_other_methods_are_level_lines(whole):
    plots, numbers = whole
    groups = dict(zip(labels(numbers["groups"]), numbers["groups"], strict=True))
    rows = plots["curve-replay.frequency-as"].rows
    assert {row["x"]: row["value"] for row in rows if row["line"] == "er"} == {
        0.05: groups["er, f_r 0.05"]["average_score"]["value"],
        0.2: groups["er"]["average_score"]["value"],
        0.5: groups["er, f_r 0.5"]["average_score"]["value"],
    }
    assert {row["line"] for row in rows if row["x"] is None} == {"sequential", "joint", "finetune"}


def test_the_papers_sweep_stands_beside_ours(whole):
    rows = whole[0]["curve-replay.frequency-bwt"].rows
    published = {row["x"]: row["value"] for row in rows if "published" in row["line"]}
    assert published == {0.05: -21.1, 0.1: -8.75, 0.2: 1.5, 0.5: 8.68}


def test_published_values_stand_beside_runs_with_the_same_settings_only(tmp_path):
    grids = (
        {"method": ["er"], "norm.strategy": ["per-task", "frozen-first"]},
        {"method": "er", "replay.frequency": 0.05},
        {"method": ["sequential"], "steps": [400, 800]},
    )
    rows = rows_of(comparison, small(tmp_path, *grids, train=FLAGS))["comparison-bwt"]
    # `steps` differ between runs, which the paper did not vary.
    assert not [row for row in rows if "published" in row["source"]]
    rows = rows_of(comparison, small(tmp_path, *grids[:2], {"method": "sequential"}, train=FLAGS))["comparison-bwt"]
    found = {row["group"]: row["value"] for row in rows if "published" in row["source"]}
    assert found == {"er, frozen-first": 1.5, "er, f_r 0.05": -21.1, "sequential": -81.0}


def test_curves_of_different_settings_are_told_apart(tmp_path):
    grid = {"method": "er", "replay.ratio": [0.002, 0.2], "norm.strategy": ["per-task", "mixed"]}
    rows = rows_of(curves, small(tmp_path, grid))["curve-replay.ratio-as"]
    assert [(row["line"], row["x"]) for row in rows] == [
        ("per-task", 0.002), ("per-task", 0.2), ("mixed", 0.002), ("mixed", 0.2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("grids", "more", "absent"),
    [
        (({"method": ["sequential", "er"]},), {}, ("curve", "comparison-fwt", "arms", "strip")),
        (({"method": ["joint"]},), {}, ("curve", "comparison", "transfer", "arms")),
        (({"method": ["er"]},), {"train": FLAGS | {"tasks": ["stack_bowls"]}}, ("curve", "comparison", "transfer")),
    ],
    ids=["no finetune", "no stages", "one task"],
)
def test_what_was_not_measured_has_no_figure(tmp_path, grids, more, absent):
    plots, _ = drawn(small(tmp_path, *grids, **more))
    assert "matrices" in plots
    assert not [name for name in plots if name.startswith(absent)]
    assert all(plot.rows for plot in plots.values())


def test_with_needed_cells_bwt_is_one_point_beside_the_bars_and_no_figure_without_them(tmp_path):
    results = small(tmp_path, {"method": ["er", "finetune"]}, cells="needed")
    rows = rows_of(transfer, results)["transfer-er"]
    assert [(row["metric"], row["stage"]) for row in rows] == [("fwt", 2), ("fwt", 3), ("bwt", 3)]
    assert len([row for row in rows_of(matrices, results)["matrices"] if row["group"] == "er"]) == 5
    assert rows_of(transfer, small(tmp_path, {"method": "er"}, cells="needed")) == {}


def test_streams_are_drawn_apart_and_their_matrices_together(tmp_path):
    train = {"method": "er", "steps": 400}
    results = small(tmp_path, {"stream": ["single_arm", "bimanual"], "method": ["er", "sequential"]}, train=train)
    assert {row["group"] for row in rows_of(matrices, results)["matrices"]} == {
        "single-arm, er", "single-arm, sequential", "bimanual, er", "bimanual, sequential",
    }  # fmt: skip
    plots = {plot.drawing.name: plot for plot in comparison(shown_streams(results, summary(results)))}
    assert plots["stream-2-comparison-as"].drawing.title == "AS, average score, bimanual"
    published = [row["value"] for row in plots["stream-2-comparison-as"].rows if "published" in row["source"]]
    assert published == [97.2, 38.3]


def canvases(monkeypatch, kind, results):
    """The drawings of one kind with all places in them, by name."""
    found = {}

    def finish_too(canvas, name, *rest):
        found[name] = canvas
        done = finish(canvas, name, *rest)
        canvas.draw_without_rendering()  # what was saved had another resolution
        return done

    monkeypatch.setitem(kind.__globals__, "finish", finish_too)
    rows_of(kind, results)
    return found


def test_names_and_numbers_of_matrices_have_room(tmp_path, monkeypatch):
    results = small(tmp_path, {"method": ["er", "finetune"]})
    for run in (run for group in results.groups for run in group.runs.values()):
        titles = ("Faucet-close-v3", "Handle-press-side-v3", "Window-close-v3")
        tasks = tuple(replace(task, title=title) for task, title in zip(run.tasks, titles, strict=True))
        object.__setattr__(run, "tasks", tasks)
    for axes in canvases(monkeypatch, matrices, results)["matrices"].axes:
        boxes = [name.get_window_extent() for name in axes.get_xticklabels()]
        assert all(one.x1 < next_one.x0 for one, next_one in itertools.pairwise(boxes))
        cell = axes.get_window_extent().width / len(boxes)
        assert all(text.get_window_extent().width < cell for text in axes.texts)


def test_a_method_has_one_colour_in_all_figures(tmp_path, monkeypatch):
    grids = {"method": ["finetune", "sequential", "joint"]}, {"method": "er", "replay.frequency": [0.05, 0.5]}
    results = small(tmp_path, *grids)
    bars = canvases(monkeypatch, comparison, results)["comparison-as"].axes[0]
    names = [name.get_text() for name in bars.get_yticklabels()]
    of_bars = {name.partition(",")[0]: bar.get_facecolor()[:3] for name, bar in zip(names, bars.patches, strict=True)}
    lines = canvases(monkeypatch, curves, results)["curve-replay.frequency-as"].axes[0].get_lines()
    of_lines = {line.get_label(): to_rgb(line.get_color()) for line in lines}
    assert of_lines == of_bars


@pytest.mark.filterwarnings("error::UserWarning")  # of matplotlib, when names leave no room for the axes
def test_hostile_settings_stay_text(tmp_path):
    grid = {"method": ["er", "sequential"], "policy.path": [EVIL, "x" * 200]}
    plots, _ = drawn(small(tmp_path, grid))
    assert any(name.startswith("transfer-er-..-script-alert") for name in plots)
    assert len({name.lower() for name in plots}) == len(plots)
    for name, plot in plots.items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        assert "<script" not in plot.drawing.svg
        plot.write(tmp_path)
    written = "".join(ElementTree.fromstring(plots["comparison-as"].drawing.svg).itertext())
    assert "<script>" in written
    assert "$x$" in written
    numbers = summary(results := small(tmp_path, {"policy.path": ["=1+1", "+2"]}))
    next(matrices(shown_streams(results, numbers))).write(tmp_path)
    assert {row[0] for row in csv.reader((tmp_path / "matrices.csv").read_text().splitlines())} == {
        "group",
        "'=1+1",
        "'+2",
    }


def test_labels_say_what_differs_in_words_and_no_two_are_alike():
    assert label({"replay.frequency": 0.5, "method": "er", "stream": "my/long_way.toml"}, "") == "long-way, er, f_r 0.5"
    assert label({"optim.ema_warmup": False, "replay.ratio": None}, "") == "ema warmup off"
    assert label({}, "joint") == "joint"
    assert len(label({"policy.path": "x" * 500}, "")) == 60
    same = {"settings": {"policy.path": "x" * 500}, "method": "er"}
    assert len(set(labels([same, same, same]))) == 3


def test_the_only_measured_group_of_many_is_named_by_stream_and_method():
    settings = {"stream": "single_arm", "method": "er", "steps": 800}
    assert labels([{"settings": settings, "method": "er"}]) == ["single-arm, er"]
    assert labels([{"settings": settings, "method": "er"}], without=("stream",)) == ["er"]


def test_a_figure_of_one_group_is_named_after_it_in_plain_letters(tmp_path):
    results = small(tmp_path, {"method": ["er"], "replay.ratio": [0.02, 0.2]})
    assert set(rows_of(transfer, results)) == {"transfer-rho-0.02", "transfer-rho-0.2"}
    plots, _ = drawn(small(tmp_path, {"policy.path": ["a=b", "a b"]}))
    assert plots["transfer-a-b"].rows[0]["group"] == "a=b"
    assert plots["transfer-a-b-2"].rows[0]["group"] == "a b"


def test_the_loss_of_each_arm_is_the_mean_over_seeds_where_two_arms_become_one(tmp_path):
    def without(results, broken):
        """The same results, with a loss that is no number in one run."""
        group = results.groups[0]
        stage = group.runs[1].stages[0]
        lines = ({**stage.lines[0], "loss_by_arm": {"left": broken}}, *stage.lines[1:])
        stages = (replace(stage, lines=lines), *group.runs[1].stages[1:])
        runs = {**group.runs, 1: replace(group.runs[1], stages=stages)}
        return replace(results, groups=(replace(group, runs=runs), *results.groups[1:]))

    train = {"stream": "heterogeneous", "tasks": ["stack_bowls", "place_cola", "hang_cup"]}
    results = small(tmp_path, train=train)
    rows = rows_of(arms, results)["arms-er"]
    runs = results.groups[1].runs
    mine = next(row for row in rows if (row["arm"], row["stage"], row["step"]) == ("right", 2, 40))
    assert mine["loss"] == pytest.approx(
        np.mean([run.stages[1].lines[1]["loss_by_arm"]["right"] for run in runs.values()])
    )
    assert mine["place"] == pytest.approx(1.1)
    rows = rows_of(arms, without(results, float("nan")))["arms-sequential"]
    first = next(row for row in rows if (row["arm"], row["stage"], row["step"]) == ("left", 1, 20))
    assert first["seeds"] == 1
    one_way = {"stream": "heterogeneous", "tasks": ["stack_bowls", "place_cola"]}
    assert rows_of(arms, small(tmp_path, train=one_way)) == {}


def test_a_strip_shows_one_layout_at_its_milestones(tmp_path):
    results = small(tmp_path, video=write_film, train=FLAGS | {"tasks": ["stack_bowls"]}, seeds=(1,))
    for group in results.groups[1:]:  # filmed at a second layout too, which comes first
        run = group.runs[1]
        first, second, third = run.trials
        group.runs[1] = replace(run, trials=(replace(second, video=first.video), first, third))
    rows = rows_of(strips, results)["strip-1-stack_bowls"]
    assert {row["group"] for row in rows} == {"sequential", "er"}
    assert {row["layout"] for row in rows} == {0}
    for group, shown in zip(results.groups, ("sequential", "er"), strict=True):
        trial = next(t for t in group.runs[1].trials if t.seed == 0)
        times = [row["seconds"] for row in rows if row["group"] == shown]
        assert times == [0.0, *trial.times.values(), *([2.0] if len(trial.times) < 4 else [])]


def test_a_picture_of_a_strip_is_the_one_of_its_second_without_the_rubric(tmp_path):
    film = tmp_path / "film.mp4"
    write_film(film)
    trial = Trial("stack_bowls", 1, (), times={"reached": 1.0}, seconds=1.9, video="videos/film.mp4")
    found = strip_pictures(trial, keyframe_pictures(film, trial))
    assert [frame for frame, _ in found] == [("start", 0.0), ("reached", 1.0), ("end", 1.9)]
    for (_, seconds), picture in found:
        bright = np.flatnonzero(picture[picture.shape[0] // 2, :, 0] > 120) / picture.shape[1]
        assert bright.mean() == pytest.approx((200 * seconds + 20) / 480, abs=0.02)


@pytest.mark.parametrize("content", [b"", b"not a video"], ids=["empty", "text"])
def test_a_video_that_cannot_be_read_has_no_strip(tmp_path, content):
    assert rows_of(strips, small(tmp_path, video=lambda path: path.write_bytes(content))) == {}


def test_streams_are_called_by_their_names_or_where_these_are_equal_by_their_tasks():
    def names(*given):
        streams = [{"tasks": [{"title": title} for title in tasks]} for _, tasks in given]
        groups = [{"settings": {"stream": name} if name else {}, "stream": n} for n, (name, _) in enumerate(given)]
        return stream_names(streams, groups)

    assert names(("single_arm", "ab"), ("my/kitchen.toml", "cd")) == ["single-arm", "kitchen"]
    assert names((None, "ab"), (None, "ba")) == ["a → b", "b → a"]
    assert names(("cw10", "ab"), ("cw10", "ba"), ("cw20", "cd")) == ["cw10, a → b", "cw10, b → a", "cw20"]
    assert names((None, "ab")) == ["stream"]
    assert names((None, "ab"), (None, ["c" * 70])) == ["a → b", f"{'c' * 59}…"]

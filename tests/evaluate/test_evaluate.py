"""`holdfast evaluate` from the run's folder to the matrix, with workers that need no simulator."""

import json
import shutil
from dataclasses import replace

import pytest
from runs import make_run

from holdfast import catalog
from holdfast.cli import main
from holdfast.core.clock import SteadyClock
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial, TrialProtocol
from holdfast.evaluate import engine
from holdfast.runs.run import read_run
from holdfast.runs.sources import matrix_of
from holdfast.runs.trials import Trials


@pytest.fixture
def ran(monkeypatch):
    """Orders that were carried out; a trial scores 10 points for every stage, and 1 more if its seed is odd."""
    carried: list[tuple[int, str, int]] = []

    def work(orders):
        for order in orders:
            carried.append((order.stage, order.task.name, order.seed))
            trial = Trial(
                order.task.name,
                order.stage,
                (),
                source="twin",
                seed=order.seed,
                level=order.level,
                protocol=order.protocol,
                weights=order.weights,
                normalization=order.normalization,
                score=10.0 * order.stage + order.seed % 2,
                video=order.video,
            )
            yield order, trial

    monkeypatch.setattr(engine, "_workers", lambda runs, choice, watch: work)
    return carried


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def evaluate(run, *flags):
    return main(["evaluate", str(run), "--device=cpu", *map(str, flags)])


def stored(run):
    with Trials(run / "trials.sqlite") as trials:
        return trials.all()


def cells(run):
    with Trials(run / "trials.sqlite") as trials:
        found = matrix_of(("press_button", "push_box"), trials.counted())
    return {key: len(scores) for key, scores in found.cells.items()}


def test_every_seen_task_after_every_stage_with_the_same_seeds(run, ran, capsys):
    assert evaluate(run, "--trials", 4) == 0
    assert cells(run) == {(1, 1): 4, (1, 2): 4, (2, 2): 4}
    assert {seed for _, _, seed in ran} == {0, 1, 2, 3}
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["press_button", "10.5", "20.5"] in words
    assert ["push_box", "-", "20.5"] in words
    assert any("+10.0" in line for line in words), "BWT"


def test_several_runs_share_the_workers_and_keep_their_trials_apart(run, ran, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    other = shutil.copytree(run, tmp_path / "else[where]" / "run")  # of the same name, with the same weights
    evaluate(run, "--trials", 1)
    ran.clear()
    assert main(["evaluate", str(run), str(other), "--device=cpu", "--trials", "4"]) == 0
    assert len(ran) == 3 * 3 + 3, "trials that are there are not repeated, and equal ones are run once"
    assert cells(run) == cells(other) == {(1, 1): 4, (1, 2): 4, (2, 2): 4}
    assert [len({(t.task, t.stage, t.seed) for t in stored(each)}) for each in (run, other)] == [12, 12]
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert words.count(["press_button", "10.5", "20.5"]) == 2, "both matrices are printed"
    assert sum("else[where]" in " ".join(line) for line in words) == 2, "each run is named as it is"
    assert sum("after stage" in " ".join(line) for line in words) == 3 + 2 * 3, "each cell once"


def test_trials_wait_for_stages_that_are_not_finished(run, ran, tmp_path, monkeypatch, capsys):
    last = run / "stages" / "02-push_box" / "checkpoint"
    events = iter([(tmp_path / "not begun", run), (run / "in training", last)])
    last.rename(run / "in training")
    run.rename(tmp_path / "not begun")

    def go_on(clock, seconds):
        before, after = next(events)
        before.rename(after)

    monkeypatch.setattr(SteadyClock, "sleep", go_on)
    assert evaluate(run, "--trials", 3, "--wait") == 0
    assert cells(run) == {(1, 1): 3, (1, 2): 3, (2, 2): 3}
    assert [stage for stage, _, _ in ran] == [1] * 3 + [2] * 6
    said = capsys.readouterr().out
    assert "Waiting for the first stage" in said
    assert "1 of 2 stages are finished" in said


def test_trials_wait_for_the_stages_asked_for_and_no_others(run, ran, tmp_path, monkeypatch, capsys):
    last = run / "stages" / "02-push_box" / "checkpoint"
    last.rename(tmp_path / "in training")
    sleeps = []

    def go_on(clock, seconds):
        sleeps.append(seconds)
        (tmp_path / "in training").rename(last)

    monkeypatch.setattr(SteadyClock, "sleep", go_on)
    assert evaluate(run, "--trials", 1, "--wait", "--stages", 1) == 0
    assert (cells(run), sleeps) == ({(1, 1): 1}, [])
    assert evaluate(run, "--trials", 1, "--stages", 2) == 2
    assert "Unknown finished stage" in capsys.readouterr().err
    assert evaluate(run, "--trials", 1, "--wait", "--stages", 3) == 2
    assert "Unknown stage" in capsys.readouterr().err
    assert evaluate(run, "--trials", 1, "--wait", "--stages", 2) == 0
    assert (cells(run), len(sleeps)) == ({(1, 1): 1, (1, 2): 1, (2, 2): 1}, 1)


def test_equal_trials_of_a_cell_that_stops_early_are_not_run(run, ran, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    flags = ["--device=cpu", "--trials", "20", "--width", "60"]
    assert main(["evaluate", str(run), *flags]) == 0
    alone = len(ran)
    shutil.copytree(run, tmp_path / "third", ignore=shutil.ignore_patterns("trials.sqlite*"))
    ran.clear()
    assert main(["evaluate", str(other), str(tmp_path / "third"), *flags]) == 0
    assert len(ran) == alone < 60
    assert cells(other) == cells(tmp_path / "third") == cells(run)


def test_a_run_that_is_given_twice_is_refused(run, ran, capsys):
    assert main(["evaluate", str(run), f"{run}/../{run.name}", "--device=cpu"]) == 2
    assert "given twice" in capsys.readouterr().err
    assert not ran


def test_the_trials_say_which_weights_and_space_they_were_run_with(run, ran):
    evaluate(run, "--trials", 1)
    first, second, third = stored(run)
    checkpoint = run / "stages" / "01-press_button" / "checkpoint"
    assert first.weights == json.loads((checkpoint / "manifest.json").read_text())["policy/model.safetensors"]
    assert first.weights != second.weights == third.weights
    assert len(first.normalization) == 64
    assert first.protocol == TrialProtocol(16)


def test_stages_tasks_and_unseen_choose_cells(run, ran):
    evaluate(run, "--trials", 1, "--stages", 1, "--unseen")
    assert set(ran) == {(1, "press_button", 0), (1, "push_box", 0)}
    evaluate(run, "--trials", 1, "--stages", 2, "--tasks", "push_box", "--first-seed", 7)
    assert ran[2:] == [(2, "push_box", 7)]


def test_a_task_that_the_arena_does_not_have_is_left_out_unless_it_is_named(run, ran, capsys):
    file = run / "run.yaml"
    file.write_text(file.read_text().replace("name: push_box", "name: wipe_table"))
    (run / "stages" / "02-push_box").rename(run / "stages" / "02-wipe_table")
    assert evaluate(run, "--trials", 1) == 0
    assert set(ran) == {(1, "press_button", 0), (2, "press_button", 0)}
    assert "Left out: wipe_table. The arena 'twin' does not have them" in capsys.readouterr().out
    assert evaluate(run, "--trials", 1, "--tasks", "wipe_table") == 2
    assert "'wipe_table' is not a task of the arena 'twin', so only operators can try it" in capsys.readouterr().err


def test_only_what_is_missing_is_run(run, ran):
    evaluate(run, "--trials", 2)
    before = stored(run)
    evaluate(run, "--trials", 2)
    assert len(ran) == 6
    evaluate(run, "--trials", 3)
    assert ran[6:] == [(1, "press_button", 2), (2, "press_button", 2), (2, "push_box", 2)]
    assert stored(run)[:6] == before


def test_an_early_stop_keeps_seeds_in_order(run, ran):
    evaluate(run, "--trials", 200, "--width", 30, "--stages", 1)
    seeds = [trial.seed for trial in stored(run)]
    assert seeds == list(range(len(seeds)))
    assert 5 <= len(seeds) < 60


@pytest.mark.parametrize("source", ["operator", "other_arena"])
def test_trials_of_another_source_change_nothing(run, ran, capsys, source):
    evaluate(run, "--trials", 2)
    ran.clear()
    with Trials(run / "trials.sqlite") as trials:
        for seed in range(4):  # at other levels and with other protocols
            judged = {"source": source, "level": "wide", "protocol": TrialProtocol(3), "seed": seed}
            trials.add(replace(trials.all()[0], score=0.0, **judged))
    assert evaluate(run, "--trials", 3) == 0
    assert len(ran) == 3, "one more of every cell"
    assert evaluate(run, "--trials", 2) == 0
    out = capsys.readouterr().out
    words = [line.split() for line in out.splitlines()]
    assert words.count(["press_button", "10.3", "20.3"]) == 2
    assert f"Not counted here: 4 trials of {source}. `holdfast metrics {run}` shows them." in out


def test_the_first_trials_of_each_cell_are_filmed(run, ran):
    evaluate(run, "--trials", 2, "--videos", 1, "--first-seed", 3)
    assert [trial.video for trial in stored(run) if trial.video] == [
        "videos/01-press_button/twin/press_button-0003.mp4",
        "videos/02-push_box/twin/press_button-0003.mp4",
        "videos/02-push_box/twin/push_box-0003.mp4",
    ]


@pytest.mark.parametrize("linked", ["videos", "videos/02-push_box", "videos/02-push_box/twin"])
def test_a_folder_of_videos_that_leads_elsewhere_is_refused_before_any_trial(run, ran, tmp_path, capsys, linked):
    (tmp_path / "elsewhere").mkdir()
    (run / linked).parent.mkdir(parents=True, exist_ok=True)
    (run / linked).symlink_to(tmp_path / "elsewhere")
    assert evaluate(run, "--trials", 1, "--videos", 1) == 2
    assert f"{linked} is a link" in capsys.readouterr().err
    assert not stored(run)
    assert evaluate(run, "--trials", 1) == 0


def test_an_invalid_trial_is_neither_counted_nor_repeated(run, ran):
    evaluate(run, "--trials", 2, "--stages", 1)
    with Trials(run / "trials.sqlite") as trials:
        number, trial = next(iter(trials.numbered().items()))
        trials.add(replace(trial, valid=False, operator="Ada", notes="the screen froze"), supersedes=number)
    evaluate(run, "--trials", 2, "--stages", 1)
    assert len(ran) == 2
    assert cells(run) == {(1, 1): 1}


def test_other_levels_and_horizons_do_not_mix(run, ran):
    evaluate(run, "--trials", 1)
    for flags in (["--level", "wide"], ["--horizon", 4]):
        with pytest.raises(HoldfastError, match="was evaluated at level 'standard' with horizon 16"):
            engine.plan(read_run(run), _choice(*flags), Trials(run / "trials.sqlite"))
    assert evaluate(run, "--trials", 1, "--horizon", 16) == 0


def _choice(name, value):
    return engine.Choice(**{name.removeprefix("--"): value})


def test_joint_is_the_last_column_and_finetune_the_baseline(tmp_path, ran, capsys):
    for method in ("joint", "finetune"):
        run = make_run(tmp_path / method, method=method)
        evaluate(run, "--trials", 2)
        assert "mean" in capsys.readouterr().out
    assert set(ran[:4]) == {(1, task, seed) for task in ("press_button", "push_box") for seed in (0, 1)}
    assert set(ran[4:]) == {(1, "press_button", 0), (1, "press_button", 1), (2, "push_box", 0), (2, "push_box", 1)}
    joint, finetune = read_run(tmp_path / "joint"), read_run(tmp_path / "finetune")
    with Trials(joint.trials) as trials:
        assert engine.matrix(joint, trials.counted(), "twin").cells == {(1, 2): (10.0, 11.0), (2, 2): (10.0, 11.0)}
    with Trials(finetune.trials) as trials:
        assert engine.matrix(finetune, trials.counted(), "twin").baseline == {1: (10.0, 11.0), 2: (20.0, 21.0)}


def test_a_baseline_gives_fwt(run, tmp_path, ran, capsys):
    alone = make_run(tmp_path / "alone", ("push_box", "press_button"), method="finetune")
    assert evaluate(run, "--trials", 2, "--baseline", alone) == 2
    assert "Run: holdfast evaluate" in capsys.readouterr().err
    assert not ran, "said before any trial"
    evaluate(alone, "--trials", 2)
    capsys.readouterr()
    evaluate(run, "--trials", 2, "--baseline", alone)
    assert ["push_box", "-", "20.5", "10.5"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert evaluate(run, "--trials", 2, "--baseline", run) == 2
    assert "Give a run of --method=finetune" in capsys.readouterr().err


def test_stages_not_finished_yet_are_said_and_left_out(tmp_path, ran, capsys):
    evaluate(make_run(tmp_path / "run", stages=1), "--trials", 1)
    assert "1 of 2 stages are finished." in capsys.readouterr().out
    assert ran == [(1, "press_button", 0)]


def test_damaged_weights_are_refused(run, ran, capsys):
    weights = run / "stages" / "01-press_button" / "checkpoint" / "policy" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert evaluate(run, "--trials", 1) == 2
    assert "is damaged" in capsys.readouterr().err
    assert not stored(run)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--tasks", "push_bx"], "Did you mean 'push_box'"),
        (["--stages", 3], "Unknown finished stage"),
        (["--level", "hard"], "easy, standard, wide"),
        (["--trials", -1], "--trials must be at least 0"),
        (["--width", 100], "--width must be between"),
        (["--workers", "threads"], "processes, ray"),
        (["--first-seed", -1], "--first-seed must be at least 0"),
    ],
)
def test_bad_flags_are_explained(run, ran, capsys, flags, says):
    assert evaluate(run, *flags) == 2
    assert says in capsys.readouterr().err


def test_what_is_no_run_is_explained(tmp_path, capsys):
    assert evaluate(tmp_path) == 2
    assert "no run.yaml" in capsys.readouterr().err
    (tmp_path / "run.yaml").write_text("config: 3")
    assert evaluate(tmp_path) == 2
    assert "not as `holdfast train` writes it" in capsys.readouterr().err


def test_tasks_of_the_run_come_back_whole(run):
    assert read_run(run).tasks == (catalog.task("press_button"), catalog.task("push_box"))

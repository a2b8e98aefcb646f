"""Evidence of a study: packed on several machines, merged, reported like the whole; and what is refused."""

import gzip
import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from report.synthetic import judge_by_hand
from studied import TASKS, edit_trials, edit_yaml, only, set_weights, write_folder, write_study

from holdfast.cli import main
from holdfast.commands.study_evidence import settings_of
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.report.gather import with_baselines
from holdfast.report.summary import summary
from holdfast.runs.settings import FREE
from holdfast.runs.trials import Trials
from holdfast.studies import load_study
from holdfast.studies.evidence import thinned
from holdfast.studies.evidence_file import SUFFIX, read_evidence
from holdfast.studies.history import EndedJob, write_ended
from holdfast.studies.jobs import StudyFolder
from holdfast.studies.results import study_results

METHODS = ("sequential", "er", "finetune", "joint")
FIRST = ("sequential-1", "er-1", "finetune-1")


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def whole(file):
    """The folder of a study with eight runs; not to be changed."""
    return write_folder(file, file.parent / "whole")


@pytest.fixture
def half(whole, tmp_path):
    """A copy with the runs of the first seed, to be changed."""
    return only(whole, tmp_path / "half", FIRST)


def pack(folder, file):
    assert main(["study", "pack", str(folder), f"--output={file}"]) == 0
    return file


def merge(output, *files):
    return main(["study", "merge", *map(str, files), f"--output={output}"])


def refused(capsys, output, *files):
    """The one line with which merging is refused; nothing is written."""
    capsys.readouterr()
    assert merge(output, *files) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not output.exists()
    return said


def numbers(file, folder):
    """The numbers of a report, without its page."""
    results = study_results(load_study(str(file)), StudyFolder(folder))
    return json.dumps(summary(with_baselines([run for group in results.groups for run in group.runs.values()])))


@pytest.mark.parametrize(
    "one", [FIRST, ("er-1", "er-2"), ("finetune-2",), ("er-1",)], ids=["seeds", "runs", "one", "disjoint"]
)
def test_halves_that_are_merged_are_the_whole(whole, tmp_path, one):
    other = [run.name for run in (whole / "runs").iterdir() if run.name not in one]
    halves = [
        pack(only(whole, tmp_path / str(n), names), tmp_path / f"{n}{SUFFIX}") for n, names in enumerate((one, other))
    ]
    assert merge(tmp_path / f"ab{SUFFIX}", *halves) == 0
    assert merge(tmp_path / f"ba{SUFFIX}", *reversed(halves)) == 0
    expected = pack(whole, tmp_path / f"whole{SUFFIX}").read_bytes()
    assert (tmp_path / f"ab{SUFFIX}").read_bytes() == expected
    assert (tmp_path / f"ba{SUFFIX}").read_bytes() == expected


def test_the_report_of_merged_halves_has_the_metrics_of_the_whole_and_needs_no_run(
    whole, tmp_path, monkeypatch, capsys
):
    halves = []
    for n, seed in enumerate("12"):
        part = only(whole, tmp_path / "part", [f"{method}-{seed}" for method in METHODS])
        halves.append(str(pack(part, tmp_path / f"{n}{SUFFIX}")))
        shutil.rmtree(part)
    copy = shutil.copytree(whole, tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    assert main(["study", "report", str(copy)]) == 0
    assert main(["study", "report", *reversed(halves)]) == 0
    assert "runs/mini/report/index.html" in capsys.readouterr().out
    expected = (copy / "report" / "metrics.json").read_bytes()
    assert (tmp_path / "runs/mini/report/metrics.json").read_bytes() == expected
    assert all(method.encode() in expected for method in METHODS)


def test_of_a_run_in_several_files_the_fuller_parts_are_taken(whole, half, tmp_path, capsys):
    """One machine has tried the first layouts only, another is in the middle of the last stage; layouts overlap."""
    late = only(whole, tmp_path / "late", FIRST)
    edit_trials(half / "runs/er-1", lambda trial: trial if trial.seed < 2 else None)
    (half / "runs/er-1/heldout.json").unlink()
    edit_trials(late / "runs/er-1", lambda trial: trial if trial.seed > 0 and trial.stage == 1 else None)
    stage = late / f"runs/er-1/stages/02-{TASKS[1]}"
    shutil.rmtree(stage / "checkpoint")
    (stage / "metrics.jsonl").write_text("".join((stage / "metrics.jsonl").read_text().splitlines(True)[:5]))
    edit_trials(late / "runs/sequential-1", lambda trial: trial if trial.stage == 1 else None)
    shutil.rmtree(late / f"runs/sequential-1/stages/02-{TASKS[1]}")
    last = only(whole, tmp_path / "last", ["er-1"])
    edit_trials(last / "runs/er-1", lambda trial: trial if trial.stage == 2 and trial.seed >= 2 else None)
    files = [pack(folder, tmp_path / f"{folder.name}{SUFFIX}") for folder in (half, late, last)]
    expected = pack(only(whole, tmp_path / "all", FIRST), tmp_path / f"all{SUFFIX}").read_bytes()
    for n, order in enumerate((files, files[::-1], files[1:] + files[:1])):
        output = tmp_path / f"merged-{n}{SUFFIX}"
        capsys.readouterr()
        assert merge(output, *order) == 0
        assert output.read_bytes() == expected
        assert "3 of 8 runs, 3 of them in several files" in capsys.readouterr().out


def test_metrics_do_not_depend_on_the_order_in_which_trials_were_made(file, whole, half):
    expected = numbers(file, only(whole, half.parent / "same", FIRST))
    edit_trials(half / "runs/er-1", lambda trial: trial, order=lambda trials: trials[::-1])
    assert numbers(file, half) == expected


def test_a_layout_tried_again_at_another_time_is_the_same_trial(half, tmp_path):
    one = pack(half, tmp_path / f"one{SUFFIX}")
    edit_trials(half / "runs/er-1", lambda trial: replace(trial, when=2000.0, video="videos/a.mp4"))
    later = pack(half, tmp_path / f"later{SUFFIX}")
    assert merge(tmp_path / f"both{SUFFIX}", later, one) == 0
    assert (tmp_path / f"both{SUFFIX}").read_bytes() == one.read_bytes()


def change(trial, **changed):
    """Another result of the second layout of the last cell."""
    return replace(trial, **changed) if (trial.stage, trial.task, trial.seed) == (2, TASKS[1], 1) else trial


def in_json(file, edit):
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))


def in_range_check(run):
    log = run / "audit.jsonl"
    log.write_text(log.read_text().replace('"largest": 1.2', '"largest": 1.3'))


CONTRADICTIONS = {
    "settings": (
        lambda run: edit_yaml(run / "run.yaml", lambda c: c["config"].update(steps=500)),
        "steps is 500, not 400",
    ),
    "rubric": (
        lambda run: edit_yaml(run / "run.yaml", lambda c: c["tasks"][0].update(final="Otherwise.")),
        "tasks[1].final is 'Otherwise.'",
    ),
    "weights": (
        lambda run: set_weights(run / f"stages/02-{TASKS[1]}", "other"),
        "weights of stage 2 are 'other', not 'er-1 02-press_button'",
    ),
    "result": (
        lambda run: edit_trials(run, lambda trial: change(trial, score=12.5)),
        "score of the trial of press_button after stage 2 (twin, seed 1) is 12.5",
    ),
    "trial's weights": (
        lambda run: edit_trials(run, lambda trial: replace(trial, weights="w") if trial.stage == 2 else trial),
        "weights of the trial of stack_bowls after stage 2 (twin, seed 0) is 'w', not 'er-1 2'",
    ),
    "level of another layout": (
        lambda run: edit_trials(run, lambda trial: replace(trial, seed=trial.seed + 5, level="easy")),
        "level of the trial of stack_bowls after stage 1 (twin, seed 5) is 'easy', not 'standard'",
    ),
    "held-out": (
        lambda run: in_json(run / "heldout.json", lambda content: content["cells"]["1,2"].insert(0, 1.0)),
        "held-out scores of cell 1,2",
    ),
    "range check": (in_range_check, "range check of stack_bowls in stage 1 differs"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_refused_by_the_run_and_what_differs(half, tmp_path, capsys, name):
    edit, said = CONTRADICTIONS[name]
    one = pack(half, tmp_path / f"one{SUFFIX}")
    edit(half / "runs/er-1")
    other = pack(half, tmp_path / f"other{SUFFIX}")
    line = refused(capsys, tmp_path / f"both{SUFFIX}", one, other)
    assert f"Run 'er-1' in {other} contradicts {one}: " in line
    assert said in line
    assert main(["study", "report", str(one), str(other), f"--output={tmp_path}/page"]) == 2
    assert not (tmp_path / "page").exists()


def test_evidence_of_another_study_is_refused(file, whole, tmp_path, capsys):
    other = tmp_path / "mini.toml"
    other.write_text(file.read_text().replace("steps = 400", "steps = 800"))
    folder = write_folder(other, tmp_path / "other", ["er-1"])
    files = [pack(whole, tmp_path / f"a{SUFFIX}"), pack(folder, tmp_path / f"b{SUFFIX}")]
    line = refused(capsys, tmp_path / f"both{SUFFIX}", *files)
    assert f"{files[1]} is evidence of another study: train.steps is 800, not 400." in line


def begun(file, folder, names=None):
    """A study's folder whose runs have the settings with which they would begin."""
    study = load_study(str(file))
    write_folder(file, folder, names)
    for run in study.runs():
        if (folder / "runs" / run.name).exists():
            settings = {name: value for name, value in settings_of(study, run).items() if name not in FREE}
            edit_yaml(folder / f"runs/{run.name}/run.yaml", lambda content, own=settings: content.update(config=own))
    return folder


@pytest.fixture
def two_studies(tmp_path):
    """Files of two studies that have the methods sequential and er with its defaults in common."""
    train = 'seeds = [1]\n[evaluate]\ntrials = 5\n[train]\nstream = "single_arm"\nmethod = "er"\n'
    train += f"tasks = {json.dumps(TASKS)}\n"
    files = []
    for name, grid in (("ratio", "replay.ratio = [0.2, 1.0]"), ("frequency", "replay.frequency = [0.2, 0.5]")):
        files.append(tmp_path / f"{name}.toml")
        files[-1].write_text(f'name = "{name}"\n{train}[[grid]]\n{grid}\n[[grid]]\nmethod = "sequential"\n')
    return files


def test_runs_of_another_study_count_if_they_are_the_same(two_studies, tmp_path):
    ratio, frequency = two_studies
    own = pack(begun(ratio, tmp_path / "own", ["er-replay.ratio=1.0-1"]), tmp_path / f"own{SUFFIX}")
    other = pack(begun(frequency, tmp_path / "other"), tmp_path / f"other{SUFFIX}")
    assert merge(tmp_path / f"both{SUFFIX}", own, other) == 0
    found, there = read_evidence(tmp_path / f"both{SUFFIX}").runs, read_evidence(other).runs
    assert set(found) == {"er-replay.ratio=0.2-1", "er-replay.ratio=1.0-1", "sequential-1"}
    assert found["er-replay.ratio=0.2-1"] == there["er-replay.frequency=0.2-1"]


def test_a_study_named_first_takes_its_runs_from_the_files_of_others(two_studies, tmp_path, capsys):
    ratio, frequency = two_studies
    other = pack(begun(frequency, tmp_path / "other"), tmp_path / f"other{SUFFIX}")
    assert merge(tmp_path / f"own{SUFFIX}", ratio, other) == 0
    evidence = read_evidence(tmp_path / f"own{SUFFIX}")
    assert (evidence.study.name, set(evidence.runs)) == ("ratio", {"er-replay.ratio=0.2-1", "sequential-1"})
    assert "2 of 3 runs" in capsys.readouterr().out
    assert "is not a file of evidence" in refused(capsys, tmp_path / f"none{SUFFIX}", ratio)
    assert "Unknown study 'hlaf'" in refused(capsys, tmp_path / f"none{SUFFIX}", "hlaf", other)


@pytest.mark.parametrize("change", [("trials = 5", "trials = 4"), ("seeds = [1]", "seeds = [2]")])
def test_another_study_without_an_equal_run_is_refused(two_studies, tmp_path, capsys, change):
    ratio, frequency = two_studies
    own = pack(begun(ratio, tmp_path / "own"), tmp_path / f"own{SUFFIX}")
    frequency.write_text(frequency.read_text().replace(*change))
    other = pack(begun(frequency, tmp_path / "other"), tmp_path / f"other{SUFFIX}")
    line = refused(capsys, tmp_path / f"both{SUFFIX}", own, other)
    assert f"{other} is evidence of study 'frequency', which has no run of 'ratio'" in line


def test_a_study_that_was_changed_is_not_packed_with_the_runs_of_before(file, half, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    half.rename(tmp_path / "runs" / "mini")
    assert main(["study", "pack", str(file)]) == 0
    assert f"runs/mini/mini{SUFFIX}: " in capsys.readouterr().out
    changed = tmp_path / "mini.toml"
    changed.write_text(file.read_text().replace("trials = 5", "trials = 4"))
    assert main(["study", "pack", str(changed)]) == 2
    assert "holds another version of study 'mini'" in capsys.readouterr().err


def test_what_cannot_be_packed_or_merged_is_said_in_one_line(file, whole, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = pack(whole, tmp_path / f"good{SUFFIX}")
    begun = only(whole, tmp_path / "begun", [])
    for command, said in {
        f"pack {file}": "runs/mini holds no study",
        f"pack {begun}": "No run in",
        f"pack {whole} --output=evidence.zip": f"--output must end in {SUFFIX}",
        f"pack {whole} {whole}": "takes one study",
        f"pack {tmp_path}": "Unknown study",
        f"merge {good} {whole} --output=c{SUFFIX}": "is not a file of evidence",
        f"merge {good} none{SUFFIX} --output=c{SUFFIX}": f"none{SUFFIX} cannot be read",
        f"merge {good} {good}": "needs --output",
        f"report {begun}": "has trials yet",
        f"plan {good}": "Unknown study",
    }.items():
        capsys.readouterr()
        assert main(["study", *command.split()]) == 2, command
        line = capsys.readouterr().err
        assert said in line, command
        assert line.count("\n") == 1


def test_the_file_names_no_folder_of_the_machine_and_no_video(tmp_path):
    stream = tmp_path / "secret" / "kitchen.toml"
    file = write_study(tmp_path, stream)
    folder = write_folder(file, tmp_path / "folder", ["er-1"])
    run = folder / "runs/er-1"
    edit_yaml(run / "run.yaml", lambda content: content["config"].update(policy={"path": f"{tmp_path}/secret/base"}))
    edit_trials(run, lambda trial: replace(trial, run="er-1", video=f"{tmp_path}/secret/a.mp4"))
    packed = pack(folder, tmp_path / f"one{SUFFIX}")
    text = gzip.decompress(packed.read_bytes()).decode()
    assert "secret" not in text
    assert read_evidence(packed).runs["er-1"].config["policy"] == {"path": "base"}
    assert read_evidence(packed).study.train["stream"] == "kitchen.toml"


def test_times_of_jobs_are_kept_and_machines_may_differ_in_them(whole, tmp_path):
    def timed(name, *jobs):
        """Jobs that ended: their names, errors and seconds."""
        folder = only(whole, tmp_path / name, ["er-1"])
        for job, error, seconds in jobs:
            write_ended(StudyFolder(folder), EndedJob(job, job.partition("-")[0], error, seconds, 8))
        return pack(folder, tmp_path / f"{name}{SUFFIX}")

    fast = timed("fast", ("train-er-1", "it broke", 9.0), ("train-er-1", "", 60.0), ("train-er-2", "", 1.0))
    slow = timed("slow", ("train-er-1", "", 90.0), ("evaluate-er-1", "", 30.0), ("evaluate-er-1", "", None))
    assert read_evidence(fast).runs["er-1"].seconds == {"train": 60.0}
    for order in ((fast, slow), (slow, fast)):
        assert merge(tmp_path / f"both{SUFFIX}", *order) == 0
        assert read_evidence(tmp_path / f"both{SUFFIX}").runs["er-1"].seconds == {"train": 60.0, "evaluate": 30.0}


def test_streams_of_one_name_in_two_folders_need_other_names(tmp_path):
    file = write_study(tmp_path)
    grid = f'stream = ["{tmp_path}/a/kitchen.toml", "{tmp_path}/b/{{}}.toml"]\n'
    text = file.read_text().replace("[[grid]]\n", "[[grid]]\n" + grid)
    file.write_text(text.format("garage"))
    assert load_study(str(file)).runs()[0].name == "kitchen.toml-sequential-1"
    file.write_text(text.format("kitchen"))
    with pytest.raises(HoldfastError, match=r"Two runs of mini would be called 'kitchen.toml-sequential-1'"):
        load_study(str(file))


def test_a_grid_that_explodes_is_refused(tmp_path):
    file = write_study(tmp_path)
    values = list(range(100))
    file.write_text(file.read_text() + f"[[grid]]\na = {values}\nb = {values}\nc = {values}\nd = {values}\n")
    with pytest.raises(HoldfastError, match="at most 1,000 runs with all seeds, got 200,000,008 runs"):
        load_study(str(file))


def test_long_logs_are_thinned_without_losing_counts():
    lines = [
        {"step": 20 * n, "loss": float(n), "steps": 20, "samples": {"a": 3, **({"b": 1} if n % 2 else {})}}
        for n in range(1, 206)
    ]
    few = thinned(lines)
    assert len(few) == 69, "205 lines in threes"
    assert few[0] == {"step": 60, "steps": 60, "samples": {"a": 9, "b": 2}, "loss": 2.0}
    assert few[-1]["step"] == lines[-1]["step"]
    assert sum(line["samples"]["a"] for line in few) == 3 * 205
    assert thinned(lines[:100]) == tuple(lines[:100])


# --- files from anywhere


@pytest.fixture
def packed(whole, tmp_path):
    return pack(only(whole, tmp_path / "packed", ["er-1"]), tmp_path / f"one{SUFFIX}")


def rewritten(file, edit):
    content = json.loads(gzip.decompress(file.read_bytes()))
    edit(content)
    file.write_bytes(gzip.compress(json.dumps(content).encode()))
    return file


def run_of(content):
    return content["runs"]["er-1"]


BAD_CONTENT = {
    "an older version": (lambda c: c.update(version=0), "has version 0 of the evidence format"),
    "a newer version": (lambda c: c.update(version=2), "has version 2 of the evidence format"),
    "another format": (lambda c: c.update(format="x"), "is not evidence of a study"),
    "a run that the study lacks": (lambda c: c["runs"].update(x=run_of(c)), "Unknown run 'x' of study mini"),
    "the run of another seed": (lambda c: c["runs"].update({"er-2": run_of(c)}), "which its name denies"),
    "an unknown field": (lambda c: run_of(c).update(more=1), "more is not known"),
    "a missing field": (lambda c: run_of(c).pop("trials"), "trials is missing"),
    "a method": (lambda c: run_of(c)["config"].update(method="x"), "Unknown method 'x'"),
    "a list of methods": (lambda c: run_of(c)["config"].update(method=["er"]), "Unknown method"),
    "a task's name": (lambda c: run_of(c)["tasks"][0].update(name="../x"), "name '../x' must be letters"),
    "a time of another job": (lambda c: run_of(c).update(seconds={"record": 1.0}), "times of train, evaluate"),
    "a time below 0": (lambda c: run_of(c).update(seconds={"train": -1.0}), "times of train, evaluate"),
    "a time that is no number": (lambda c: run_of(c).update(seconds={"train": float("nan")}), "in seconds, not"),
    "a task twice": (lambda c: run_of(c)["tasks"].append(run_of(c)["tasks"][0]), "every task once"),
    "a score": (lambda c: run_of(c)["trials"][0].update(score=101.0), "from 0 to 100"),
    "a score that is no number": (lambda c: run_of(c)["trials"][0].update(score=float("nan")), "not a finite number"),
    "no score": (lambda c: run_of(c)["trials"][0].update(score=None), "has no score"),
    "a trial twice": (lambda c: run_of(c)["trials"].append(run_of(c)["trials"][0]), "is there twice"),
    "a trial of no cell": (lambda c: run_of(c)["trials"][0].update(stage=3), "is of none of its cells"),
    "an invalid trial": (lambda c: run_of(c)["trials"][0].update(valid=False), "is of none of its cells"),
    "a held-out cell": (lambda c: run_of(c)["heldout"].update({"3,1": [1.0]}), "held-out scores of cell '3,1'"),
    "a held-out score": (lambda c: run_of(c)["heldout"]["1,1"].append(float("inf")), "held-out scores of cell"),
    "a loss": (lambda c: run_of(c)["stages"][0]["lines"][0].update(loss=float("nan")), "a line of losses of stage 1"),
    "a stage twice": (lambda c: run_of(c)["stages"].append(run_of(c)["stages"][0]), "its stage 1 is there twice"),
    "the study's name": (lambda c: c["study"].update(name="../x"), "name '../x' must be letters"),
    "a huge grid": (lambda c: c["study"].update(grids=[{k: [*range(99)] for k in "abcdef"}]), "at most 1,000 runs"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CONTENT)
def test_evidence_that_is_not_right_is_refused_by_its_fault(packed, tmp_path, capsys, name):
    edit, said = BAD_CONTENT[name]
    assert said in refused(capsys, tmp_path / f"c{SUFFIX}", rewritten(packed, edit))


def bomb(content):
    return gzip.compress(b"[" + b"0," * (40 * 2**20) + b"0]")


DAMAGE = {
    "cut short": (lambda content: content[:-9], "cut short"),
    "a changed byte": (lambda content: content[:500] + bytes([content[500] ^ 1]) + content[501:], "cannot be"),
    "something behind it": (lambda content: content + content, "something follows its end"),
    "not gzip": (lambda content: b'{"format": 1}', "not an intact gzip file"),
    "empty": (lambda content: b"", "cut short"),
    "a bomb": (bomb, "larger than 64 MiB"),
    "nested": (lambda content: gzip.compress(b"[" * 100_000), "nested too deeply"),
    "not text": (lambda content: gzip.compress(b"\xff\xfe"), "not text in UTF-8"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_and_bombs_are_refused_in_one_line(packed, tmp_path, capsys, name):
    damage, said = DAMAGE[name]
    packed.write_bytes(damage(packed.read_bytes()))
    line = refused(capsys, tmp_path / f"c{SUFFIX}", packed)
    assert str(packed) in line
    assert said in line


def test_a_range_check_with_unknown_numbers_is_kept(packed):
    def edit(content):
        run_of(content)["range_checks"][0]["rows"][0]["largest"] = float("nan")

    (row, *_) = read_evidence(rewritten(packed, edit)).runs["er-1"].range_checks[0].rows
    assert row.largest != row.largest


def test_what_is_read_is_what_was_packed(whole, packed, tmp_path):
    from holdfast.studies.evidence import gather_evidence

    folder = tmp_path / "packed"
    study = load_study(str(whole.parent / "mini.toml"))
    assert to_json(read_evidence(packed)) == to_json(gather_evidence(study, StudyFolder(folder)))


def test_a_study_reports_the_trials_of_one_source(file, half, capsys):
    study, folder = load_study(str(file)), StudyFolder(half)
    before = study_results(study, folder)
    judge_by_hand(half / "runs" / "er-1", {(1, 1): [0.0, 1.0], (1, 2): [0.0]})
    found = study_results(study, folder)
    assert (found.source, found.others) == ("twin", {"operator": 3})
    assert found.groups == before.groups
    by_hand = study_results(study, folder, "operator")
    assert [(group.label, [len(run.trials) for run in group.runs.values()]) for group in by_hand.groups] == [
        ("er", [3])
    ]
    assert main(["study", "report", str(half), "--source=robot"]) == 2
    assert "Valid: twin, operator" in capsys.readouterr().err
    assert main(["study", "report", str(half)]) == 0
    assert "not shown: 3 of operator" in " ".join(capsys.readouterr().out.split())


def test_evidence_keeps_the_trials_of_all_sources(whole, half, tmp_path):
    with Trials(half / "runs" / "er-1" / "trials.sqlite") as trials:
        trials.add(replace(trials.all()[0], source="other", level="", seed=7))
    judge_by_hand(half / "runs" / "er-1", {(1, 1): [0.0, 1.0]})
    packed = [pack(folder, tmp_path / f"{folder.name}{SUFFIX}") for folder in (whole, half)]
    assert merge(tmp_path / f"all{SUFFIX}", *packed) == 0
    found = read_evidence(tmp_path / f"all{SUFFIX}").runs["er-1"].trials
    assert Counter(trial.source for trial in found) == {"twin": 15, "operator": 2, "other": 1}


def test_runs_that_should_differ_in_their_seed_but_learn_other_tasks_are_refused(whole, tmp_path, capsys):
    """As with a stream's file that was edited between two machines: its name is in the settings, not its tasks."""
    halves = [pack(only(whole, tmp_path / n, [f"er-{n}"]), tmp_path / f"{n}{SUFFIX}") for n in "12"]

    def swap(content):
        run = content["runs"]["er-2"]
        run["tasks"].reverse()
        run.update(trials=[], heldout=None, range_checks=[])

    rewritten(halves[1], swap)
    assert "Runs er-1 and er-2 should differ only in their seed" in refused(capsys, tmp_path / f"c{SUFFIX}", *halves)
    assert main(["study", "report", *map(str, halves), f"--output={tmp_path}/out"]) == 2
    assert "stack_bowls, press_button and press_button, stack_bowls" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("action", ["status", "report"])
def test_results_of_other_settings_are_not_shown_as_those_of_the_file(file, half, tmp_path, capsys, action):
    changed = tmp_path / "mini.toml"
    changed.write_text(file.read_text().replace("steps = 400", "steps = 500"))
    assert main(["study", action, str(changed), f"--output={half}"]) == 2
    assert "holds another version of study 'mini'" in capsys.readouterr().err
    assert main(["study", action, str(half)]) == 0


@pytest.mark.parametrize("action", ["plan", "run", "status", "report"])
def test_a_file_is_no_folder_of_a_study(file, tmp_path, capsys, action):
    (tmp_path / "out").touch()
    assert main(["study", action, str(file), f"--output={tmp_path}/out"]) == 2
    assert capsys.readouterr().err.endswith("out is a file. Name the folder of a study, or one to make.\n")


def test_a_report_folder_that_leads_elsewhere_is_refused(half, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (half / "report").symlink_to(tmp_path / "elsewhere")
    assert main(["study", "report", str(half)]) == 2
    assert "report is a link; it must be a folder" in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir())

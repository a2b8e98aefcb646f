import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from holdfast import catalog
from holdfast.commands.flags import parse
from holdfast.core import outside
from holdfast.core.json_records import to_json
from holdfast.core.records import Stage, Stream, StreamTask, Task
from holdfast.methods import METHODS
from holdfast.methods.method import Method
from holdfast.replay.config import ReplayConfig
from holdfast.studies.jobs import StudyFolder
from holdfast.studies.plan import make_plan as plan_study
from holdfast.studies.study import Study
from holdfast.train.config import TrainConfig
from holdfast.train.plan import make_plan, needed, stages_of, table

SINGLE = catalog.load_stream("single_arm", "/nowhere")
NAMES = ("stack_bowls", "hang_cup", "press_button", "fold_towel", "push_box")


EXACT = ReplayConfig(coin="stratified")


def stages(method, stream=SINGLE, steps=4000, frequency=0.2):
    return METHODS[method]().stages(stream, [steps] * len(stream.tasks), frequency)


def plan(stream="single_arm", data_root="/nowhere", look=True, **changes):
    return make_plan(TrainConfig(stream=stream, **changes), catalog.load_stream(stream, data_root), look=look)


def test_experience_replay_starts_plain_and_then_takes_longer_stages():
    found = stages("er")
    assert [s.name for s in found] == list(NAMES)
    assert [s.number for s in found] == [1, 2, 3, 4, 5]
    assert [s.learns for s in found] == [(0,), (1,), (2,), (3,), (4,)]
    assert [s.steps for s in found] == [4000, 5000, 5000, 5000, 5000]
    assert [s.frequency for s in found] == [0, 0.2, 0.2, 0.2, 0.2]
    assert [s.start for s in found] == ["base"] + ["previous"] * 4


def test_sequential_never_replays():
    found = stages("sequential")
    assert [(s.name, s.learns, s.steps, s.frequency) for s in found] == [
        (name, (i,), 4000, 0) for i, name in enumerate(NAMES)
    ]
    assert [s.start for s in found] == ["base"] + ["previous"] * 4


def test_finetune_starts_every_task_from_the_base():
    found = stages("finetune")
    assert [(s.name, s.learns, s.steps, s.frequency, s.start) for s in found] == [
        (name, (i,), 4000, 0, "base") for i, name in enumerate(NAMES)
    ]


def test_joint_learns_all_at_once_for_as_many_steps_as_replay_takes():
    assert stages("joint") == (Stage(1, "joint", (0, 1, 2, 3, 4), 24_000, 0.0, "base"),)


@pytest.mark.parametrize(("frequency", "budget"), [(0.0, 20_000), (0.1, 21_776), (0.3, 26_856), (0.5, 36_000)])
def test_the_joint_budget_follows_the_replay_frequency(frequency, budget):
    assert stages("joint", frequency=frequency)[0].steps == budget
    assert sum(s.steps for s in stages("er", frequency=frequency)) == budget


def test_a_task_can_have_steps_of_its_own():
    def steps(method):
        config = TrainConfig(stream="single_arm", method=method, steps=100, task_steps={"hang_cup": 400, "push_box": 7})
        return [stage.steps for stage in stages_of(config, SINGLE)]

    assert steps("sequential") == steps("finetune") == [100, 400, 100, 100, 7]
    assert steps("er") == [100, 500, 125, 125, 8]
    assert steps("joint") == [sum(steps("er"))]


def test_only_experience_replay_keeps_episodes():
    assert {name: METHODS[name].replays for name in ("er", "sequential", "joint", "finetune")} == {
        "er": True, "sequential": False, "joint": False, "finetune": False,
    }  # fmt: skip


def test_a_stages_folder_sorts_in_order():
    assert stages("er")[0].folder == "01-stack_bowls"
    assert Stage(10, "x", (9,), 1).folder == "10-x"


def test_the_plan_of_a_catalog_stream_without_data_counts_with_the_catalog():
    found = json.loads(json.dumps(to_json(plan(replay=EXACT))))
    assert (found["stream"], found["method"], found["policy"], found["normalization"]) == (
        "single_arm", "er", "nano", "frozen-first",
    )  # fmt: skip
    assert found["output"] == "runs/single_arm-er"
    assert found["total_steps"] == 24_000
    assert found["episodes"] == dict.fromkeys(NAMES, 500)
    for number, (stage, kept) in enumerate(zip(found["stages"], [100, 50, 33, 25, 20], strict=True), 1):
        assert stage["kept"] == dict.fromkeys(NAMES[:number], kept)
        assert stage["number"] == number
        assert stage["samples"] == stage["steps"] * 128
    assert [s["replay_steps"] for s in found["stages"]] == [0, 1000, 1000, 1000, 1000]
    assert [s["replay_frequency"] for s in found["stages"]] == [0, 0.2, 0.2, 0.2, 0.2]
    assert found["stages"][0]["replay_share"] == {}
    assert found["stages"][3]["replay_share"] == dict.fromkeys(NAMES[:3], 0.3333)
    assert len(found["notes"]) == 5
    assert found["notes"][0].startswith("/nowhere/stack_bowls is not here; assuming the catalog's 500")


@pytest.mark.parametrize("method", ["sequential", "joint", "finetune"])
def test_methods_without_a_buffer_plan_none(method):
    for stage in plan(method=method).stages:
        assert (stage.kept, stage.replay_share, stage.replay_steps) == ({}, {}, 0)


def test_with_row_mixing_stages_grow_alike_and_the_replayed_samples_are_exact():
    by_step, by_row = (plan(steps=400, batch_size=30, replay=replace(EXACT, mix=mix)).stages for mix in ("step", "row"))
    assert [s.steps for s in by_row] == [s.steps for s in by_step] == [400] + [500] * 4
    assert [(s.replay_steps, s.replay_samples) for s in by_step] == [(0, 0)] + [(100, 3000)] * 4
    assert [(s.replay_steps, s.replay_samples) for s in by_row] == [(0, 0)] + [(500, 3000)] * 4


class EveryOther(Method):
    """Replays in every second step of stage 2, every third of stage 3, and so on."""

    replays = True

    def replayed_rows(self, stage, step, batch_size, replay, seed):
        return 0 if step % stage.number else 10


def test_the_plan_counts_what_the_method_replays(monkeypatch):
    monkeypatch.setitem(METHODS, "mine", EveryOther)
    found = plan(method="mine", steps=600, replay=ReplayConfig(frequency=0.4)).stages
    assert [s.steps for s in found] == [600] + [1000] * 4
    assert [(s.replay_steps, s.replay_samples) for s in found] == [
        (0, 0), (500, 5000), (334, 3340), (250, 2500), (200, 2000),
    ]  # fmt: skip
    long = plan(method="mine", steps=100_000).stages[1]
    assert long.replay_steps == pytest.approx(long.steps / 2, rel=0.05)
    assert long.replay_samples == pytest.approx(10 * long.replay_steps, rel=1e-4)


def write_header(root, name, episodes, frames):
    folder = root / name / "meta"
    folder.mkdir(parents=True)
    (folder / "info.json").write_text(json.dumps({"total_episodes": episodes, "total_frames": frames}))


def test_looking_at_headers_counts_what_is_there(tmp_path):
    write_header(tmp_path, "stack_bowls", 60, 6000)
    write_header(tmp_path, "hang_cup", 7, 2100)
    found = plan(data_root=str(tmp_path), steps=10, replay=ReplayConfig(share="frames"))
    assert found.episodes == {"stack_bowls": 60, "hang_cup": 7} | dict.fromkeys(NAMES[2:], 500)
    assert [s.kept["stack_bowls"] for s in found.stages] == [12, 6, 4, 3, 2]
    assert len(found.notes) == 3
    # After stage 2, 6 episodes of 100 frames and 1 of 300 are kept.
    assert found.stages[2].replay_share == {"stack_bowls": 0.6667, "hang_cup": 0.3333}


@pytest.mark.parametrize("text", ["{", "[]", '{"total_episodes": "many", "total_frames": 1}', "{}", "null"])
def test_a_header_that_cannot_be_read_counts_with_the_catalog(tmp_path, text):
    write_header(tmp_path, "stack_bowls", 1, 1)
    (tmp_path / "stack_bowls" / "meta" / "info.json").write_text(text)
    assert plan(data_root=str(tmp_path), steps=10).episodes["stack_bowls"] == 500


def test_a_task_of_unknown_size_is_planned_as_unknown():
    stream = Stream("mine", (StreamTask(Task("wave", "Wave.", ("left",)), "/nowhere/wave"),))
    found = make_plan(TrainConfig(stream="mine"), stream, look=True)
    assert found.episodes == {"wave": None}
    assert found.stages[0].kept == {"wave": None}
    assert found.notes == ("/nowhere/wave is not here; its size is not known.",)


def test_without_look_no_file_is_touched(tmp_path, monkeypatch):
    for name in NAMES:
        write_header(tmp_path, name, 60, 6000)
    stream, config = catalog.load_stream("single_arm", str(tmp_path)), TrainConfig(stream="single_arm")

    def explode(*args, **kwargs):
        raise AssertionError("a file was looked at")

    with monkeypatch.context() as patch:
        for name in ("read_text", "read_bytes", "open", "is_file", "exists", "stat"):
            patch.setattr(Path, name, explode)
        patch.setattr(outside, "open_file", explode)
        found = make_plan(config, stream, look=False)
    assert found.notes == ()
    assert set(found.episodes.values()) == {None}
    assert [s.steps for s in found.stages] == [4000] + [5000] * 4
    monkeypatch.setattr(outside, "open_file", explode)
    with pytest.raises(AssertionError, match="looked at"):
        make_plan(config, stream, look=True)


def test_the_asymmetric_schedule_gives_bimanual_tasks_two_parts_of_three():
    found = plan("heterogeneous", replay=replace(EXACT, frequency=0.3, share="group"), steps=400)
    groups = {entry.task.name: entry.task.group for entry in catalog.load_stream("heterogeneous", "/nowhere").tasks}
    assert [s.steps for s in found.stages] == [400] + [571] * 9
    assert [s.replay_steps for s in found.stages] == [0] + [171] * 9
    assert found.stages[1].replay_share == {"stack_bowls": 1.0}  # nothing bimanual is kept yet
    assert found.stages[2].replay_share == {"stack_bowls": 0.3333, "place_cola": 0.6667}
    for stage in found.stages[2:]:
        bimanual = sum(w for name, w in stage.replay_share.items() if groups[name] == "bimanual")
        assert bimanual == pytest.approx(2 / 3, abs=0.001)
        assert sum(stage.replay_share.values()) == pytest.approx(1, abs=0.001)
    last = found.stages[-1].replay_share
    assert last["stack_bowls"] == round(1 / 3 / 5, 4)
    assert last["pack_bag"] == round(2 / 3 / 4, 4)


def test_the_table_shows_every_stage_and_the_total():
    console = Console(width=200, color_system=None)
    with console.capture() as caught:
        console.print(table(plan(replay=EXACT)))
    text = caught.get()
    assert all(name in text for name in NAMES)
    assert "24000 steps in all, into runs/single_arm-er" in text
    assert "~1000" in text
    assert "stack_bowls 33" in text
    assert "hang_cup 33%" in text


def test_the_plan_tells_what_each_rank_takes():
    stream = catalog.load_stream("single_arm", "/nowhere")
    shared = make_plan(TrainConfig(stream="single_arm", parallel="fsdp"), stream, look=True, ranks=4)
    assert (shared.ranks, shared.samples_per_rank, shared.parallel) == (4, 32, "fsdp")
    console = Console(width=200, color_system=None)
    with console.capture() as caught:
        console.print(table(shared))
    assert "24000 steps in all, 32 samples on each of 4 ranks (fsdp), into" in caught.get()


@pytest.mark.parametrize(
    ("method", "store", "read"),
    [
        ("er", "reference", NAMES),
        ("er", "copy", NAMES[1:]),
        ("sequential", "reference", NAMES[1:]),
        ("joint", "copy", NAMES),
    ],
)
def test_a_dataset_is_needed_until_its_stage_is_finished_unless_it_is_replayed(tmp_path, method, store, read):
    config = TrainConfig(stream="s", method=method, output=str(tmp_path), replay=ReplayConfig(store=store))
    (tmp_path / "stages" / f"01-{NAMES[0]}" / "checkpoint").mkdir(parents=True)
    found = needed(config, catalog.load_stream("single_arm", "/nowhere"))
    assert [entry.task.name for entry in found] == list(read)


def test_a_study_counts_no_stage_as_shared_whose_steps_are_a_method_s_own(tmp_path):
    methods = ["sequential", "finetune", "ewc", "lwf", "agem"]
    study = Study("s", {"stream": "single_arm"}, grids=({"method": methods},))
    planned = plan_study(study, StudyFolder(tmp_path), lambda flags: parse(TrainConfig, "train", list(flags), ""))
    # finetune's first stage is that of sequential; the others' first stages would be, too, but are never taken over.
    assert [run.shared for run in planned] == [0, 1, 0, 0, 0]


def test_a_study_counts_stages_as_shared_by_the_rule_of_training(tmp_path):
    """How often progress is saved changes no weight, the batch does, and the replay frequency in later stages only."""
    grids = {"checkpoint.every": [100, 200]}, {"batch_size": [8, 16]}, {"replay.frequency": [0.1, 0.2], "method": "er"}
    for grid, shared in zip(grids, (5, 0, 1), strict=True):
        study = Study("s", {"stream": "single_arm"}, grids=({"method": "sequential"} | grid,))
        planned = plan_study(study, StudyFolder(tmp_path), lambda flags: parse(TrainConfig, "train", list(flags), ""))
        assert [run.shared for run in planned] == [0, shared]

"""The story end to end on toy data: stages chain, weights resume exactly, later tasks stay closed, spaces hold."""

import json
import shutil

import numpy as np
import pytest
import torch
from toys import TINY, stream_text

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.clock import SteadyClock
from holdfast.core.json_records import to_json
from holdfast.embodiments import EMBODIMENTS


def train(toy, *more, code=0, name="run"):
    base = [f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--steps=6", "--batch_size=4", "--device=cpu"]
    assert main(["train", *base, *TINY, "--log.every=2", "--checkpoint.every=3", *more]) == code
    return toy / name


def weights(run, stage=-1):
    folder = sorted((run / "stages").iterdir())[stage]
    return checked_folder.file_hash(folder / "checkpoint" / "policy" / "model.safetensors")


def events(run, kind):
    lines = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_er_leaves_a_policy_buffer_and_statistics_per_stage(toy):
    run = train(toy)
    names = [p.name for p in sorted((run / "stages").iterdir())]
    assert names == ["01-reach", "02-lift", "03-sweep"]
    buffers = [json.loads((p / "checkpoint" / "buffer.json").read_text()) for p in sorted((run / "stages").iterdir())]
    assert [[k["task"] for k in b["tasks"]] for b in buffers] == [
        ["reach"],
        ["reach", "lift"],
        ["reach", "lift", "sweep"],
    ]
    steps = [
        json.loads((p / "metrics.jsonl").read_text().splitlines()[-1])["step"]
        for p in sorted((run / "stages").iterdir())
    ]
    assert steps == [6, 7, 7]  # floor(6 / 0.8) after the first


def test_metrics_tell_tasks_arms_and_dimensions_apart(toy):
    run = train(toy, "--replay.frequency=0.6", "--tasks=[reach, lift]")
    lines = [json.loads(line) for line in (run / "stages" / "02-lift" / "metrics.jsonl").read_text().splitlines()]
    seen = {task for line in lines for task in line["loss_by_task"]}
    assert seen == {"reach", "lift"}
    assert set(lines[0]["loss_by_arm"]) == {"left", "right"}
    assert len(lines[0]["loss_by_dimension"]) == 14
    assert sum(line["replay_steps"] for line in lines) > 0


def test_no_file_of_a_task_is_opened_before_its_stage(toy):
    # A later dataset that cannot be read at all: a run that opened it early would stop early.
    broken = toy / "sweep" / "meta" / "info.json"
    header = broken.read_text()
    broken.write_text("not yet recorded")
    run = train(toy, code=2)
    assert (run / "stages" / "02-lift" / "checkpoint").exists()
    broken.write_text(header)
    train(toy)
    first = {}
    for line in events(run, "open"):
        first.setdefault(line["dataset"].rsplit("/", 1)[-1], line["stage"])
    assert first == {"reach": 1, "lift": 2, "sweep": 3}


@pytest.mark.parametrize("method", ["er", "sequential", "joint", "finetune"])
def test_a_run_started_again_changes_nothing(toy, method):
    run = train(toy, f"--method={method}", "--tasks=[reach, lift]")
    before = weights(run)
    train(toy, f"--method={method}", "--tasks=[reach, lift]")
    assert weights(run) == before


def test_a_run_goes_on_from_progress_and_ends_with_the_same_weights(toy):
    whole = train(toy, "--tasks=[reach, lift]", name="whole")
    other = train(toy, "--tasks=[reach, lift]", name="other")
    stage = other / "stages" / "02-lift"
    shutil.rmtree(stage / "checkpoint")
    shutil.rmtree(sorted((stage / "progress").glob("step-*"))[-1])  # as if killed between two saves
    train(toy, "--tasks=[reach, lift]", name="other")
    assert weights(other) == weights(whole)
    lines = [json.loads(line)["step"] for line in (stage / "metrics.jsonl").read_text().splitlines()]
    assert lines == sorted(set(lines))


def test_a_stage_waits_for_a_dataset_that_is_still_being_recorded(toy, monkeypatch, capsys):
    whole = train(toy, "--tasks=[reach, lift]", name="whole")
    (toy / "lift").rename(toy / "in progress")
    train(toy, "--tasks=[reach, lift]", name="other", code=2)
    assert "of task 'lift' does not exist" in capsys.readouterr().err

    def finish_recording(clock, seconds):
        assert (toy / "other" / "stages" / "01-reach" / "checkpoint").exists()
        (toy / "in progress").rename(toy / "lift")

    monkeypatch.setattr(SteadyClock, "sleep", finish_recording)
    other = train(toy, "--tasks=[reach, lift]", "--wait=true", name="other")
    assert [weights(other, stage) for stage in (0, 1)] == [weights(whole, stage) for stage in (0, 1)]


def test_a_flipped_bit_is_found_and_the_checkpoint_before_is_used(toy, capsys):
    run = train(toy, "--tasks=[reach]", "--checkpoint.keep=3")
    good, stage = weights(run), run / "stages" / "01-reach"
    newest = sorted((stage / "progress").glob("step-*"))[-1]
    shutil.copytree(newest, stage / "progress" / "step-00000099")
    file = stage / "progress" / "step-00000099" / "training.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    shutil.rmtree(stage / "checkpoint")
    capsys.readouterr()
    train(toy, "--tasks=[reach]", "--checkpoint.keep=3")
    assert "is damaged" in capsys.readouterr().out.replace("\n", " ")
    assert weights(run) == good


def test_a_damaged_final_checkpoint_is_made_again(toy, capsys):
    run = train(toy, "--tasks=[reach, lift]")
    good = weights(run)
    (run / "stages" / "02-lift" / "checkpoint" / "buffer.json").write_text("{}")
    train(toy, "--tasks=[reach, lift]")
    assert "is damaged" in capsys.readouterr().out.replace("\n", " ")
    assert weights(run) == good


def test_a_full_disk_stops_cleanly_and_the_same_command_goes_on(toy, monkeypatch, capsys):
    whole = train(toy, "--tasks=[reach]", name="whole")
    from holdfast.train import state

    real, calls = state.save_file, []

    def full(tensors, path):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(tensors, path)

    monkeypatch.setattr(state, "save_file", full)
    run = train(toy, "--tasks=[reach]", code=2)
    assert "disk is full" in capsys.readouterr().err
    progress = run / "stages" / "01-reach" / "progress"
    assert [p.name for p in progress.iterdir()] == ["step-00000003"]
    train(toy, "--tasks=[reach]")
    assert weights(run) == weights(whole)


def test_a_changed_dataset_is_not_replayed_as_if_nothing_happened(toy, capsys):
    train(toy, "--tasks=[reach, lift]")
    shutil.rmtree(toy / "run" / "stages" / "02-lift")
    extra = toy / "reach" / "meta" / "stats.json"
    extra.write_text(extra.read_text() + " ")
    train(toy, "--tasks=[reach, lift]", code=2)
    assert "has changed since its stage" in capsys.readouterr().err


def largest_action(run, stage):
    return max(row["largest"] for line in events(run, "audit") if line["stage"] == stage for row in line["rows"])


@pytest.mark.parametrize("policy", [(), ("--policy.use_relative_actions=false",)], ids=["relative", "absolute"])
def test_frozen_first_survives_a_bimanual_task_after_a_single_arm_one(toy, policy, capsys):
    run = train(toy, "--tasks=[reach, lift]", *policy)
    assert largest_action(run, 2) <= 10
    stopped = train(toy, "--tasks=[reach, lift]", "--norm.floor=0", *policy, code=2, name="off")
    err = capsys.readouterr().err
    assert "would be normalized to" in err
    assert "right_" in err
    assert (stopped / "stages" / "01-reach" / "checkpoint").exists()
    assert not (stopped / "stages" / "02-lift" / "checkpoint").exists()


def test_only_idle_arms_are_widened_when_asked_so(toy):
    """The toy's joints move little: by default active ones are widened too."""
    widened = {}
    for mode in ("all", "idle"):
        run = train(toy, "--tasks=[reach]", f"--norm.widen={mode}", "--norm.floor=0.9", name=mode)
        widened[mode] = spaces(run, "01-reach")["measured"]["reach"]["widened"]
    assert any("left_" in name for name in widened["all"])
    assert {name.split(":")[0] for name in widened["idle"]} == {"observation.state", "action"}
    assert all("right_" in name for name in widened["idle"])
    assert set(widened["idle"]) == {name for name in widened["all"] if "right_" in name}


def spaces(run, stage):
    return json.loads((run / "stages" / stage / "checkpoint" / "normalization.json").read_text())


def test_frozen_statistics_never_change_and_travel_with_the_policy(toy):
    from safetensors.torch import load_file

    run = train(toy)
    first, last = spaces(run, "01-reach"), spaces(run, "03-sweep")
    assert first["measured"]["reach"] == last["measured"]["reach"]
    stored = load_file(
        next((run / "stages" / "03-sweep" / "checkpoint" / "policy").glob("policy_preprocessor_*normalizer*"))
    )
    assert torch.allclose(stored["action.q01"], torch.tensor(first["measured"]["reach"]["action"]["q01"]))


def test_per_task_statistics_belong_to_each_task(toy):
    run = train(toy, "--norm.strategy=per-task", "--tasks=[reach, sweep]")
    measured = spaces(run, "02-sweep")["measured"]
    assert not np.allclose(measured["reach"]["action"]["q01"], measured["sweep"]["action"]["q01"])


def test_masked_idle_arm_gets_no_loss(toy):
    run = train(toy, "--idle=mask", "--tasks=[reach]")
    line = json.loads((run / "stages" / "01-reach" / "metrics.jsonl").read_text().splitlines()[-1])
    assert set(line["loss_by_arm"]) == {"left"}


def test_accumulation_and_bf16_run(toy):
    run = train(toy, "--optim.accumulate=2", "--optim.precision=bf16", "--tasks=[reach]")
    assert (run / "stages" / "01-reach" / "checkpoint").exists()


def test_dry_run_prints_the_plan_with_measured_time_and_writes_nothing(toy, capsys):
    run = train(toy, "--dry-run", "--json")
    plan = json.loads(capsys.readouterr().out)
    assert [s["steps"] for s in plan["stages"]] == [6, 7, 7]
    assert plan["stages"][2]["kept"] == {"reach": 1, "lift": 1, "sweep": 1}
    assert plan["stages"][2]["replay_share"] == {"reach": 0.5, "lift": 0.5}
    assert plan["estimate"]["parameters"] > 0
    assert plan["estimate"]["seconds_per_step"] > 0
    assert plan["estimate"]["disk_bytes"] > 0
    assert not run.exists()


def test_a_run_without_an_embodiment_needs_none(toy):
    (toy / "stream.toml").write_text(stream_text(("reach",), ""))
    run = train(toy)
    line = json.loads((run / "stages" / "01-reach" / "metrics.jsonl").read_text().splitlines()[-1])
    assert set(line["loss_by_arm"]) == {"all"}


def test_losses_go_to_tensorboard_when_asked(toy):
    run = train(toy, "--log.tensorboard=true", "--tasks=[reach]")
    assert list((run / "stages" / "01-reach" / "tensorboard").glob("events.*"))


def test_datasets_may_move_between_two_starts(toy):
    run = train(toy, "--tasks=[reach, lift]")
    before = weights(run)
    shutil.rmtree(run / "stages" / "02-lift")
    moved = toy / "elsewhere"
    moved.mkdir()
    for name in ("reach", "lift", "stream.toml"):
        shutil.move(toy / name, moved / name)
    assert weights(train(moved, "--tasks=[reach, lift]", f"--output={run}") and run) == before


def robot_file(toy, text=lambda text: text):
    """The robot of the toy stream as a file of its own, as `text` changes it."""
    rows = [to_json(dimension) for dimension in EMBODIMENTS["piper_x_pair"].dimensions]
    tables = ["[[dimension]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in row.items()) for row in rows]
    (toy / "pair.toml").write_text(text("\n".join(tables)))
    return toy / "pair.toml"


def test_a_robot_file_edited_between_two_stages_is_refused(toy, capsys):
    (toy / "stream.toml").write_text(stream_text(("reach", "lift"), robot_file(toy)))
    held = (toy / "lift").rename(toy / "not-yet-recorded")
    (toy / "lift").mkdir()
    run = train(toy, code=2)
    assert (run / "stages" / "01-reach" / "checkpoint").exists()
    (toy / "lift").rmdir()
    held.rename(toy / "lift")

    robot_file(toy, lambda text: text.replace("step = 0.07", "step = 0.05", 1))
    capsys.readouterr()
    train(toy, code=2)
    said = " ".join(capsys.readouterr().err.split())
    assert "step of 'left_joint_1.pos' was 0.07, now 0.05" in said
    assert "another --output" in said
    assert not (run / "stages" / "02-lift").exists()

    robot_file(toy)
    train(toy)
    assert (run / "stages" / "02-lift" / "checkpoint").exists()


def test_a_run_begun_before_robots_were_stored_gets_its_own(toy):
    run = train(toy, "--tasks=[reach]")
    before = weights(run)
    (run / "embodiment.json").unlink()
    train(toy, "--tasks=[reach]")
    assert json.loads((run / "embodiment.json").read_text())["embodiment"]["name"] == "piper_x_pair"
    assert weights(run) == before

"""Datasets whose state has other dimensions than their action, or whose actions are increments, train too."""

import json

import numpy as np
import pytest
import torch
from toys import ACT, TINY, numbers_stream, write_numbers

from holdfast.cli import main
from holdfast.data.lerobot.source import open_source
from holdfast.evaluate.heldout import write_heldout
from holdfast.norm.strategies import Normalization
from holdfast.policies import adapter, transforms
from holdfast.policies.relative import PairedRelativeActionsStep
from holdfast.policies.saved_folder import load_pipelines
from holdfast.runs.run import read_run

# LIBERO's sizes: 8 and 7. Three names are in both, elsewhere; the policy leaves the gripper absolute anyway.
STATES = ("x", "y", "z", "roll", "pitch", "yaw", "finger", "gripper")
ACTIONS = ("gripper", "z", "x", "turn_1", "turn_2", "turn_3", "speed")
FLAGS = ("--device=cpu", "--steps=4", "--batch_size=4", "--replay.frequency=0.5", "--norm.limit=1000")


def record(folder, states, actions, **more):
    for seed, name in enumerate(("one", "two")):
        write_numbers(folder / name, states, actions, seed=seed, **more)


def train(folder, *flags, policy=TINY):
    return main(["train", f"--stream={folder}/stream.toml", f"--output={folder}/run", *FLAGS, *policy, *flags])


def notes(run):
    lines = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    return [line["note"] for line in lines if line["event"] == "relative_actions"]


def finished(run, stage="02-two"):
    folder = run / "stages" / stage / "checkpoint"
    normalization = Normalization.from_json(json.loads((folder / "normalization.json").read_text()))
    return folder, normalization


@pytest.fixture(scope="module")
def libero(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libero")
    record(folder, STATES, ACTIONS)
    write_numbers(folder / "unseen" / "one", STATES, ACTIONS, seed=7)
    write_numbers(folder / "unseen" / "two", STATES, ACTIONS, seed=8)
    numbers_stream(folder)
    assert train(folder) == 0
    return folder


def test_only_actions_with_a_state_of_their_name_are_relative(libero):
    assert notes(libero / "run") == [
        "Actions that are no targets or have no state dimension of the same name stay as they are: "
        "turn_1, turn_2, turn_3, speed."
    ]
    folder, normalization = finished(libero / "run")
    config = json.loads((folder / "policy/config.json").read_text())
    assert config["relative_to"] == [7, 2, 0, -1, -1, -1, -1]
    action = np.array(normalization.train("one").action.min)
    assert (np.abs(action[1:]) < 2).all()  # differences and increments; the state itself is about 5
    assert action[0] > 3  # the gripper


def test_the_saved_policy_adds_what_training_subtracted(libero):
    folder, normalization = finished(libero / "run")
    ours = adapter.load(folder / "policy", ACTIONS, "cpu")
    state, action = torch.arange(16.0).view(2, 8), torch.arange(14.0).view(2, 1, 7)
    batch = {
        "observation.state": state,
        "action": action,
        "task": ["Go.", "Go."],
        "observation.image": torch.rand(2, 3, 8, 8),
    }
    pre, _ = transforms.build(ours.config, normalization.test("two"))
    stats = normalization.test("two").action
    low, high = torch.tensor(stats.q01), torch.tensor(stats.q99)
    ready = pre(batch)
    subtracted = (ready["action"] + 1) / 2 * (high - low) + low
    wanted = action.clone()
    wanted[:, 0, 1] -= state[:, 2]
    wanted[:, 0, 2] -= state[:, 0]
    assert torch.allclose(subtracted.float(), wanted, atol=1e-4)
    for pipelines in (
        transforms.build(ours.config, normalization.test("two")),
        load_pipelines(ours.config, folder / "policy"),
    ):
        pre, post = pipelines
        assert any(isinstance(step, PairedRelativeActionsStep) for step in pre.steps)
        assert torch.allclose(post(pre(batch)["action"]), action, atol=1e-4)


def test_queued_actions_count_from_the_state_they_were_predicted_in(libero):
    folder, normalization = finished(libero / "run")
    ours = adapter.load(folder / "policy", ACTIONS, "cpu")
    pre, post = transforms.build(ours.config, normalization.test("two"))
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    states = 5 + torch.rand(4, 1, 8, generator=torch.Generator().manual_seed(1))
    batches = [{"observation.state": s, "observation.image": image, "task": ["Do two."]} for s in states]
    torch.manual_seed(0)
    chunk = post(ours.policy.predict_action_chunk(pre(batches[0])))[0]
    torch.manual_seed(0)
    ours.policy.reset()
    queued = torch.cat([post(ours.policy.select_action(pre(batch))) for batch in batches])
    assert torch.allclose(queued, chunk[:4], atol=1e-3)


def test_state_and_action_have_statistics_of_their_own_sizes(libero):
    folder, normalization = finished(libero / "run")
    space = normalization.train("one")
    assert (len(space.state.q01), len(space.action.q01)) == (8, 7)
    source = open_source(str(libero / "one"))
    assert space.state.min == pytest.approx(source.state.min(0).tolist())
    schema = json.loads((folder / "schema.json").read_text())
    assert (schema["names"], schema["state_names"]) == (list(ACTIONS), list(STATES))


def test_held_out_demonstrations_are_scored(libero):
    assert len(list(write_heldout(read_run(libero / "run"), libero / "unseen", False, "cpu"))) == 3
    cells = json.loads((libero / "run/heldout.json").read_text())["cells"]
    assert all(0 <= score <= 100 for scores in cells.values() for score in scores)


def test_a_bundle_answers_questions_with_the_states_dimensions(libero, tmp_path):
    from holdfast.core.observation import Question
    from holdfast.core.wire import pack, unpack
    from holdfast.policies.pilot import Pilot
    from holdfast.serve.new_bundle import make
    from holdfast.serve.protocol import MessageCodec

    bundle = make(libero / "run", None, tmp_path / "bundle")
    assert (bundle.names, bundle.state_names, list(bundle.cameras)) == (ACTIONS, STATES, ["image"])
    pilot = Pilot(bundle.path, bundle.names, "cpu")
    codec = MessageCodec(bundle, pilot.answer_steps)
    image = np.zeros((32, 32, 3), np.uint8)
    asked = {"observation.state": np.zeros(8, np.float32), "observation.image": image, "prompt": "Do one."}
    question = codec.read(pack(asked), 0)
    assert isinstance(question, Question)
    (actions,) = pilot.answer([question])
    answer = unpack(codec.answer(question, actions, 0, 0), 10**6)
    assert answer["actions"].shape == (4, 7)


def test_copies_and_exports_keep_both(libero, tmp_path):
    assert train(libero, f"--output={libero}/copies", "--replay.store=copy") == 0
    weights = [finished(libero / run)[0] / "policy/model.safetensors" for run in ("run", "copies")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert main(["export", "buffer", str(libero / "copies"), f"--output={tmp_path}/kept"]) == 0
    kept = open_source(str(tmp_path / "kept"))
    assert (kept.state_names, kept.action_names, kept.cameras[0].key) == (STATES, ACTIONS, "observation.image")


def test_other_policies_train_too(libero):
    assert train(libero, f"--output={libero}/act", policy=ACT) == 0
    assert notes(libero / "act") == []


def test_actions_without_a_match_turn_relative_actions_off(tmp_path, capsys):
    record(tmp_path, ("x", "y"), ("delta_x", "delta_y", "gripper"), deltas=True, camera="observation.images.top")
    numbers_stream(tmp_path)
    assert train(tmp_path) == 0
    said = "Relative actions are off: no state dimension measures a target of the same name (delta_x, delta_y)."
    assert notes(tmp_path / "run") == [said]
    assert said.split(":")[0] in capsys.readouterr().out
    config = json.loads((tmp_path / "run/stages/02-two/checkpoint/policy/config.json").read_text())
    assert config["use_relative_actions"] is False
    assert train(tmp_path, f"--output={tmp_path}/asked", "--policy.use_relative_actions=true") == 2
    assert "Set --policy.use_relative_actions=false" in capsys.readouterr().err


ROBOT = """
[[dimension]]
name = "x"
arm = "hand"
kind = "delta"
lower = -1
upper = 1
step = 0.1
[[dimension]]
name = "gripper"
arm = "hand"
kind = "gripper"
lower = 0
upper = 10
step = 1
"""


def test_an_embodiment_keeps_increments_from_being_relative(tmp_path, capsys):
    record(tmp_path, ("x", "gripper"), ("x", "gripper"), deltas=True)
    (tmp_path / "robot.toml").write_text(ROBOT)
    numbers_stream(tmp_path, embodiment=tmp_path / "robot.toml")
    assert train(tmp_path, "--policy.relative_exclude_joints=[]") == 0
    assert notes(tmp_path / "run") == [
        "Actions that are no targets or have no state dimension of the same name stay as they are: x (delta)."
    ]
    space = finished(tmp_path / "run")[1].train("one")
    raw = open_source(str(tmp_path / "one"))
    assert space.action.min[0] == pytest.approx(raw.action[:, 0].min())  # nothing was subtracted
    assert space.action.min[1] < -4  # the gripper's increments minus its state
    # The state's x is not the hand's increment: only what the embodiment describes is widened.
    assert "observation.state:gripper" in space.widened
    assert "observation.state:x" not in space.widened
    assert train(tmp_path, f"--output={tmp_path}/iv", "--norm.strategy=calibrated") == 2
    assert "declares none for the state's x. Choose --norm.strategy=frozen-first" in capsys.readouterr().err


def test_a_dataset_whose_state_differs_from_the_first_ones_is_refused(tmp_path, capsys):
    write_numbers(tmp_path / "one", ("x", "y"), ("x", "y"))
    write_numbers(tmp_path / "two", ("x", "y", "z"), ("x", "y"))
    numbers_stream(tmp_path)
    assert train(tmp_path) == 2
    assert "differs from the run's first one in state_names: ['x', 'y', 'z']" in capsys.readouterr().err


def test_a_camera_under_another_key_is_refused_with_the_line_to_write(tmp_path, capsys):
    record(tmp_path, ("x",), ("x",), camera="wrist_rgb")
    file = numbers_stream(tmp_path)
    assert train(tmp_path) == 2
    assert '[task.cameras] top = "wrist_rgb"' in capsys.readouterr().err
    text = file.read_text().replace('dataset = "one"', 'dataset = "one"\n[task.cameras]\ntop = "wrist_rgb"')
    file.write_text(text.replace('dataset = "two"', 'dataset = "two"\n[task.cameras]\ntop = "wrist_rgb"'))
    assert train(tmp_path) == 0

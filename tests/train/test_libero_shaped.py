"""Data of LIBERO's shape (state 8, action 7 increments, other names): trained and answered as LeRobot computes it."""

import json

import numpy as np
import pytest
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from toys import ACT, TINY, numbers_stream, write_numbers

from holdfast.cli import main
from holdfast.core.records import Task
from holdfast.core.wire import pack, unpack
from holdfast.data.lerobot.source import open_source
from holdfast.data.lesson import Lesson
from holdfast.embodiments import EMBODIMENTS
from holdfast.norm.strategies import Normalization
from holdfast.policies import adapter, transforms
from holdfast.policies.pilot import Pilot
from holdfast.serve.new_bundle import make
from holdfast.serve.protocol import MessageCodec

CAMERA = "observation.images.image"
STATE, ACTION = 8, 7  # without names, as most of the hub's LIBERO datasets
SMALL = ("--device=cpu", "--steps=4", "--batch_size=4", "--replay.frequency=0.5", "--norm.limit=1000")
POLICIES = {"nano": TINY, "act": ACT}


@pytest.fixture(scope="module")
def libero(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libero_shaped")
    for seed, name in enumerate(("one", "two")):
        write_numbers(folder / name, STATE, ACTION, seed=seed, camera=CAMERA)
    stream = numbers_stream(folder, embodiment="libero")
    for name, flags in POLICIES.items():
        assert main(["train", f"--stream={stream}", f"--output={folder}/{name}", *SMALL, *flags]) == 0
    return folder


def checkpoint(folder, policy):
    return folder / policy / "stages/02-two/checkpoint"


def stock(folder):
    """The policy and its processors as LeRobot itself loads them."""
    config = PreTrainedConfig.from_pretrained(folder)
    policy = get_policy_class(config.type).from_pretrained(folder).eval()
    return (policy, *make_pre_post_processors(config, pretrained_path=folder))


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_subtracted_from_increments(libero, policy):
    config = json.loads((checkpoint(libero, policy) / "policy/config.json").read_text())
    assert not config.get("use_relative_actions")
    space = Normalization.from_json(json.loads((checkpoint(libero, policy) / "normalization.json").read_text()))
    raw = open_source(str(libero / "one")).action
    assert space.train("one").action.min == pytest.approx(raw.min(0).tolist())
    assert (space.train("one").action.q01[6], space.train("one").action.q99[6]) == (-1, 1)  # the gripper's two values


@pytest.mark.parametrize("policy", POLICIES)
def test_training_reads_what_lerobots_own_processors_give(libero, policy):
    folder = checkpoint(libero, policy)
    ours = adapter.load(folder / "policy", tuple(f"dimension_{i}" for i in range(ACTION)), "cpu")
    frame, steps = 15, ours.layout.action
    source = open_source(str(libero / "one"))
    robot = EMBODIMENTS["libero"]
    lesson = Lesson(Task("one", "Do one.", ("arm",)), source, robot.active(["arm"]), True, robot)
    actions, _ = lesson.actions(np.array([frame]), steps)
    batch = {
        "observation.state": torch.from_numpy(source.state[[frame]]),
        "action": torch.from_numpy(actions),
        "task": ["Do one."],
        "task_index": torch.tensor([0]),
        CAMERA: torch.zeros(1, 3, 32, 32),
    }
    normalization = Normalization.from_json(json.loads((folder / "normalization.json").read_text()))
    found = transforms.build_training(ours.config, [normalization.train("one")])(batch)

    dataset = LeRobotDataset("local/one", root=libero / "one", delta_timestamps={"action": [s / 10 for s in steps]})
    theirs = {key: value[None] for key, value in dataset[frame].items() if isinstance(value, torch.Tensor)}
    _, before, after = stock(folder / "policy")
    wanted = before({**theirs, "task": ["Do one."]})
    for key in ("observation.state", "action"):
        assert found[key].shape == wanted[key].shape
        assert torch.allclose(found[key], wanted[key], rtol=0, atol=1e-6), key
    assert torch.allclose(after(found["action"]), theirs["action"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_server_answers_as_stock_lerobot_acts(libero, tmp_path, policy):
    bundle = make(libero / policy, None, tmp_path / "bundle")
    assert (len(bundle.state_names), len(bundle.names), bundle.embodiment.name) == (STATE, ACTION, "libero")
    pilot = Pilot(bundle.path, bundle.names, "cpu", rows=1)
    codec = MessageCodec(bundle, pilot.answer_steps)
    rng = np.random.default_rng(3)
    state, image = rng.normal(5, 0.1, STATE).astype(np.float32), rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    question = codec.read(pack({"observation.state": state, CAMERA: image, "prompt": "Do two."}), 0)
    (actions,) = pilot.answer([question])
    answer = unpack(codec.answer(question, actions, 0, 0), 10**6)["actions"]

    acting, before, after = stock(bundle.path / "policy")
    seen = {
        "observation.state": torch.from_numpy(state)[None],
        CAMERA: torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255,
        "task": ["Do two."],
    }
    noise = {"noise": torch.from_numpy(pilot._noise(question))[None]} if policy == "nano" else {}
    wanted = after(acting.predict_action_chunk(before(seen), **noise))[0, : len(answer)]
    assert answer.shape == (pilot.answer_steps, ACTION)
    assert np.abs(answer - wanted.detach().numpy()).max() < 1e-6


def test_kept_episodes_are_exported_as_they_were(libero, tmp_path):
    assert main(["export", "buffer", str(libero / "nano"), f"--output={tmp_path}/kept"]) == 0
    kept = open_source(str(tmp_path / "kept"))
    assert (kept.state.shape[1], kept.action.shape[1], kept.cameras[0].key) == (STATE, ACTION, CAMERA)


def test_increments_under_the_states_names_stop_a_policy_that_would_subtract(tmp_path, capsys):
    for seed, name in enumerate(("one", "two")):
        write_numbers(tmp_path / name, ("x", "y"), ("x", "y"), deltas=True, seed=seed)
    words = ["train", f"--stream={numbers_stream(tmp_path)}", *SMALL, *TINY]
    assert main([*words, f"--output={tmp_path}/run"]) == 2
    said = capsys.readouterr().err
    assert "would learn the actions x, y relative to the state of the same name" in said
    assert "Nothing was subtracted" in said
    assert "--policy.use_relative_actions=false" in said
    assert main([*words, f"--output={tmp_path}/plain", "--policy.use_relative_actions=false"]) == 0
    assert main([*words, f"--output={tmp_path}/asked", "--policy.use_relative_actions=true"]) == 0

"""Recordings list cameras in the released order, pi0.5 reads them so, and for nano the order changes nothing."""

import json
import shutil

import pytest
import torch
from pi05_tiny import SIZES
from toy_world import write_dataset
from toys import TINY, stream_text

from holdfast import catalog
from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.records import Task
from holdfast.data.lerobot.source import IMAGES, STATE, open_source
from holdfast.embodiments import EMBODIMENTS
from holdfast.norm.released import read_norm_stats
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.policies.config import SHIPPED, PolicyChoice

ROBOT = EMBODIMENTS["piper_x_pair"]
RELEASED = ("head", "left_wrist", "right_wrist", "front")
BEFORE = ("head", "front", "left_wrist", "right_wrist")  # how recordings were listed once
TASK = Task("reach", "Please reach.", ("left",))


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """A recording of the catalog's cameras in another order."""
    root = tmp_path_factory.mktemp("earlier") / "reach"
    write_dataset(root, TASK, ROBOT, episodes=3, length=12, size=32, cameras=BEFORE)
    return root


def reordered(dataset, target, cameras=RELEASED):
    """A copy of a dataset whose header lists its cameras in another order: the same images."""
    shutil.copytree(dataset, target)
    file = target / "meta" / "info.json"
    info = json.loads(file.read_text())
    for camera in cameras:
        info["features"][IMAGES + camera] = info["features"].pop(IMAGES + camera)
    file.write_text(json.dumps(info))
    return target


def test_the_catalog_has_the_released_order():
    assert tuple(camera.name for camera in catalog.cameras()) == RELEASED


@pytest.mark.parametrize("order", [BEFORE, RELEASED, RELEASED[::-1]])
def test_known_cameras_come_first_in_the_released_order_and_others_keep_theirs(order):
    features = dict.fromkeys([IMAGES + "top", "action", *(IMAGES + name for name in order), IMAGES + "side", STATE])
    adapters.order_cameras(features)
    assert [key for key in features if key.startswith(IMAGES)] == [IMAGES + n for n in (*RELEASED, "top", "side")]
    assert set(features) >= {"action", STATE}


def test_pi05_reads_an_earlier_recording_in_the_released_order_and_remembers_it(earlier, tmp_path):
    options = {key: str(value) for key, value in SIZES.items()}
    options |= {"image_resolution": "[28, 28]", "chunk_size": "6", "n_action_steps": "4"}
    source = open_source(str(earlier))
    assert [camera.key for camera in source.cameras] == [IMAGES + name for name in BEFORE]
    built = adapters.build(PolicyChoice(type="pi05_fast", options=options), source, "cpu", seed=0)
    assert list(built.config.image_features) == [IMAGES + name for name in RELEASED]
    built.policy.save_pretrained(tmp_path / "policy")
    again = adapters.load(tmp_path / "policy", source.action_names, "cpu")
    assert list(again.config.image_features) == [IMAGES + name for name in RELEASED]


def test_nano_learns_the_same_weights_from_cameras_in_any_order(earlier, tmp_path):
    hashes = set()
    off = [f"--augment.{kind}=0" for kind in ("shift", "brightness", "contrast", "saturation")]
    for name, dataset in (("before", earlier), ("released", reordered(earlier, tmp_path / "copy" / "reach"))):
        stream = dataset.parent / "stream.toml"
        stream.write_text(stream_text(("reach",)))
        run = tmp_path / name
        base = [f"--stream={stream}", f"--output={run}", "--steps=4", "--batch_size=4", "--device=cpu"]
        assert main(["train", *base, *TINY, *off]) == 0
        hashes.add(
            checked_folder.file_hash(run / "stages" / "01-reach" / "checkpoint" / "policy" / "model.safetensors")
        )
    assert len(hashes) == 1


def test_the_shipped_base_answers_the_same_whatever_the_order(tmp_path):
    folder = tmp_path / "base"
    shutil.copytree(SHIPPED["nano-base"], folder)
    config = json.loads((folder / "config.json").read_text())
    for camera in RELEASED:
        config["input_features"][IMAGES + camera] = config["input_features"].pop(IMAGES + camera)
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(0)
    images = {IMAGES + name: torch.rand(1, 3, 96, 96, generator=generator) for name in BEFORE}
    space = read_norm_stats(SHIPPED["nano-base"], len(ROBOT.names))
    answers = []
    for place, order in ((SHIPPED["nano-base"], BEFORE), (folder, RELEASED)):
        base = adapters.load(place, ROBOT.names, "cpu")
        pre, post = transforms.build(base.config, space)
        batch = {
            STATE: torch.zeros(1, 14),
            "task": [TASK.instruction],
            **{IMAGES + n: images[IMAGES + n] for n in order},
        }
        torch.manual_seed(0)
        answers.append(post(base.policy.predict_action_chunk(pre(batch))))
    assert torch.equal(*answers)

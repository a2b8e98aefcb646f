"""The base that ships with nano: whole, small, of known origin, and ignorant of the ten tasks."""

import json
import re

import pytest
import torch

from holdfast import catalog
from holdfast.embodiment import EMBODIMENTS
from holdfast.norm.released import read_norm_stats
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.policies.config import SHIPPED, resolve

BASE = SHIPPED["nano-base"]
ROBOT = EMBODIMENTS["piper_x_pair"]


@pytest.fixture(scope="module")
def base():
    return adapters.load(BASE, ROBOT.names, "cpu")


def test_it_is_at_most_ten_megabytes():
    assert sum(file.stat().st_size for file in BASE.iterdir()) <= 10e6


def test_its_statistics_are_those_it_was_saved_with(base):
    pre, _ = transforms.load(base.config, BASE)
    normalizer = next(step for step in pre.steps if hasattr(step, "_tensor_stats"))
    space = read_norm_stats(BASE, len(ROBOT.names))
    for feature in ("observation.state", "action"):
        for quantile in ("q01", "q99"):
            stored = normalizer._tensor_stats[feature][quantile]
            wanted = torch.tensor(getattr(space.of(feature), quantile), dtype=torch.float32)
            assert torch.allclose(stored, wanted, atol=1e-6)


@pytest.mark.parametrize("size", [64, 96])
def test_it_moves_the_arm_it_is_asked_to_move_at_any_image_size(base, size):
    base.config.image_size = size
    pre, post = transforms.build(base.config, read_norm_stats(BASE, len(ROBOT.names)))
    state = torch.tensor([ROBOT.state_range()], dtype=torch.float32).mean(1)
    images = {key: torch.full((1, 3, 96, 96), 0.5) for key in base.config.image_features}
    moved = {}
    for arm in ("left", "right"):
        torch.manual_seed(0)
        chunk = post(base.policy.predict_action_chunk(pre({
            "observation.state": state, "task": [f"Lift the red block with the {arm} arm."], **images,
        })))  # fmt: skip
        motion = (chunk[0] - state)[:, [not n.endswith("gripper.pos") for n in ROBOT.names]].abs().mean(0)
        moved[arm] = motion[:6].sum() / motion.sum()
    assert moved["left"] > moved["right"]


def test_it_says_where_it_comes_from_and_has_met_none_of_the_tasks():
    origin = json.loads((BASE / "provenance.json").read_text())
    assert origin["episodes"] > 1000
    assert set(origin["skills"]) & set(catalog.tasks()) == set()
    plain = {re.sub(r"\W+", " ", text).lower().strip() for text in origin["instructions"]}
    for task in catalog.tasks().values():
        assert re.sub(r"\W+", " ", task.instruction).lower().strip() not in plain


def test_a_name_that_is_not_shipped_stays_what_it_is():
    assert resolve("lerobot/pi05_base") == "lerobot/pi05_base"
    assert resolve("nano-base") == str(BASE)

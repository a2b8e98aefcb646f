"""The base that ships with nano: whole, small, of known origin, and ignorant of the ten tasks."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file

from holdfast import catalog
from holdfast.data.lerobot.source import ACTION, IMAGES, STATE
from holdfast.embodiments import EMBODIMENTS
from holdfast.norm.released import read_norm_stats
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.policies.config import SHIPPED, resolve
from holdfast.twin.env import CellEnv

BASE = SHIPPED["nano-base"]
ROBOT = EMBODIMENTS["piper_x_pair"]


@pytest.fixture(scope="module")
def base():
    return adapters.load(BASE, ROBOT.names, "cpu")


def test_it_is_at_most_ten_megabytes():
    assert sum(file.stat().st_size for file in BASE.iterdir()) <= 10e6


def test_its_statistics_are_those_it_was_saved_with():
    stored = load_file(next(BASE.glob("policy_preprocessor*normalizer*.safetensors")))
    space = read_norm_stats(BASE, len(ROBOT.names))
    for feature in (STATE, ACTION):
        for quantile in ("q01", "q99"):
            wanted = torch.tensor(getattr(space.of(feature), quantile), dtype=torch.float32)
            assert torch.allclose(stored[f"{feature}.{quantile}"], wanted, atol=1e-6)


@pytest.mark.sim
@pytest.mark.parametrize("size", [64, 96])
def test_it_moves_the_arm_it_is_asked_to_move_at_any_image_size(base, size):
    base.config.image_size = size
    pre, post = transforms.build(base.config, read_norm_stats(BASE, len(ROBOT.names)))
    env = CellEnv("stack_bowls")
    seen = env.observe((96, 96))
    env.close()
    images = {IMAGES + name: torch.from_numpy(i.copy()).permute(2, 0, 1)[None] / 255 for name, i in seen.images.items()}
    state = torch.from_numpy(seen.state).float()[None]
    share = {}  # of the left arm in all motion
    for arm in ("left", "right"):
        torch.manual_seed(0)
        task = [f"Lift the yellow block with the {arm} arm."]
        chunk = post(base.policy.predict_action_chunk(pre({STATE: state, "task": task, **images})))
        motion = (chunk[0] - state).abs().mean(0)
        share[arm] = motion[:6].sum() / (motion[:6].sum() + motion[7:13].sum())
    assert share["left"] > 0.6
    assert share["right"] < 0.4


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

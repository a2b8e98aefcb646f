"""adapters: the LoRA of a task against merged weights, and old tasks that stay the same to the last bit."""

import json

import numpy as np
import torch
from method_runs import train, weights

from holdfast.core.observation import Question
from holdfast.core.records import Task
from holdfast.policies.pilot import Pilot

TASKS = {"reach": Task("reach", "Please reach.", ("left",)), "lift": Task("lift", "Please lift.", ("left", "right"))}


def pilot(run, stage):
    folder = run / "stages" / stage / "checkpoint"
    return Pilot(folder, json.loads((folder / "schema.json").read_text())["names"])


def questions(asked, *tasks):
    rng = np.random.default_rng(0)
    return [
        Question(task, rng.normal(size=14), {c: rng.integers(0, 256, (32, 32, 3), np.uint8) for c in asked.cameras}, n)
        for n, task in enumerate(tasks)
    ]


def test_an_old_task_is_answered_with_the_same_bits_after_later_stages(toy):
    run = train(toy, "run", "--method=adapters", "--method.rank=4", "--optim.ema=0")
    before, after = pilot(run, "01-reach"), pilot(run, "02-lift")
    reach, lift = TASKS["reach"], TASKS["lift"]
    old = before.answer(questions(before, reach, reach))
    new = after.answer(questions(after, reach, reach))
    np.testing.assert_array_equal(old, new)
    assert not np.array_equal(before.answer(questions(before, lift))[0], after.answer(questions(after, lift))[0])

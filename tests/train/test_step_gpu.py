"""On a GPU the host runs ahead: a step waits for nothing, and what it prepares does not wait for older steps."""

import numpy as np
import pytest
import torch
from pi05_tiny import CAMERAS, STATE, TOKENS, make_tokenizer, our_policy

from holdfast.data.sampler import Draw
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Space
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter
from holdfast.train.config import TrainConfig
from holdfast.train.log import Ledger
from holdfast.train.state import TrainingState
from holdfast.train.step import Stepper

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
ROWS = 4
NAMES = tuple(f"joint_{i}" for i in range(5))


@pytest.fixture
def adapter(tmp_path):
    policy = our_policy(tokenizer_name=make_tokenizer(tmp_path / "words")).cuda().train()
    policy.config.device = "cuda"
    return Adapter(policy, NAMES)


def stepper(adapter, preprocess):
    active = np.ones((1, len(NAMES)), dtype=bool)
    config = TrainConfig(stream="any", batch_size=ROWS, steps=10, device="cuda")
    return Stepper(config, adapter, preprocess, active, 1, 10, "cuda")


def batch_of(seed=0, tokens=True):
    draw = torch.Generator().manual_seed(seed)
    batch = {key: torch.randint(0, 256, (ROWS, 3, 28, 28), dtype=torch.uint8, generator=draw) for key in CAMERAS}
    batch[STATE] = torch.rand(ROWS, len(NAMES), generator=draw) * 2 - 1
    batch["action"] = torch.randn(ROWS, 6, len(NAMES), generator=draw)
    batch["action_is_pad"] = torch.zeros(ROWS, 6, dtype=torch.bool)
    batch["task_index"] = torch.zeros(ROWS, dtype=torch.int64)
    if tokens:
        batch[TOKENS] = torch.randint(4, 500, (ROWS, 20), generator=draw)
    return {**{key: value.pin_memory() for key, value in batch.items()}, "task": ["Please reach."] * ROWS}


def test_a_step_and_its_ledger_never_wait_for_the_gpu(adapter):
    step, state = stepper(adapter, lambda batch: batch), TrainingState(adapter.policy, TrainConfig(stream="any").optim)
    ledger = Ledger(["reach"], NAMES, ["left"] * len(NAMES), "cuda")
    draw = Draw(replay=False, rows=np.zeros(ROWS, dtype=np.int64), frames=np.zeros(ROWS, dtype=np.int64))
    for number in range(4):
        batch = batch_of(number)
        try:
            if number > 1:  # the first ones compile
                torch.cuda.set_sync_debug_mode("error")
            ledger.add(draw, *step(state, batch))
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert ledger.read(4, 0.0)["steps"] == 4


def test_a_prompt_that_tells_the_state_does_not_wait_for_older_work(adapter):
    unit = Stats.from_range(-np.ones(len(NAMES)), np.ones(len(NAMES)))
    preprocess = transforms.build_training(adapter.config, [Space(unit, unit)])
    step = stepper(adapter, preprocess)
    expected = step.prepare(batch_of(tokens=False), 0)  # also makes the tables
    torch.cuda.synchronize()
    torch.cuda._sleep(4_000_000_000)  # about two seconds
    busy = torch.cuda.Event()
    busy.record()
    ready = step.prepare(batch_of(tokens=False), 0)
    assert not busy.query()
    for key, value in ready.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, expected[key]), key
    assert busy.query()  # whoever uses it has waited

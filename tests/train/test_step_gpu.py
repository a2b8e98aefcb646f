"""On a GPU the host runs ahead: a step waits for nothing, and what it prepares does not wait for older steps."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pi05_tiny import CAMERAS, STATE, TOKENS, make_tokenizer, our_policy

from holdfast.core.records import Task
from holdfast.data.cache.cache import Cache
from holdfast.data.cache.spec import Spec
from holdfast.data.lerobot.source import Camera, Source
from holdfast.data.lesson import Lesson
from holdfast.data.loader import Batches
from holdfast.data.sampler import Draw, Pool, Sampler
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Space
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter
from holdfast.train.config import TrainConfig
from holdfast.train.log import LossTotals
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


def stepper(adapter, preprocess, device="cuda"):
    active = np.ones((1, len(NAMES)), dtype=bool)
    config = TrainConfig(stream="any", batch_size=ROWS, steps=10, device=device)
    return Stepper(config, adapter, preprocess, active, 1, 10, device)


def preprocessing(adapter):
    unit = Stats.from_range(-np.ones(len(NAMES)), np.ones(len(NAMES)))
    return transforms.build_training(adapter.config, [Space(unit, unit)])


def data(layout, device):
    """Batches of a dataset of 200 frames in which every number and pixel is drawn."""
    draw, frames = np.random.default_rng(0), 200
    state, action = (draw.uniform(-1, 1, (frames, len(NAMES))).astype(np.float32) for _ in range(2))
    cameras = tuple(Camera(key, 28, 28, "video") for key in CAMERAS)
    source = Source(
        dataset="0", root=Path("/nowhere"), fps=30, state_names=NAMES, action_names=NAMES,
        state_places=tuple(range(len(NAMES))), cameras=cameras, state=state, action=action,
        timestamps=np.arange(frames) / 30, starts=np.array([0]), ends=np.array([frames]), info={}, episodes={},
    )  # fmt: skip
    spec = Spec("0", "", dict.fromkeys(CAMERAS, (28, 28)), "native", "raw", frames, ())
    pixels = {key: torch.from_numpy(draw.integers(0, 256, (frames, 3, 28, 28), dtype=np.uint8)) for key in CAMERAS}
    lesson = Lesson(Task("reach", "Please reach.", ("left",)), source, np.ones(len(NAMES), bool), hold=False)
    return Batches([lesson], [Cache(spec, state, action, pixels, {})], layout, device)


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
    ledger = LossTotals(["reach"], NAMES, ["left"] * len(NAMES), "cuda")
    draw = Draw(replayed=0, rows=np.zeros(ROWS, dtype=np.int64), frames=np.zeros(ROWS, dtype=np.int64))
    for number in range(4):
        batch = batch_of(number)
        rows = batch["task_index"].cuda()  # where the loader leaves them
        try:
            if number > 1:  # the first ones compile
                torch.cuda.set_sync_debug_mode("error")
            ledger.add(draw, rows, *step(state, batch))
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert ledger.read(4, 0.0)["steps"] == 4


def test_a_prompt_that_tells_the_state_does_not_wait_for_older_work(adapter):
    step = stepper(adapter, preprocessing(adapter))
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


def test_batches_of_the_data_arrive_whole_whatever_the_gpu_is_doing(adapter, tmp_path):
    cpu = Adapter(our_policy(tokenizer_name=str(tmp_path / "words")).train(), NAMES)
    sampler = Sampler(0, 1, 30, ROWS, (Pool(0, np.arange(200), 1.0),))
    found = {}
    for name, one in (("cpu", cpu), ("cuda", adapter)):
        step, batches = stepper(one, preprocessing(one), name), data(one.layout, name)
        found[name] = []
        for _, _, batch in batches.iterate(sampler, 0):
            if name == "cuda":
                torch.cuda._sleep(20_000_000)
            found[name].append(step.prepare(batch, 0))
        batches.close()
    for expected, ready in zip(found["cpu"], found["cuda"], strict=True):
        for key, value in expected.items():
            if isinstance(value, torch.Tensor):
                torch.testing.assert_close(ready[key].cpu(), value, msg=lambda text, key=key: f"{key}: {text}")

"""Steps per second of the engine divided by those of a bare PyTorch loop: same model, same batches, same process.

Both run nano from the same weights on the same batches held in memory, with AdamW, clipping and a moving average.
The bare loop gets preprocessed batches and does nothing else; the engine additionally draws, gathers, augments,
normalizes, tokenizes and logs. Rounds alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from holdfast.core.records import Task
from holdfast.data.cache.cache import open_cache
from holdfast.data.cache.config import CacheConfig
from holdfast.data.cache.quantiles import measure
from holdfast.data.lerobot.source import open_source
from holdfast.data.lesson import Lesson
from holdfast.data.loader import Batches
from holdfast.data.sampler import Pool, Sampler
from holdfast.embodiments import load
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.policies.config import PolicyChoice
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.log import LossTotals
from holdfast.train.state import TrainingState
from holdfast.train.step import Stepper

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from toy_world import write_dataset


def bare_loop(policy, batches, optim: OptimConfig) -> float:
    """The loop one would write by hand."""
    parameters = list(policy.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, betas=(optim.beta1, optim.beta2))
    average = [p.detach().clone() for p in parameters]
    begun = time.perf_counter()
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss, _ = policy.forward(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, optim.clip)
        optimizer.step()
        torch._foreach_lerp_(average, [p.detach() for p in parameters], 1 - optim.ema)
    return len(batches) / (time.perf_counter() - begun)


def engine_loop(adapter, step: Stepper, batches: Batches, sampler: Sampler, optim: OptimConfig, names) -> float:
    """The engine's loop without its files."""
    state = TrainingState(adapter.policy.train(), optim)
    ledger = LossTotals(["toy"], names, ["left"] * 7 + ["right"] * 7, "cpu")
    begun = time.perf_counter()
    for number, draw, batch in batches.iterate(sampler, 0):
        ledger.add(draw, batch["task_index"], *step(state, batch))
        if number % 5 == 4:
            ledger.read(number, 0.0)  # waits for the device, as a line of the log does
    return sampler.steps / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    robot, task = load("piper_x_pair"), Task("toy", "Reach for the mark.", ("left", "right"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "toy"
        cameras = ("head", "front", "left_wrist", "right_wrist")
        write_dataset(root, task, robot, episodes=6, length=30, size=96, cameras=cameras)
        source = open_source(str(root))
        config = TrainConfig(stream="toy", batch_size=options.batch_size, steps=options.steps, device="cpu")
        adapter = adapters.build(PolicyChoice("nano"), source, "cpu", 0)
        lesson = Lesson(task, source, np.ones(14, bool), hold=False)
        space = measure(lesson, adapter.layout)
        step = Stepper(
            config, adapter, transforms.build_training(adapter.config, [space]), None, 1, options.steps, "cpu"
        )
        cache = open_cache(source, adapter.resize, CacheConfig(root=str(Path(folder) / "cache")), Console(quiet=True))
        batches = Batches([lesson], [cache], adapter.layout)
        pool = Pool(0, np.arange(len(source.state)), 1.0)
        sampler = Sampler(0, 1, options.steps, options.batch_size, (pool,))
        ready = [step.prepare(batches.make(sampler.draw(t)), t) for t in range(options.steps)]
        ratios = []
        for number in range(options.rounds + 1):
            bare = bare_loop(copy.deepcopy(adapter.policy).train(), ready, config.optim)
            engine = engine_loop(adapter, step, batches, sampler, config.optim, source.action_names)
            if number:  # the first round warms up both
                ratios.append(engine / bare)
                print(f"round {number}: bare {bare:.2f} steps/s, engine {engine:.2f} steps/s, ratio {ratios[-1]:.3f}")
        batches.close()
    print(f"engine / bare, median of {options.rounds}: {np.median(ratios):.3f} (bar: 0.95)")


if __name__ == "__main__":
    main()

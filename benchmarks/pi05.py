"""pi0.5 at full size on one GPU, ours beside LeRobot's: speed, memory, exactness, and whether it learns.

Random weights, synthetic prompts, images in pinned host memory; no network. Training is the engine's own path: Stepper
with fp32 weights under bf16 autocast, clipping, AdamW and the moving average. Every part runs in a process of its own
with its own time limit, so that one that fails spoils no other; the table comes last.

  python benchmarks/pi05.py --parts machine,train,peer,infer,exact --output=pi05.json
  python benchmarks/pi05.py --parts memory,overfit
  python benchmarks/pi05.py --parts attention,update     kernels that were chosen, and others
  python benchmarks/pi05.py --tiny                  a smoke test on a CPU
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lerobot.configs import FeatureType, PolicyFeature
from rich.console import Console
from rich.table import Table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

from holdfast.data.source import ACTION, IMAGES, STATE
from holdfast.policies.adapter import Adapter
from holdfast.policies.pi05 import gemma, memory, weights
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.modeling_pi05 import Pi05FastPolicy
from holdfast.train import fused
from holdfast.train.config import OptimConfig, TrainConfig
from holdfast.train.state import TrainingState
from holdfast.train.step import Stepper

KERNELS = {  # kinds of kernels by parts of their names
    "attention": ("flash", "fmha", "sdpa"),
    "matrices": ("gemm", "nvjet", "cutlass", "xmma", "cublas", "splitk"),
    "compiled": ("triton",),
    "update": ("_update", "multi_tensor", "adam", "lpnorm", "foreach"),
    "copies": ("memcpy", "memset"),
}
PEAK = 790e12  # bf16 FLOP/s of an H200 in practice
CAMERAS = ("head", "front", "left_wrist", "right_wrist")
TOKENS, WORDS = "observation.language.tokens", "observation.language.attention_mask"
CHUNK, DIMENSIONS = 10, 14
LEARNING_RATE = 1e-4  # of the check that it learns
TINY = {
    "width": 64, "mlp_dim": 96, "depth": 3, "head_dim": 16, "vocabulary": 600, "expert_width": 32,
    "expert_mlp_dim": 48, "vision_width": 32, "vision_mlp_dim": 40, "vision_layers": 2, "vision_heads": 4,
    "image_resolution": (28, 28),
}  # fmt: skip


class Bench:
    """Sizes and device of this run, and the policies made for it."""

    def __init__(self, tiny: bool) -> None:
        self.tiny = tiny
        self.device = "cpu" if tiny or not torch.cuda.is_available() else "cuda"
        self.batch = 2 if tiny else 16
        self.steps = 2 if tiny else 10

    def config(self, **changes: Any) -> Pi05FastConfig:
        """Full size, or tiny."""
        image = PolicyFeature(FeatureType.VISUAL, (3, 224, 224))
        return Pi05FastConfig(
            **{
                **(TINY if self.tiny else {}),
                "device": self.device,
                "chunk_size": CHUNK,
                "n_action_steps": CHUNK,
                "input_features": {
                    STATE: PolicyFeature(FeatureType.STATE, (DIMENSIONS,)),
                    **{IMAGES + camera: image for camera in CAMERAS},
                },
                "output_features": {ACTION: PolicyFeature(FeatureType.ACTION, (DIMENSIONS,))},
                **changes,
            }
        )

    def policy(self, **changes: Any) -> Pi05FastPolicy:
        """Ours, at random."""
        torch.manual_seed(0)
        return Pi05FastPolicy(self.config(**changes))

    def batch_of(self, rows: int, tokens: int, config: Pi05FastConfig, seed: int = 0) -> dict[str, Any]:
        """A batch as the data gives it, with the prompt's tokens already in."""
        draw = torch.Generator().manual_seed(seed)
        side = config.image_resolution[0]

        def pinned(values: torch.Tensor) -> torch.Tensor:
            return values.pin_memory() if self.device == "cuda" else values

        def pixels() -> torch.Tensor:
            return torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8, generator=draw)

        return {
            **{IMAGES + camera: pinned(pixels()) for camera in CAMERAS},
            STATE: pinned(torch.randn(rows, DIMENSIONS, generator=draw)),
            ACTION: pinned(torch.randn(rows, CHUNK, DIMENSIONS, generator=draw)),
            "action_is_pad": pinned(torch.zeros(rows, CHUNK, dtype=torch.bool)),
            TOKENS: pinned(torch.randint(4, config.vocabulary, (rows, tokens), generator=draw)),
            "task": ["Stack the bowls."] * rows,
            "task_index": torch.zeros(rows, dtype=torch.int64),
        }

    def stepper(
        self, policy: Pi05FastPolicy, rows: int, steps: int, optim: OptimConfig
    ) -> tuple[Stepper, TrainingState]:
        """The engine's step; only tokenizing is left out."""
        config = TrainConfig(stream="bench", batch_size=rows, steps=steps, device=self.device, optim=optim)
        adapter = Adapter(policy.train(), tuple(f"joint_{i}" for i in range(DIMENSIONS)))
        return Stepper(config, adapter, lambda batch: batch, None, 1, steps, self.device), TrainingState(policy, optim)

    def sync(self) -> None:
        """Wait for the device."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any], times: int) -> float:
        """Median time of a call, the device's work included."""
        taken = []
        for _ in range(times):
            self.sync()
            begun = time.perf_counter()
            call()
            self.sync()
            taken.append(time.perf_counter() - begun)
        return sorted(taken)[len(taken) // 2]

    def peak(self) -> float:
        """Most GiB ever allocated since the peak was reset."""
        return torch.cuda.max_memory_allocated() / 2**30 if self.device == "cuda" else 0.0


def flops(config: Pi05FastConfig, rows: int, tokens: int) -> float:
    """Of a training step's matrices: 6 per parameter and token (SigLIP 0.41 B, Gemma 1.98 B, expert 0.31 B)."""

    def layer(width: int, inner: int) -> int:
        return 2 * width * (config.heads + 1) * config.head_dim + 3 * width * inner

    wide = config.vision_width
    vision = config.vision_layers * (4 * wide**2 + 2 * wide * config.vision_mlp_dim)
    language = config.depth * layer(config.width, config.mlp_dim)
    expert = config.depth * layer(config.expert_width, config.expert_mlp_dim)
    images = len(CAMERAS) * config.image_tokens
    return 6.0 * (vision * images + language * (images + tokens) + expert * CHUNK) * rows


def speed(
    bench: Bench, policy: Pi05FastPolicy, rows: int, tokens: int, optim: OptimConfig, show: bool
) -> dict[str, Any]:
    """Take steps and time them back to back: the host may run ahead, as it does in training."""
    if bench.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    step, state = bench.stepper(policy, rows, 1000, optim)
    batch = bench.batch_of(rows, tokens, policy.config)
    begun = time.perf_counter()
    for _ in range(3):
        losses, _ = step(state, batch)
    bench.sync()
    warm = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(bench.steps):
        step(state, batch)
    bench.sync()
    second = (time.perf_counter() - begun) / bench.steps
    if show and bench.device == "cuda":
        profile(lambda: step(state, batch))
    return {
        "batch": rows,
        "tokens": tokens,
        "step_ms": second * 1e3,
        "samples_s": rows / second,
        "mfu": flops(policy.config, rows, tokens) / second / PEAK,
        "peak_gib": bench.peak(),
        "warm_s": warm,
        "loss": float(losses[0].total),
        "recomputed": str(next(iter(policy.model._plans.values()), None)),
    }


def profile(call: Callable[[], Any]) -> None:
    """Print where the device's time goes, by kind of kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        call()
        call()
        torch.cuda.synchronize()
    total, kernels = defaultdict(float), []
    for event in profiler.key_averages():
        name, taken = event.key.lower(), event.self_device_time_total / 2e3
        if taken:
            total[next((kind for kind, marks in KERNELS.items() if any(m in name for m in marks)), "other")] += taken
            kernels.append((taken, event.count // 2, event.key[:110]))
    print("ms a step by kind:", {kind: round(value, 1) for kind, value in total.items()})
    for taken, count, name in sorted(kernels, reverse=True)[:28]:
        print(f"  {taken:8.2f} ms {count:5d}x {name}")


def train(bench: Bench) -> dict[str, Any]:
    """Bars: 27 samples/s with 200 tokens, 30 with 64."""
    policy, found = bench.policy(), {}
    for tokens in (64, 200):
        found[f"{tokens} tokens"] = speed(bench, policy, bench.batch, tokens, OptimConfig(), show=tokens == 200)
        print(json.dumps(found[f"{tokens} tokens"]), flush=True)
    return found


def train_safely(bench: Bench) -> dict[str, Any]:
    """The same with well-trodden kernels, where the ones of choice should fail."""
    try:
        return train(bench)
    except Exception:
        traceback.print_exc()
    fused.worthwhile = lambda _: False
    gemma.look_around = lambda q, k, v, real: (
        scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)), enable_gqa=True)
        .transpose(1, 2)
        .flatten(2)
    )
    torch._dynamo.reset()
    return {f"{case}, plain kernels": figures for case, figures in train(bench).items()}


def peer_network(bench: Bench, dtype: str, checkpointing: bool) -> Any:
    """LeRobot's own network at full size, its weights on the device from the start."""
    from lerobot.policies.pi05.configuration_pi05 import PI05Config
    from lerobot.policies.pi05.modeling_pi05 import PI05Pytorch

    with torch.device(bench.device):
        network = PI05Pytorch(PI05Config(dtype=dtype, chunk_size=CHUNK, n_action_steps=CHUNK, device=bench.device))
    network = network.to(bench.device)
    if checkpointing:
        network.gradient_checkpointing_enable()
    return network


def peer_inputs(batch: dict[str, Any], device: str) -> tuple[list[torch.Tensor], list[torch.Tensor], Any, Any]:
    """The batch as LeRobot's network takes it."""
    images = [batch[IMAGES + camera].to(device).float() / 255 * 2 - 1 for camera in CAMERAS]
    words = batch.get(WORDS, torch.ones(batch[TOKENS].shape, dtype=torch.bool))
    masks = [torch.ones(len(image), dtype=torch.bool, device=device) for image in images]
    return images, masks, batch[TOKENS].to(device), words.to(device)


def peer(bench: Bench) -> dict[str, Any]:
    """LeRobot's step as it ships: bf16 weights (vision fp32), gradient checkpointing, clipping, AdamW, no average."""
    network = peer_network(bench, "bfloat16", checkpointing=True).train()
    inputs = peer_inputs(bench.batch_of(bench.batch, 200, bench.config()), bench.device)
    actions = torch.randn(bench.batch, CHUNK, 32, device=bench.device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-5, betas=(0.9, 0.95), weight_decay=1e-10)

    def step() -> float:
        time_ = torch.rand(bench.batch, device=bench.device)
        loss = network(*inputs, actions, torch.randn_like(actions), time_).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss)

    step()
    second = bench.seconds(step, 4)
    return {"200 tokens": {"samples_s": bench.batch / second, "step_ms": second * 1e3, "peak_gib": bench.peak(),
                           "mfu": flops(bench.config(), bench.batch, 200) / second / PEAK}}  # fmt: skip


def infer(bench: Bench) -> dict[str, Any]:
    """A chunk of four cameras in ten steps. Bar: 45 ms for one robot."""
    policy = bench.policy().eval()
    found = {}
    for rows in (1, 8):
        batch = bench.batch_of(rows, 200, policy.config)
        ready = {k: v.to(bench.device) for k, v in batch.items() if isinstance(v, torch.Tensor)}
        ready |= {key: value.float() / 255 for key, value in ready.items() if key.startswith(IMAGES)}
        noise = torch.randn(rows, *policy.noise_shape, device=bench.device)
        begun = time.perf_counter()
        policy.predict_action_chunk(ready, noise=noise)
        first = time.perf_counter() - begun
        taken = bench.seconds(lambda ready=ready, noise=noise: policy.predict_action_chunk(ready, noise=noise), 20)
        found[f"batch {rows}"] = {"ms": taken * 1e3, "first_s": first, "peak_gib": bench.peak()}
    if not bench.tiny:
        network = peer_network(bench, "bfloat16", checkpointing=False).eval()
        inputs = peer_inputs(bench.batch_of(1, 200, bench.config()), bench.device)
        network.sample_actions(*inputs)
        found["LeRobot, batch 1"] = {"ms": bench.seconds(lambda: network.sample_actions(*inputs), 5) * 1e3}
    return found


@torch.no_grad()
def exact(bench: Bench) -> dict[str, Any]:
    """bf16 as trained and as acted with against LeRobot in fp32: same weights, noise, time; prompts of many lengths."""
    torch.set_float32_matmul_precision("highest")
    policy = bench.policy()
    for name, parameter in policy.model.named_parameters():
        if ".dense." in name or "norm" in name:  # where they start, norms would hide what they compute
            parameter.add_(0.02 * torch.randn_like(parameter))
    rows, config = bench.batch, policy.config
    batch = bench.batch_of(rows, 200, config)
    batch[WORDS] = torch.arange(200) < torch.linspace(20, 200, rows).long()[:, None]
    reference = None
    if not bench.tiny:
        reference = peer_network(bench, "float32", checkpointing=False).eval()
        found = reference.load_state_dict(weights.plain_state(policy.model), strict=False)
        assert not found.unexpected_keys, found.unexpected_keys
        assert all("lm_head" in key for key in found.missing_keys), found.missing_keys
    images, masks, tokens, words = peer_inputs(batch, bench.device)
    actions = torch.randn(rows, CHUNK, 32, device=bench.device)
    noise, moment = torch.randn_like(actions), torch.linspace(0.05, 0.99, rows, device=bench.device)
    ours = torch.stack(images, 1), tokens, words
    policy.train()
    with torch.enable_grad(), torch.autocast(bench.device, torch.bfloat16):
        if bench.device == "cuda":
            policy.model.compile_layers()
        trained = policy.model(*ours, actions, noise, moment).detach()
    ready = {
        TOKENS: tokens,
        WORDS: words,
        **{IMAGES + c: (image + 1) / 2 for c, image in zip(CAMERAS, images, strict=True)},
    }
    acted = policy.eval().predict_action_chunk(ready, noise=noise)
    if reference is None:
        return {"loss and actions": {"skipped": "LeRobot has no tiny pi0.5; the tests compare one"}}
    loss = torch.cat([reference(*_rows((images, masks, tokens, words), i), actions[i], noise[i], moment[i])
                      for i in torch.arange(rows).split(4)])  # fmt: skip
    chunk = torch.cat([reference.sample_actions(*_rows((images, masks, tokens, words), i), noise=noise[i])
                       for i in torch.arange(rows).split(4)])[..., :DIMENSIONS]  # fmt: skip
    return {
        "loss": {"relative": float((trained.mean() - loss.mean()).abs() / loss.mean()),
                 "elements": float((trained - loss).norm() / loss.norm())},
        "actions": {"relative": float((acted - chunk).norm() / chunk.norm())},
    }  # fmt: skip


def _rows(inputs: Any, rows: torch.Tensor) -> Any:
    images, masks, tokens, words = inputs
    return [image[rows] for image in images], [mask[rows] for mask in masks], tokens[rows], words[rows]


def machine(bench: Bench) -> dict[str, Any]:
    """What the device gives a plain product and a plain copy: if it is far below 700 and 4000, somebody shares it."""
    side = 256 if bench.tiny else 8192
    a, b = (torch.randn(side, side, device=bench.device, dtype=torch.bfloat16) for _ in range(2))
    many = torch.empty((2**10 if bench.tiny else 2**33) // 4, device=bench.device)
    product = min(bench.seconds(lambda: a @ b, 20) for _ in range(3))
    copy = min(bench.seconds(lambda: many[: len(many) // 2].copy_(many[len(many) // 2 :]), 5) for _ in range(3))
    return {"plain": {"tflop_s": 2 * side**3 / product / 1e12, "gb_s": many.nbytes / copy / 1e9}}


def attention(bench: Bench) -> dict[str, Any]:
    """Kernels for Gemma's attention, forward and backward, that could be chosen."""
    rows, length, heads, width = (2, 40, 8, 16) if bench.tiny else (bench.batch, 1224, 8, 256)
    shape = {"device": bench.device, "dtype": torch.bfloat16, "requires_grad": True}
    q, k, v = (torch.randn(rows, length, n, width, **shape) for n in (heads, 1, 1))
    borders = torch.arange(rows + 1, device=bench.device, dtype=torch.int32) * length

    def dense(backend: SDPBackend, spread: bool) -> torch.Tensor:
        keys = [part.expand(-1, -1, heads, -1) if spread else part for part in (k, v)]
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(*(p.transpose(1, 2) for p in (q, *keys)), enable_gqa=not spread)

    kinds: dict[str, Callable[[], torch.Tensor]] = {
        "varlen": lambda: varlen_attn(*(p.flatten(0, 1) for p in (q, k, v)), borders, borders, length, length),
        "flash": lambda: dense(SDPBackend.FLASH_ATTENTION, False),
        "flash, keys spread": lambda: dense(SDPBackend.FLASH_ATTENTION, True),
        "cudnn": lambda: dense(SDPBackend.CUDNN_ATTENTION, False),
        "cudnn, keys spread": lambda: dense(SDPBackend.CUDNN_ATTENTION, True),
        "efficient, keys spread": lambda: dense(SDPBackend.EFFICIENT_ATTENTION, True),
    }
    found = {}
    for name, call in kinds.items():
        try:
            out = call()
            gradient = torch.randn_like(out)
            forward = bench.seconds(call, 10)
            both = bench.seconds(lambda call=call, gradient=gradient: call().backward(gradient), 10)
            found[name] = {"forward_ms": forward * 1e3, "backward_ms": (both - forward) * 1e3}
        except Exception as error:
            found[name] = {"error": str(error).strip().split("\n")[0][:160]}
    return found


def update(bench: Bench) -> dict[str, Any]:
    """Clipping, AdamW and average over all weights: torch's three passes against one; and that they agree."""
    found: dict[str, Any] = {}
    results = []
    for name, allowed in (("three passes", False), ("one pass", True)):
        with torch.device(bench.device):
            torch.manual_seed(0)
            sizes = [(64, 64)] if bench.tiny else [(257152, 2048), *[(16384, 2048)] * 85]
            layer = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(size)) for size in sizes])
        layer.config = bench.config()
        layer.get_optim_params = layer.parameters
        state = TrainingState(layer, OptimConfig(lr=1e-3))
        usual, fused.worthwhile = fused.worthwhile, (fused.worthwhile if allowed else lambda _: False)
        for parameter in layer:
            parameter.grad = torch.randn_like(parameter)
        state.advance(1.0)
        results.append(
            [
                values.flatten()[:1000].clone()
                for values in (layer[-1].detach(), state.average.values[f"{len(layer) - 1}"])
            ]
        )
        found[name] = {"ms": bench.seconds(lambda state=state: state.advance(1.0), 5) * 1e3}
        fused.worthwhile = usual
        del layer, state
    found["one pass"]["apart"] = max(float((a - b).abs().max()) for a, b in zip(*results, strict=True))
    return found


def memory_at(bench: Bench, gib: int) -> dict[str, Any]:
    """The largest batch that trains within so much memory: as the plan of recomputation foresees, or a little less."""
    options = {} if gib >= 80 else {"lora_rank": 16}
    if bench.device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, gib * 2**30 / total))
    policy = bench.policy(**options)
    free = gib * 2**30 * (1 - memory.SPARE) - memory.held(policy.model)
    rows = 2 if bench.tiny else largest(policy.config, free)
    while rows:
        try:
            return {f"{gib} GiB": {**speed(bench, policy, rows, 200, OptimConfig(), False), **options, "planned": True}}
        except torch.cuda.OutOfMemoryError:
            print(f"{gib} GiB: batch {rows} does not fit", flush=True)
            policy.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        rows = rows * 3 // 4 // 2 * 2
    return {f"{gib} GiB": {"error": "not even a batch of 2 fits", **options}}


def largest(config: Pi05FastConfig, free: float) -> int:
    """The largest even batch, up to 128, that fits when every layer is computed twice."""
    fitting = [rows for rows in range(2, 129, 2) if memory.fits(config, free, rows, len(CAMERAS), 200)]
    return max(fitting, default=2)


def overfit(bench: Bench) -> dict[str, Any]:
    """From random weights, 8 episodes by heart: a broken backward pass cannot lower the loss tenfold in 200 steps."""
    steps, policy = (8 if bench.tiny else 200), bench.policy()
    step, state = bench.stepper(policy, bench.batch, steps, OptimConfig(lr=LEARNING_RATE, warmup=20))
    episodes = [episode(bench, policy.config, seed) for seed in range(8)]
    losses = [step(state, _mix(episodes, number))[0][0].total for number in range(steps)]
    curve = torch.stack(losses).float().cpu()
    width = max(1, steps // 20)
    first, last = float(curve[:width].mean()), float(curve[-width:].mean())
    return {"200 steps": {"first": first, "last": last, "ratio": first / last,
                          "curve": [round(float(x), 4) for x in curve[::10]]}}  # fmt: skip


def episode(bench: Bench, config: Pi05FastConfig, seed: int) -> dict[str, Any]:
    """Frames of one demonstration: a scene in which a bright square moves along, words, and a motion of its own."""
    frames = bench.batch_of(bench.batch, 64, config, seed)
    draw, side = torch.Generator().manual_seed(100 + seed), config.image_resolution[0]
    progress = torch.linspace(0, 1, bench.batch)
    direction = torch.randn(DIMENSIONS, generator=draw).sign()
    swing = 0.3 * torch.sin(2 * math.pi * progress[:, None, None] + torch.linspace(0, 0.3, CHUNK)[:, None])
    frames[ACTION] = direction + swing.expand(-1, -1, DIMENSIONS)
    for key in (k for k in frames if k.startswith(IMAGES)):
        frames[key][:] = frames[key][:1] // 2
        for row, share in enumerate(progress):
            left = int(share * side * 0.75)
            frames[key][row, :, side // 4 : side // 2, left : left + side // 4] = 255
    frames[TOKENS][:] = frames[TOKENS][:1]
    frames[TOKENS][:, -8:] = 4 + torch.arange(bench.batch)[:, None]  # as the bins of the state say how far it is
    return frames


def _mix(episodes: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """A batch drawn from all episodes."""
    rows = len(episodes[0]["task"])
    draw = torch.Generator().manual_seed(number)
    which, place = torch.randint(len(episodes), (rows,), generator=draw), torch.randint(rows, (rows,), generator=draw)
    return {
        key: torch.stack([episodes[e][key][p] for e, p in zip(which.tolist(), place.tolist(), strict=True)])
        if isinstance(value, torch.Tensor)
        else value
        for key, value in episodes[0].items()
    }


PARTS: dict[str, tuple[Callable[[Bench], dict[str, Any]], int]] = {
    "machine": (machine, 60),
    "attention": (attention, 60),
    "update": (update, 60),
    "train": (train_safely, 400),
    "peer": (peer, 150),
    "infer": (infer, 150),
    "exact": (exact, 200),
    "memory 24": (lambda bench: memory_at(bench, 24), 150),
    "memory 48": (lambda bench: memory_at(bench, 48), 150),
    "memory 80": (lambda bench: memory_at(bench, 80), 150),
    "memory 139": (lambda bench: memory_at(bench, 139), 150),
    "overfit": (overfit, 240),
}


def run_apart(part: str, tiny: bool, limit: float) -> dict[str, Any]:
    """Run a part in a process of its own; what it says is passed on, what it returns comes by file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, __file__, "--only", part, "--output", str(out), *(["--tiny"] if tiny else [])]
        begun = time.perf_counter()
        try:
            subprocess.run(command, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            print(f"{part}: stopped after {limit:.0f} s", flush=True)
        print(f"{part}: {time.perf_counter() - begun:.0f} s", flush=True)
        return json.loads(out.read_text()) if out.exists() else {"": {"error": "no result; see above"}}


def show(results: dict[str, dict[str, Any]]) -> None:
    table = Table(
        "part",
        "case",
        "figures",
        title="pi0.5 on " + (torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"),
    )
    for part, cases in results.items():
        for case, figures in cases.items():
            text = ", ".join(
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items() if k != "curve"
            )
            table.add_row(part, case, text)
    ours, theirs = (results.get(part, {}).get("200 tokens", {}).get("samples_s") for part in ("train", "peer"))
    if ours and theirs:
        table.add_row("train", "ours / LeRobot", f"{ours / theirs:.2f}")
    Console(width=180).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", default="machine,train,peer,infer,exact", help=f"of {', '.join(PARTS)}; memory: all four"
    )
    parser.add_argument("--output", type=Path, help="also write the figures there, as JSON")
    parser.add_argument("--tiny", action="store_true", help="small sizes on a CPU: does it run at all?")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        try:
            found = PARTS[options.only][0](Bench(options.tiny))
        except Exception as error:
            traceback.print_exc()
            found = {"": {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}}
        options.output.write_text(json.dumps(found))
        return
    asked = options.parts.split(",")
    chosen = [part for part in PARTS if part in asked or (part.split()[0] == "memory" and "memory" in asked)]
    results = {}
    for part in chosen:
        results[part] = run_apart(part, options.tiny, PARTS[part][1])
        if options.output:
            options.output.write_text(json.dumps(results, indent=1))
    show(results)


if __name__ == "__main__":
    main()

"""Ours beside LeRobot's: speed of its step, answers to a robot, and that both compute the same."""

from __future__ import annotations

import time
from typing import Any

import torch

from holdfast.data.lerobot.source import IMAGES
from holdfast.policies.pi05 import weights
from pi05_parts.bench import CAMERAS, CHUNK, DIMENSIONS, PEAK, TOKENS, WORDS, Bench, flops


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
        trained = policy.model(*ours, actions, noise, moment).square().detach()
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

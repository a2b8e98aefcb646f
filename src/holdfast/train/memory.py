"""GPU memory of a rank that trains all of pi0.5: a formula, because a plan has neither the GPUs nor the weights.

- A weight that learns takes 4 bytes (fp32), two moments of AdamW 8, its moving average 4, its gradient 4. A gradient
  exists from its layer's backward pass to the update; with DDP, whose buckets stay, and from the second micro-batch on,
  all of them exist all the time.
- Activations are those of `policies/pi05/sizes.py` with every layer recomputed, which `--policy.recompute=auto` does
  where memory demands it: all layers' inputs in bf16, and `WORKING` times a layer of Gemma in its backward pass.
- FSDP2 divides all but activations by the ranks. It gathers the embeddings and up to two layers, and reduces their
  gradients, in fp32.
- With a LoRA per task (`--method=adapters`) the policy's weights take 2 bytes (bf16) and do not learn. Every LoRA takes
  4 bytes a number; the one that learns also has moments, average and gradient.

`WORKING` was fitted to measurements on one GPU; docs/pi05.md, "Memory per rank", has them and the errors. Several ranks
were never measured. `LORA_WORKING` was fitted to the two largest batches with `--policy.lora_rank=16`, whose layers are
PEFT's; layers with a LoRA per task were not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.policies.pi05.sizes import SPARE, LayerBytes, Sizes, layer_bytes, lora_parameters, parameters
from holdfast.train.config import Parallel

GIB = 2**30
FP32 = 4
WORKING, LORA_WORKING = 1.5, 2.6
BF16 = 2


@dataclass(frozen=True)
class Load:
    """What a rank has to train: its share of the batch, and how much of the policy it holds."""

    batch_size: int
    ranks: int = 1
    micro_batches: int = 1
    parallel: Parallel = "ddp"
    average: bool = True
    cameras: int = 4
    words: int = 200
    # With a LoRA per task: its rank, and how many tasks have one, the one being learned included.
    lora_rank: int = 0
    lora_tasks: int = 1


@dataclass(frozen=True)
class RankMemory:
    """Bytes on a rank at the moment when it needs most."""

    weights: float
    optimizer: float
    average: float
    gradients: float
    activations: float
    gathered: float = 0.0

    @property
    def gib(self) -> float:
        """All of it, in GiB."""
        parts = (self.weights, self.optimizer, self.average, self.gradients, self.activations, self.gathered)
        return sum(parts) / GIB


def usable(gib: float) -> float:
    """GiB of a GPU's memory that a plan may count on."""
    return gib * (1 - SPARE)


def training_memory(load: Load, sizes: Sizes | None = None) -> RankMemory:
    """The most that a rank needs in a step."""
    sizes = sizes or Sizes()
    count = parameters(sizes)
    layer = layer_bytes(sizes, load.batch_size // load.micro_batches, load.cameras, load.words)
    if load.lora_rank:
        return _lora_memory(load, sizes, layer)
    sharded = load.parallel == "fsdp" and load.ranks > 1
    ways = load.ranks if sharded else 1
    vision_inputs = sizes.vision_layers * layer.vision_input
    working = WORKING * layer.language
    all_inputs = sizes.depth * layer.language_input + vision_inputs + working
    if load.ranks > 1 or load.micro_batches > 1:
        phases = [(count.learning, all_inputs)]
    else:  # Gemma's backward pass begins; it ends; all gradients are there, and no activation is
        phases = [
            (count.expert, all_inputs),
            (count.expert + count.language, vision_inputs + working),
            (count.learning, 0.0),
        ]
    gradients, activations = max(phases, key=lambda phase: FP32 * phase[0] + phase[1])
    return RankMemory(
        weights=FP32 * (count.learning + count.unused) / ways,
        optimizer=2 * FP32 * count.learning / ways,
        average=FP32 * count.learning / ways if load.average else 0.0,
        gradients=FP32 * gradients / ways,
        activations=activations,
        gathered=2 * FP32 * (count.embeddings + 2 * count.language_layer) if sharded else 0.0,
    )


def _lora_memory(load: Load, sizes: Sizes, layer: LayerBytes) -> RankMemory:
    own = FP32 * lora_parameters(sizes, load.lora_rank)
    inputs = sizes.depth * layer.language_input + sizes.vision_layers * layer.vision_input
    return RankMemory(
        weights=BF16 * parameters(sizes).total + own * load.lora_tasks,
        optimizer=2 * own,
        average=own if load.average else 0.0,
        gradients=own,
        activations=inputs + LORA_WORKING * layer.language,
    )

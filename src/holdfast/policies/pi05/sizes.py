"""The sizes of pi0.5 and what follows from them. Light to import: a plan needs neither torch nor LeRobot."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

# What training holds per parameter, also after a resume: fp32 weight, gradient, two moments and the moving average.
BYTES_PER_PARAMETER = 20
# Share of a GPU's memory left for what is not counted here: kernels, fragmentation.
SPARE = 0.06


@dataclass(frozen=True)
class Sizes:
    """The sizes of the published weights; `Pi05FastConfig` has the same fields with the same defaults."""

    width: int = 2048
    mlp_dim: int = 16384
    depth: int = 18
    heads: int = 8
    head_dim: int = 256
    vocabulary: int = 257152
    expert_width: int = 1024
    expert_mlp_dim: int = 4096
    vision_width: int = 1152
    vision_mlp_dim: int = 4304
    vision_layers: int = 27
    patch_size: int = 14
    image_tokens: int = 256
    max_action_dim: int = 32

    @classmethod
    def of(cls, config: Any) -> Self:
        """The sizes of a policy's config."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Parameters:
    """How many parameters each part has. The `unused` ones are in the published weights, but never learn."""

    vision: int
    embeddings: int
    language_layer: int
    language: int
    expert: int
    unused: int

    @property
    def learning(self) -> int:
        """Parameters that training changes."""
        return self.vision + self.embeddings + self.language + self.expert

    @property
    def total(self) -> int:
        """All parameters."""
        return self.learning + self.unused


@dataclass(frozen=True)
class LayerBytes:
    """Bytes of activations that one layer keeps for a batch, in full and its input alone."""

    language: int
    language_input: int
    vision: int
    vision_input: int


def parameters(sizes: Sizes) -> Parameters:
    """Count the parameters."""
    wide, narrow, eye = sizes.width, sizes.expert_width, sizes.vision_width
    heads = sizes.heads * sizes.head_dim
    feeding = 3 * wide * sizes.mlp_dim
    layer = 2 * wide * heads + 2 * wide * sizes.head_dim + feeding + 2 * wide
    unused = 2 * wide * heads + feeding + wide  # the last layer only makes keys and values
    timed_norm = 3 * narrow * narrow + 3 * narrow
    expert_layer = 2 * narrow * heads + 2 * narrow * sizes.head_dim + 3 * narrow * sizes.expert_mlp_dim + 2 * timed_norm
    ends = 2 * narrow * sizes.max_action_dim + narrow + sizes.max_action_dim + 2 * (narrow * narrow + narrow)
    vision_layer = 4 * (eye * eye + eye) + 2 * eye * sizes.vision_mlp_dim + sizes.vision_mlp_dim + eye + 4 * eye
    patches = 3 * sizes.patch_size**2 * eye + eye + sizes.image_tokens * eye
    return Parameters(
        vision=sizes.vision_layers * vision_layer + patches + 2 * eye + eye * wide + wide,
        embeddings=sizes.vocabulary * wide,
        language_layer=layer,
        language=sizes.depth * layer - unused,
        expert=sizes.depth * expert_layer + timed_norm + ends,
        unused=unused + wide,
    )


def lora_parameters(sizes: Sizes, rank: int) -> int:
    """Numbers in one task's LoRA: rank times the inputs and outputs of every matrix that `task_targets` names."""
    wide, narrow, eye, heads = sizes.width, sizes.expert_width, sizes.vision_width, sizes.heads * sizes.head_dim
    memory = 2 * sizes.head_dim

    def layer(width: int, inner: int) -> int:
        return 2 * (width + heads) + 2 * width + memory + 3 * (width + inner)

    vision = sizes.vision_layers * (8 * eye + 2 * (eye + sizes.vision_mlp_dim))
    language = (sizes.depth - 1) * layer(wide, sizes.mlp_dim) + 2 * wide + memory
    expert = sizes.depth * layer(narrow, sizes.expert_mlp_dim)
    ends = 2 * (narrow + sizes.max_action_dim) + 4 * narrow
    return rank * (vision + language + expert + ends)


def layer_bytes(sizes: Sizes, rows: int, cameras: int, words: int) -> LayerBytes:
    """What layers of Gemma and of the vision tower keep in bf16.

    In full that is the inputs of norms and matrices, queries, attention outputs and inner values.
    """
    images = rows * cameras * sizes.image_tokens
    tokens = images + rows * words
    wide, eye = sizes.width, sizes.vision_width
    return LayerBytes(
        language=2 * tokens * (4 * wide + 2 * sizes.heads * sizes.head_dim + 3 * sizes.mlp_dim),
        language_input=2 * tokens * wide,
        vision=2 * images * (6 * eye + 2 * sizes.vision_mlp_dim),
        vision_input=2 * images * eye,
    )

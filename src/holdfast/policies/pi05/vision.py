"""SigLIP: turns an image into a grid of tokens. Modules are named as in the published weights."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig

EPSILON = 1e-6


def named(**children: nn.Module) -> nn.Module:
    """A module that only gives its children the names they have in published weights."""
    parent = nn.Module()
    for name, child in children.items():
        parent.add_module(name, child)
    return parent


class VisionAttention(nn.Module):
    """Attention between all patches of an image."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x [N, places, width]."""
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class VisionFeedForward(nn.Module):
    """Two matrices with GELU between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to every place."""
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class VisionLayer(nn.Module):
    """Attention, then feed-forward."""

    def __init__(self, config: Pi05FastConfig) -> None:
        super().__init__()
        width = config.vision_width
        self.layer_norm1 = nn.LayerNorm(width, eps=EPSILON)
        self.self_attn = VisionAttention(width, config.vision_heads)
        self.layer_norm2 = nn.LayerNorm(width, eps=EPSILON)
        self.mlp = VisionFeedForward(width, config.vision_mlp_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Refine x [N, places, width]."""
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class VisionEmbeddings(nn.Module):
    """Embeddings of patches and their positions."""

    def __init__(self, config: Pi05FastConfig) -> None:
        super().__init__()
        patch = config.patch_size
        self.patch_embedding = nn.Conv2d(3, config.vision_width, patch, stride=patch)
        self.position_embedding = nn.Embedding(config.image_tokens, config.vision_width)

    def forward(self, images: Tensor) -> Tensor:
        """Cut images [N, 3, S, S] with values in [-1, 1] into tokens [N, places, width]."""
        x = self.patch_embedding(images).flatten(2).transpose(1, 2)
        # In the precision of x: an fp32 sum would make all layers compute in fp32.
        return x + self.position_embedding.weight.to(x.dtype)


class VisionTower(nn.Module):
    """The part of SigLIP that pi0.5 uses."""

    def __init__(self, config: Pi05FastConfig) -> None:
        super().__init__()
        self.embeddings = VisionEmbeddings(config)
        self.encoder = named(layers=nn.ModuleList(VisionLayer(config) for _ in range(config.vision_layers)))
        self.post_layernorm = nn.LayerNorm(config.vision_width, eps=EPSILON)

    @property
    def layers(self) -> nn.ModuleList:
        """The transformer's layers."""
        layers = self.encoder.layers
        assert isinstance(layers, nn.ModuleList)
        return layers

"""The network of `nano`: images, proprioception and instruction become a context for flow matching over actions.

Simple and small on purpose. Convolutions read the images, because with few demonstrations their locality helps more
than the flexibility of patches. Tokens of all cameras, the instruction and the proprioception go through a transformer
encoder. A transformer decoder predicts the velocity of the action chunk (flow matching). No weight depends on the
size of the images, so a base pretrained once serves a laptop at 64 pixels and a GPU at 96 or more.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.policies.lora_layers import Route, add_loras
from holdfast.policies.nano.configuration_nano import GROUPS, NanoConfig

TIME_WIDTH = 64  # of the embedded time: plenty for a single number
PLACE_WAVES = 8  # per axis, for the positions of image tokens
PHRASES = 4  # tokens that summarize an instruction
LORA_TARGETS = r"(?!place).*"  # all linear layers that read something of a row


class Memory(NamedTuple):
    """Keys and values of one attention, each [B, heads, N, width / heads]."""

    keys: Tensor
    values: Tensor


class Context(NamedTuple):
    """What the decoder attends to: one memory per decoder layer."""

    memories: list[Memory]


class Attention(nn.Module):
    """Multi-head attention to a memory, which is computed once and may be used many times."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def memorize(self, x: Tensor) -> Memory:
        """Compute the memory of x [B, N, width]."""
        keys, values = self.key_value(x).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return Memory(keys, values)

    def forward(self, x: Tensor, memory: Memory, mask: Tensor | None = None) -> Tensor:
        """Attend from x [B, L, width] to the memory; `mask` [B, 1, 1, N] is true where it may be read."""
        queries = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        read = F.scaled_dot_product_attention(queries, *memory, attn_mask=mask)
        return self.output(read.transpose(1, 2).flatten(2))


class FeedForward(nn.Sequential):
    """Two linear layers, four times as wide in between."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each normalized before and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_self = nn.LayerNorm(width)
        self.attend_self = Attention(width, heads)
        self.norm_feed = nn.LayerNorm(width)
        self.feed = FeedForward(width)

    def forward(self, x: Tensor) -> Tensor:
        """Refine the tokens x [B, N, width]."""
        y = self.norm_self(x)
        x = x + self.attend_self(y, self.attend_self.memorize(y))
        return x + self.feed(self.norm_feed(x))


class TimedNorm(nn.Module):
    """Layer normalization whose scale and shift depend on the time of the flow.

    How to process a step depends mostly on how noisy it is. Modulating every sublayer by the time lowered the loss
    by a tenth, compared with adding the time to the input once. Starts as a plain normalization.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulate = nn.Linear(TIME_WIDTH, 2 * width)
        nn.init.zeros_(self.modulate.weight)
        nn.init.zeros_(self.modulate.bias)

    def forward(self, x: Tensor, moment: Tensor) -> Tensor:
        """Normalize x [B, L, width] at the embedded time `moment` [B, 1, TIME_WIDTH]."""
        scale, shift = self.modulate(moment).chunk(2, dim=-1)
        return self.norm(x) * (1 + scale) + shift


class DecoderLayer(nn.Module):
    """Self-attention over the chunk, attention to the context, feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_self = TimedNorm(width)
        self.attend_self = Attention(width, heads)
        self.norm_context = TimedNorm(width)
        self.attend_context = Attention(width, heads)
        self.norm_feed = TimedNorm(width)
        self.feed = FeedForward(width)

    def forward(self, x: Tensor, moment: Tensor, real: Tensor | None, memory: Memory) -> Tensor:
        """Refine the steps x [B * draws, chunk, width] of the chunk.

        Args:
            x: The steps; several draws of noise for one observation follow each other.
            moment: The embedded time [B * draws, 1, TIME_WIDTH].
            real: Which steps may be attended to [B * draws, 1, 1, chunk], all if None.
            memory: This layer's memory of the context, of batch size B.
        """
        y = self.norm_self(x, moment)
        x = x + self.attend_self(y, self.attend_self.memorize(y), real)
        # All draws of an observation attend to its memory at once, but not to each other.
        queries = self.norm_context(x, moment).reshape(memory.keys.shape[0], -1, x.shape[-1])
        x = x + self.attend_context(queries, memory).view_as(x)
        return x + self.feed(self.norm_feed(x, moment))


class ConvStage(nn.Module):
    """A residual block that halves the image.

    GroupNorm, since statistics over a batch would differ between a batch of one task, a mixed one and a single
    observation. The shortcut pools before its 1x1 convolution instead of striding it: no pixel is skipped, and
    the backward pass of the strided kind corrupts memory on CPUs when three channels come last (torch 2.11).
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.shortcut = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(channels_in, channels_out, 1))
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1),
            nn.GroupNorm(GROUPS, channels_out),
            nn.SiLU(),
            nn.Conv2d(channels_out, channels_out, 3, padding=1),
            nn.GroupNorm(GROUPS, channels_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels_in, H, W] to [N, channels_out, H / 2, W / 2]."""
        return F.silu(self.shortcut(x) + self.body(x))


def embedding(*shape: int) -> nn.Parameter:
    """A learned table that starts small compared with the features it is added to."""
    return nn.Parameter(0.02 * torch.randn(shape))


class Stem(nn.Sequential):
    """Reduces images to a quarter of their side in one step: few channels at full resolution are slow on a CPU."""

    def __init__(self, channels: int) -> None:
        super().__init__(nn.Conv2d(3, channels, 6, stride=4, padding=1), nn.GroupNorm(GROUPS, channels), nn.SiLU())


class NanoNetwork(nn.Module):
    """Velocity of an action chunk, given images, proprioception and an instruction."""

    frequencies: Tensor
    waves: Tensor

    def __init__(self, config: NanoConfig, cameras: int, state_dim: int, action_dim: int) -> None:
        super().__init__()
        width = config.width
        self.vision = nn.Sequential(Stem(width // 4), ConvStage(width // 4, width // 2), ConvStage(width // 2, width))
        self.register_buffer("waves", torch.pi * 2.0 ** torch.arange(PLACE_WAVES // 2), persistent=False)
        self.place = nn.Linear(2 * PLACE_WAVES, width, bias=False)
        self.camera = embedding(cameras, 1, width)
        self.word = nn.Embedding(config.vocabulary, width)
        self.word_order = embedding(config.max_tokens, width)
        self.phrase = embedding(PHRASES, width)
        self.listen = Attention(width, config.heads)
        self.state = nn.Linear(state_dim, width)
        self.encoder = nn.ModuleList(EncoderLayer(width, config.heads) for _ in range(config.encoder_layers))
        self.norm_context = nn.LayerNorm(width)

        self.action_in = nn.Linear(action_dim, width)
        self.step = embedding(config.chunk_size, width)
        # From one radian to a thousand over the unit of time: coarse to finer than any number of Euler steps.
        self.register_buffer("frequencies", torch.logspace(0, 3, TIME_WIDTH // 2), persistent=False)
        self.time = nn.Sequential(
            nn.Linear(TIME_WIDTH, TIME_WIDTH), nn.SiLU(), nn.Linear(TIME_WIDTH, TIME_WIDTH), nn.SiLU()
        )
        self.decoder = nn.ModuleList(DecoderLayer(width, config.heads) for _ in range(config.decoder_layers))
        self.norm_out = TimedNorm(width)
        self.action_out = nn.Linear(width, action_dim)
        self.route = Route()
        for lora in config.task_loras:
            add_loras(self, LORA_TARGETS, lora.rank, self.route)

    def forward(
        self,
        images: Tensor,
        state: Tensor,
        tokens: Tensor,
        words: Tensor,
        actions: Tensor,
        time: Tensor,
        padded: Tensor | None,
    ) -> Tensor:
        """Predict the velocity of noisy actions for some observations: `encode`, then `velocity`."""
        return self.velocity(self.encode(images, state, tokens, words), actions, time, padded)

    def encode(self, images: Tensor, state: Tensor, tokens: Tensor, words: Tensor) -> Context:
        """Read one observation per sample.

        Args:
            images: All cameras [B, cameras, 3, S, S], values in [-1, 1].
            state: Normalized proprioception [B, state_dim].
            tokens: Word buckets of the instruction [B, max_tokens].
            words: Which tokens are words, not padding [B, max_tokens], bool.

        Returns:
            The context, ready for any number of calls of `velocity`.
        """
        # One pass over the images of all cameras, then [B, cameras, places, width].
        features = self.vision(images.flatten(0, 1))
        image = features.flatten(2).transpose(1, 2).unflatten(0, images.shape[:2])
        image = (image + self.place(self._places(features.shape[-1])) + self.camera).flatten(1, 2)
        proprioception = self.state(state).unsqueeze(1)
        # An instruction of any length becomes a few tokens: padding would cost as much as image tokens.
        sentence = self.listen.memorize(self.word(tokens) + self.word_order)
        phrases = self.phrase + self.listen(self.phrase.expand(len(tokens), -1, -1), sentence, words[:, None, None, :])
        x = torch.cat([image, proprioception, phrases], dim=1)
        for layer in self.encoder:
            x = layer(x)
        x = self.norm_context(x)
        layers = (cast(DecoderLayer, layer) for layer in self.decoder)
        return Context([layer.attend_context.memorize(x) for layer in layers])

    def velocity(self, context: Context, actions: Tensor, time: Tensor, padded: Tensor | None = None) -> Tensor:
        """Predict the velocity of noisy actions.

        Args:
            context: What `encode` returned for B observations.
            actions: Normalized actions mixed with noise [B * draws, chunk, action_dim].
            time: From 0 (noise) to 1 (actions) [B * draws].
            padded: Steps behind the end of an episode [B * draws, chunk], which the others must not attend to.

        Returns:
            The velocity [B * draws, chunk, action_dim].
        """
        phase = time[:, None] * self.frequencies
        moment = self.time(torch.cat([phase.sin(), phase.cos()], dim=-1)).unsqueeze(1)
        x = self.action_in(actions) + self.step
        real = None if padded is None else ~padded[:, None, None, :]
        for layer, memory in zip(self.decoder, context.memories, strict=True):
            x = layer(x, moment, real, memory)
        return self.action_out(self.norm_out(x, moment))

    def _places(self, side: int) -> Tensor:
        """Waves over the image's rows and columns, at each of its side x side tokens [side * side, 2 * waves]."""
        centres = (torch.arange(side, device=self.waves.device) + 0.5) / side
        waves = centres[:, None] * self.waves
        axis = torch.cat([waves.sin(), waves.cos()], dim=-1)
        return torch.cat([axis.repeat_interleave(side, 0), axis.repeat(side, 1)], dim=-1)

"""The policy `nano` in LeRobot's interface: loss for training, chunks and single actions for the robot."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.utils.constants import ACTION, OBS_LANGUAGE_ATTENTION_MASK, OBS_LANGUAGE_TOKENS, OBS_STATE
from torch import Tensor, nn
from torch.nn import functional as F

# Loading saved processors looks their steps up by name; importing the module registers ours.
import holdfast.policies.nano.processor_nano  # noqa: F401
from holdfast.core.errors import HoldfastError
from holdfast.data.resize import Resize, scale
from holdfast.policies.batch_slice import BatchSlice, TensorBatch, draw
from holdfast.policies.cuda_graphs import CudaGraphs
from holdfast.policies.flow import FlowNoise, mean_square
from holdfast.policies.lora_layers import learn_task, routed_rows
from holdfast.policies.nano.configuration_nano import NanoConfig
from holdfast.policies.nano.network import LORA_TARGETS, NanoNetwork
from holdfast.policies.pipelines import mean_of_real
from holdfast.policies.relative import relative_dimensions
from holdfast.policies.task_lora import TaskLora

IS_PAD = f"{ACTION}_is_pad"  # LeRobot's flag [B, chunk] for steps beyond the end of an episode

# LeRobot divides by this where the quantiles of a dimension coincide.
EMPTY_RANGE = 1e-8


def resize_with_pad(images: Tensor, size: int) -> Tensor:
    """Fit images [B, 3, H, W] into a square [B, 3, size, size], aspect kept, centred on black."""
    height, width = Resize(size, size, antialias=True).fit(*images.shape[-2:])
    images = scale(images, (height, width), antialias=True)
    top, left = (size - height) // 2, (size - width) // 2
    return F.pad(images, (left, size - width - left, top, size - height - top)) if height != width else images


def as_unit(images: Tensor) -> Tensor:
    """Bring pixels, bytes or already in [0, 1], to floats in [0, 1]."""
    return images.float() if images.is_floating_point() else images.float() / 255


def quantile_range(low: Any, high: Any) -> Tensor:
    """Width of the range that LeRobot's quantile normalization maps to [-1, 1], with its rule for an empty range."""
    low, high = (torch.as_tensor(edge, dtype=torch.float32, device="cpu") for edge in (low, high))
    return torch.where(high == low, EMPTY_RANGE, high - low)


class NanoPolicy(PreTrainedPolicy):
    """A small vision-language-action policy: flow matching over a chunk of actions."""

    config_class = NanoConfig
    name = "nano"
    # Its loss runs the same kernels whatever the values are, so on a GPU it can be captured as a CUDA graph.
    cuda_graphable = True
    anchor_scale: Tensor

    def __init__(self, config: NanoConfig, **kwargs: Any) -> None:
        """Build the policy from its configuration.

        Args:
            config: Configuration with the features filled in.
            **kwargs: What LeRobot's factory adds. `dataset_stats` sets the anchor, because the factory gives the same
                statistics to the processors.
        """
        super().__init__(config)
        config.validate_features()
        self.config: NanoConfig = config
        # Sorted: a dataset that lists its cameras in another order must not permute them.
        self.cameras = sorted(config.image_features)
        self.action_dim: int = config.action_feature.shape[0]
        names = config.action_feature_names or [""] * self.action_dim
        self.relative = relative_dimensions(config, names).tolist()
        self.paired = [max(place, 0) for place in config.relative_to or range(self.action_dim)]  # states to count from
        self.network = NanoNetwork(config, len(self.cameras), config.robot_state_feature.shape[0], self.action_dim)
        self.register_buffer("anchor_scale", torch.zeros(self.action_dim))
        stats = kwargs.get("dataset_stats") or {}
        if all({"q01", "q99"} <= set(stats.get(key, {})) for key in (OBS_STATE, ACTION)):
            self.set_anchor(*(stats[key][quantile] for key in (OBS_STATE, ACTION) for quantile in ("q01", "q99")))
        self._graphs: CudaGraphs[Tensor] = CudaGraphs()
        self._compiled = False
        if config.task_loras:
            self.requires_grad_(False)
        self.reset()

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        self._graphs = CudaGraphs()  # weights are about to move
        return super()._apply(fn, recurse)

    @classmethod
    def _load_as_safetensor(cls, model: Self, model_file: str, map_location: str, strict: bool) -> Self:
        # LeRobot's default of strict=False would leave random weights where the file has none.
        return super()._load_as_safetensor(model, model_file, map_location, True)

    def add_task_lora(self, lora: TaskLora, seed: int) -> None:
        """Freeze all weights and add a LoRA for one more task, which alone learns."""
        learn_task(self, self.network, LORA_TARGETS, lora, seed)
        self._graphs = CudaGraphs()

    def get_optim_params(self) -> Iterator[nn.Parameter]:
        """Return everything that learns, as one group."""
        return self.parameters()

    def shard_blocks(self) -> list[nn.Module]:
        """Modules that are gathered one at a time when weights are sharded. The decoder's are not only called."""
        return list(self.network.encoder)

    @property
    def noise_shape(self) -> tuple[int, int]:
        """Shape of the noise of one chunk: steps, dimensions."""
        return self.config.chunk_size, self.action_dim

    def reset(self) -> None:
        """Forget the queued actions, at the start of an episode."""
        self._queue: deque[tuple[Tensor, Tensor]] = deque()  # an action, and the state it counts from

    def set_anchor(self, state_q01: Any, state_q99: Any, action_q01: Any, action_q99: Any) -> None:
        """Set the ranges by which the processors normalize; `select_action` needs them.

        Args:
            state_q01: Lower quantile of the state [state_dim], tensor or array.
            state_q99: Upper quantile of the state [state_dim].
            action_q01: Lower quantile of the (relative) actions [action_dim].
            action_q99: Upper quantile of the (relative) actions [action_dim].
        """
        if any(self.relative):
            ratio = quantile_range(state_q01, state_q99)[self.paired] / quantile_range(action_q01, action_q99)
            self.anchor_scale.copy_(torch.where(torch.tensor(self.relative), ratio, 0.0))

    def loss_elements(self, batch: TensorBatch, batch_slice: BatchSlice | None = None) -> Tensor:
        """Squared error of the predicted velocity, neither masked nor reduced [B, chunk, action_dim].

        Noise and times are drawn from torch's global generator, several for each observation, whose errors are
        averaged; in training mode also noise on the proprioception.
        """
        return mean_square(self.velocity_errors(batch, self.draw_noise(batch, batch_slice)), len(batch[ACTION]))

    def draw_noise(self, batch: TensorBatch, batch_slice: BatchSlice | None = None) -> FlowNoise:
        """Draw what the loss of a batch needs."""
        actions, state = batch[ACTION], batch[OBS_STATE]
        rows, device = len(actions) * self.config.noise_draws, actions.device
        noise = draw(batch_slice, rows, lambda n: torch.randn(n, *actions.shape[1:], device=device))
        # Early times decide where the chunk goes, late ones only refine it. So the share of noise follows pi0's
        # Beta(1.5, 1), drawn by inverting its distribution function.
        time = 1 - draw(batch_slice, rows, lambda n: torch.rand(n, device=device)) ** (2 / 3)
        if not self.training:
            return FlowNoise(noise, time)
        return FlowNoise(
            noise, time, draw(batch_slice, len(state), lambda n: torch.randn(n, *state.shape[1:], device=device))
        )

    def velocity_errors(self, batch: TensorBatch, drawn: FlowNoise) -> Tensor:
        """Predicted minus true velocity [B * noise_draws, chunk, action_dim]."""
        # Also outside of training: a process that resumes between two stages must compute what the killed one would.
        if self.config.compile and not self._compiled and batch[ACTION].is_cuda:
            # Kernels are chosen without timing them, so that every process chooses the same and computes the same bits.
            self.network.compile(dynamic=False, options={"deterministic": True})
            self._compiled = True
        draws = self.config.noise_draws
        actions = batch[ACTION].float().repeat_interleave(draws, 0)
        padded = batch[IS_PAD].repeat_interleave(draws, 0) if IS_PAD in batch else None
        blend = torch.lerp(drawn.noise, actions, drawn.time[:, None, None])
        images, state, tokens, words = self._observed(batch)
        self.network.route.rows = routed_rows(self, batch)
        if drawn.state is not None:
            state = state + self.config.state_noise * drawn.state
        velocity = self.network(images, state, tokens, words, blend, drawn.time, padded)
        return velocity.float() - (actions - drawn.noise)

    def forward(self, batch: TensorBatch) -> tuple[Tensor, dict[str, Any]]:
        """Mean loss over the real steps of the batch, for LeRobot's own training loop."""
        return mean_of_real(self.loss_elements(batch), batch.get(IS_PAD)), {}

    @torch.no_grad()
    def predict_action_chunk(self, batch: TensorBatch, noise: Tensor | None = None) -> Tensor:
        """Predict a chunk of normalized actions, starting from noise.

        Args:
            batch: Pre-processed observation.
            noise: Where to start [B, chunk, action_dim]; drawn if not given.

        Returns:
            Actions [B, chunk, action_dim], relative to the state of `batch` where they are relative.
        """
        seen, rows = self._observed(batch), routed_rows(self, batch)
        if noise is None:
            noise = torch.randn(len(seen[0]), *self.noise_shape, device=seen[0].device)
        inputs = (*seen, noise.float(), *([] if rows is None else [rows]))
        # Not under autocast: the graph would read autocast's copies of the weights, which are freed afterwards.
        if noise.is_cuda and not self.training and not torch.is_autocast_enabled():
            return self._graphs.play(self._act, *inputs).clone()
        return self._act(*inputs)

    def _act(
        self, images: Tensor, state: Tensor, tokens: Tensor, words: Tensor, noise: Tensor, rows: Tensor | None = None
    ) -> Tensor:
        self.network.route.rows = rows
        context = self.network.encode(images, state, tokens, words)
        steps, actions = self.config.denoise_steps, noise
        for step in range(steps):
            time = torch.full((len(noise),), step / steps, device=noise.device)
            actions = actions + self.network.velocity(context, actions, time).float() / steps
        return actions

    @torch.no_grad()
    def select_action(self, batch: TensorBatch, noise: Tensor | None = None) -> Tensor:
        """Return the next action [B, action_dim], predicting a new chunk when the queue is empty.

        A relative action counts from the state s0 in which its chunk was predicted, but LeRobot's post-processor adds
        the latest state s. The queue would drift, so the action carries the difference s0 - s, rescaled from
        the state's normalization to the action's.
        """
        state = batch[OBS_STATE].float()
        if not self._queue:
            if any(self.relative) and self.config.n_action_steps > 1 and not self.anchor_scale.any():
                raise HoldfastError("Queued relative actions need set_anchor to be called first, or n_action_steps=1.")
            chunk = self.predict_action_chunk(batch, noise=noise)[:, : self.config.n_action_steps]
            self._queue.extend((action, state) for action in chunk.unbind(dim=1))
        action, anchor = self._queue.popleft()
        if not any(self.relative):
            return action
        return action + (anchor - state)[:, self.paired] * self.anchor_scale

    def _observed(self, batch: TensorBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Images of all cameras [B, cameras, 3, S, S] in [-1, 1], the state, tokens, and which of them are words."""
        missing = [key for key in (*self.cameras, OBS_STATE, OBS_LANGUAGE_TOKENS) if key not in batch]
        if missing:
            raise HoldfastError(f"The batch lacks {missing}, it has {sorted(batch)}.")
        size = self.config.image_size
        images = torch.stack([resize_with_pad(as_unit(batch[key]), size) for key in self.cameras], dim=1)
        words = batch[OBS_LANGUAGE_ATTENTION_MASK].bool()
        return 2 * images - 1, batch[OBS_STATE].float(), batch[OBS_LANGUAGE_TOKENS], words

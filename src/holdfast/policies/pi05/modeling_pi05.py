"""The policy `pi05_fast` in LeRobot's interface: loss for training, chunks and single actions for the robot."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.common.vla_utils import pad_vector, resize_with_pad_torch
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.utils.constants import ACTION, OBS_LANGUAGE_ATTENTION_MASK, OBS_LANGUAGE_TOKENS
from torch import Tensor, nn

# Loading saved processors looks their steps up by name; importing the module registers ours.
import holdfast.policies.pi05.processor_pi05  # noqa: F401
from holdfast.core.errors import HoldfastError
from holdfast.policies.batch_slice import BatchSlice, TensorBatch, draw
from holdfast.policies.flow import FlowNoise, mean_square
from holdfast.policies.lora_layers import learn_task, routed_rows
from holdfast.policies.pi05 import weights
from holdfast.policies.pi05.acting import Actor
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.lora import add_adapters, freeze, task_targets
from holdfast.policies.pi05.network import Pi05Network
from holdfast.policies.pipelines import mean_of_real
from holdfast.policies.saved_folder import load_config
from holdfast.policies.task_lora import TaskLora

IS_PAD = f"{ACTION}_is_pad"  # LeRobot's flag [B, chunk] for steps beyond the end of an episode


class Pi05FastPolicy(PreTrainedPolicy):
    """pi0.5: a small transformer turns noise into actions, attending to a vision-language model's keys and values."""

    config_class = Pi05FastConfig
    name = "pi05_fast"

    def __init__(self, config: Pi05FastConfig, **kwargs: Any) -> None:
        """Build the policy with random weights.

        Args:
            config: Configuration with the features filled in.
            **kwargs: What LeRobot's factory adds; unused.
        """
        super().__init__(config)
        config.validate_features()
        self.config: Pi05FastConfig = config
        self.action_dim: int = config.action_feature.shape[0]
        with torch.device(config.device or "cpu"):  # on its final device, because billions of numbers are drawn
            self.model = Pi05Network(config)
            self.model.start_at_random()
        if config.lora_rank:
            add_adapters(self.model, config.lora_rank, self._frozen)
        if config.task_loras:
            freeze(self.requires_grad_(False).model, self._frozen)
        self._actor: Actor | None = None
        self._compiled = False
        self.reset()

    @property
    def _frozen(self) -> torch.dtype:
        """Precision of weights that do not learn."""
        return torch.bfloat16 if str(self.config.device).startswith("cuda") else torch.float32

    def add_task_lora(self, lora: TaskLora, seed: int) -> None:
        """Freeze all weights and add a LoRA for one more task, which alone learns."""
        if self.config.lora_rank:
            raise HoldfastError(
                f"--policy.lora_rank={self.config.lora_rank} merges what it learns into all tasks' weights, and "
                "--method=adapters has a LoRA per task. Leave --policy.lora_rank out and give --method.rank."
            )
        learn_task(self, self.model, task_targets(self.config), lora, seed)
        freeze(self.model, self._frozen)
        self._actor = None

    @classmethod
    def from_pretrained(
        cls, pretrained_name_or_path: str | Path, *, config: PreTrainedConfig | None = None, **kwargs: Any
    ) -> Self:
        """Load a folder or hub id that this policy, LeRobot's `pi05` or openpi has saved; in eval mode."""
        if config is None:
            config = load_config(pretrained_name_or_path)
        policy = cls(config, **kwargs)
        policy.read_weights(weights.locate(pretrained_name_or_path))
        return policy.eval()

    def read_weights(self, file: Path) -> None:
        """Load a file of weights that must fit exactly."""
        weights.read(self.model, file)
        self._actor = None

    def _save_pretrained(self, save_directory: Path, state_dict: dict[str, Tensor] | None = None) -> None:
        self.config._save_pretrained(save_directory)
        if state_dict is not None:
            state_dict = {name.removeprefix(weights.PREFIX): value for name, value in state_dict.items()}
        weights.write(weights.plain_state(self.model, state_dict), save_directory / weights.FILE)

    def train(self, mode: bool = True) -> Self:
        """Training changes the weights, so the half-precision copy is dropped."""
        if mode:
            self._actor = None
        return super().train(mode)

    def get_optim_params(self) -> Iterator[nn.Parameter]:
        """Return everything that learns, as one group."""
        return (p for p in self.parameters() if p.requires_grad)

    def shard_blocks(self) -> list[nn.Module]:
        """Modules that are gathered one at a time when weights are sharded."""
        return self.model.layers

    @property
    def noise_shape(self) -> tuple[int, int]:
        """Shape of a chunk's noise: steps, padded dimensions."""
        return self.config.chunk_size, self.config.max_action_dim

    def reset(self) -> None:
        """Forget the queued actions, at the start of an episode."""
        self._queue: deque[Tensor] = deque()

    def loss_elements(self, batch: TensorBatch, batch_slice: BatchSlice | None = None) -> Tensor:
        """Squared error of the predicted velocity, neither masked nor reduced [B, chunk, action_dim].

        Noise and times are drawn from torch's global generator.
        """
        return mean_square(self.velocity_errors(batch, self.draw_noise(batch, batch_slice)), len(batch[ACTION]))

    def draw_noise(self, batch: TensorBatch, batch_slice: BatchSlice | None = None) -> FlowNoise:
        """Draw what the loss of a batch needs."""
        rows, device = len(batch[ACTION]), batch[ACTION].device
        noise = draw(
            batch_slice, rows, lambda n: torch.randn(n, *batch[ACTION].shape[1:-1], self.noise_shape[1], device=device)
        )
        # Beta(alpha, 1) by inverting its distribution function, on the device.
        drawn = draw(batch_slice, rows, lambda n: torch.rand(n, device=device))
        drawn = drawn ** (1 / self.config.time_sampling_beta_alpha)
        return FlowNoise(noise, drawn * self.config.time_sampling_scale + self.config.time_sampling_offset)

    def velocity_errors(self, batch: TensorBatch, drawn: FlowNoise) -> Tensor:
        """Predicted minus true velocity [B, chunk, action_dim]."""
        if self.training and self.config.compile and not self._compiled and batch[ACTION].is_cuda:
            self.model.compile_layers()
            self._compiled = True
        self.model.route.rows = routed_rows(self, batch)
        actions = pad_vector(batch[ACTION].float(), self.config.max_action_dim)
        errors: Tensor = self.model(*self._observed(batch), actions, drawn.noise, drawn.time)
        return errors[..., : self.action_dim]

    def forward(self, batch: TensorBatch) -> tuple[Tensor, dict[str, Any]]:
        """Mean loss over the real steps of the batch, for LeRobot's own training loop."""
        return mean_of_real(self.loss_elements(batch), batch.get(IS_PAD)), {}

    @torch.no_grad()
    def predict_action_chunk(self, batch: TensorBatch, noise: Tensor | None = None) -> Tensor:
        """Predict a chunk of normalized actions.

        Args:
            batch: Pre-processed observation.
            noise: Where to start [B, chunk, max_action_dim]; drawn if not given.

        Returns:
            Actions [B, chunk, action_dim], relative to the state of `batch` where they are relative.
        """
        images, tokens, words = self._observed(batch)
        rows = routed_rows(self, batch)
        if noise is None:
            noise = torch.randn(len(tokens), *self.noise_shape, device=tokens.device)
        if tokens.is_cuda and not self.training:
            self._actor = self._actor or Actor(self.model)
            actions = self._actor(images, tokens, words, noise.float(), rows)
        else:
            self.model.route.rows = rows
            actions = self.model.act(images, tokens, words, noise.float())
        return actions[..., : self.action_dim]

    @torch.no_grad()
    def select_action(self, batch: TensorBatch, noise: Tensor | None = None) -> Tensor:
        """Return the next action [B, action_dim], predicting a new chunk when the queue is empty."""
        if self.config.use_relative_actions and self.config.n_action_steps > 1:
            raise HoldfastError(
                "A queued relative action would be added to a later state than it was meant for. Use "
                "predict_action_chunk, or n_action_steps=1."
            )
        if not self._queue:
            chunk = self.predict_action_chunk(batch, noise=noise)[:, : self.config.n_action_steps]
            self._queue.extend(chunk.unbind(dim=1))
        return self._queue.popleft()

    def _observed(self, batch: TensorBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Images [B, cameras, 3, S, S] in [-1, 1], tokens, and which of them are words, if not all.

        Cameras that a batch lacks are left out. LeRobot masks them, which gives the same result.
        """
        cameras = [key for key in self.config.image_features if key in batch]
        if not cameras or OBS_LANGUAGE_TOKENS not in batch:
            wanted = [*self.config.image_features, OBS_LANGUAGE_TOKENS]
            raise HoldfastError(f"pi05_fast reads {wanted}, the batch has {sorted(batch)}.")
        images = torch.stack([self._fit(batch[key]) for key in cameras], 1)
        return images * 2 - 1, batch[OBS_LANGUAGE_TOKENS], batch.get(OBS_LANGUAGE_ATTENTION_MASK)

    def _fit(self, images: Tensor) -> Tensor:
        images = images.float() if images.is_floating_point() else images.float() / 255
        size = self.config.image_resolution
        return images if images.shape[-2:] == size else resize_with_pad_torch(images, *size)

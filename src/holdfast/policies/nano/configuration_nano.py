"""Configuration of `nano`, and the checks before it is built."""

import math
from dataclasses import dataclass, field

from lerobot.configs import NormalizationMode, PreTrainedConfig
from lerobot.optim import AdamWConfig
from lerobot.optim.schedulers import CosineAnnealingWithWarmupSchedulerConfig

from holdfast.core.errors import HoldfastError
from holdfast.policies import task_lora
from holdfast.policies.bounds import check_places, check_size
from holdfast.policies.task_lora import TaskLora

STRIDE = 16  # pixels per image token and side: a stem of four, then two stages that halve the image
GROUPS = 4  # of the group normalization; they divide the width / 4 channels of the stem
SIZES = {
    "chunk_size": (1, 1024),
    "n_action_steps": (1, 1024),
    "image_size": (STRIDE, 512),
    "width": (4 * GROUPS, 4096),
    "encoder_layers": (1, 64),
    "decoder_layers": (1, 64),
    "heads": (1, 256),
    "denoise_steps": (1, 1000),
    "noise_draws": (1, 64),
    "max_tokens": (1, 1024),
    "vocabulary": (2, 2**20),  # padding and at least one word
}


@PreTrainedConfig.register_subclass("nano")
@dataclass
class NanoConfig(PreTrainedConfig):
    """Configuration of the `nano` policy.

    The defaults (9 M parameters) are for a GPU. On a CPU take `image_size=64 width=128 heads=4`: a seventh of the work.
    """

    # Steps predicted at once, and how many of them are executed before the next prediction.
    chunk_size: int = 16
    n_action_steps: int = 8

    # Every camera is resized to a square of this side, its aspect kept by padding.
    image_size: int = 96
    width: int = 256
    encoder_layers: int = 3
    decoder_layers: int = 4
    heads: int = 8
    # Euler steps from noise to actions.
    denoise_steps: int = 10
    # Draws of noise and time for every observation of a training step. Encoding costs more than decoding, so a few
    # draws are almost free and reduce the variance of the gradient.
    noise_draws: int = 4

    # Compile the layers that compute losses on a GPU: a third less GPU time a step, after a wait of up to a minute.
    compile: bool = True

    # Words of an instruction, and the buckets they are hashed into (0 is padding).
    max_tokens: int = 24
    vocabulary: int = 2048

    # Noise on the normalized proprioception, in training only: otherwise the joints alone tell the phase of a
    # demonstration, and the policy ignores the images.
    state_noise: float = 0.02

    # Joint targets relative to the state in which the chunk was predicted. Dimensions whose name contains one of
    # `relative_exclude_joints` stay absolute; the names come from the dataset.
    use_relative_actions: bool = True
    relative_exclude_joints: list[str] = field(default_factory=lambda: ["gripper"])
    action_feature_names: list[str] | None = None
    # The state dimension of every action dimension, -1 for none; None if both have the same dimensions.
    relative_to: list[int] | None = None

    # The tasks that have a LoRA of their own, in order. Set by --method=adapters: all other weights are frozen.
    task_loras: list[TaskLora] = field(default_factory=list)

    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {
            "VISUAL": NormalizationMode.IDENTITY,
            "STATE": NormalizationMode.QUANTILES,
            "ACTION": NormalizationMode.QUANTILES,
        }
    )

    lr: float = 5e-4
    betas: tuple[float, float] = (0.9, 0.95)
    # Very small: in a stream of tasks, weight decay means forgetting.
    weight_decay: float = 1e-4
    grad_clip: float = 1.0
    warmup_steps: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        task_lora.check(self.task_loras)
        if self.n_obs_steps != 1:
            raise HoldfastError(f"nano reads one observation at a time, got n_obs_steps={self.n_obs_steps}.")
        for name in SIZES:
            check_size("nano", SIZES, name, getattr(self, name))
        if self.n_action_steps > self.chunk_size:
            raise HoldfastError(
                f"n_action_steps={self.n_action_steps} exceeds chunk_size={self.chunk_size}: "
                "only predicted steps can be executed."
            )
        if self.image_size % STRIDE:
            raise HoldfastError(f"image_size must be a multiple of {STRIDE}, got {self.image_size}.")
        if self.width % (4 * GROUPS):
            raise HoldfastError(f"width must be a multiple of {4 * GROUPS}, got {self.width}.")
        if self.width % self.heads:
            raise HoldfastError(f"heads={self.heads} does not divide width={self.width}.")
        if not 0 <= self.state_noise < math.inf:
            raise HoldfastError(f"state_noise must not be negative or infinite, got {self.state_noise}.")

    def validate_features(self) -> None:
        """Check that the features of the dataset or robot are ones `nano` can be built for.

        Raises:
            HoldfastError: A camera, the state or the action is missing or of a wrong shape, or relative actions
                cannot be told from absolute ones.
        """
        if not self.image_features:
            raise HoldfastError(f"nano needs at least one camera, the inputs are {sorted(self.input_features or {})}.")
        for name, feature in self.image_features.items():
            if len(feature.shape) != 3 or feature.shape[0] != 3:
                raise HoldfastError(f"Camera {name!r} must have shape (3, height, width), got {tuple(feature.shape)}.")
        if self.robot_state_feature is None:
            raise HoldfastError(f"nano needs 'observation.state', the inputs are {sorted(self.input_features or {})}.")
        if self.action_feature is None:
            raise HoldfastError(f"nano needs 'action', the outputs are {sorted(self.output_features or {})}.")
        state_dim, action_dim = self.robot_state_feature.shape[0], self.action_feature.shape[0]
        if self.relative_to is not None:
            check_places("nano", self.relative_to, state_dim, action_dim)
        if self.use_relative_actions:
            self._validate_relative_actions(state_dim, action_dim)

    def _validate_relative_actions(self, state_dim: int, action_dim: int) -> None:
        if self.relative_to is None and action_dim > state_dim:
            raise HoldfastError(
                f"Relative actions need a state for every action dimension, got {state_dim} for {action_dim}. "
                "Set use_relative_actions=false."
            )
        names = self.action_feature_names
        if self.relative_exclude_joints and (names is None or len(names) != action_dim):
            raise HoldfastError(
                f"relative_exclude_joints={self.relative_exclude_joints} needs the names of all {action_dim} action "
                f"dimensions, got action_feature_names={names}. Name them, or set relative_exclude_joints=[]."
            )

    @property
    def observation_delta_indices(self) -> None:
        """Only the current observation."""
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        """The chunk starts at the current step."""
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        """No rewards."""
        return None

    def get_optimizer_preset(self) -> AdamWConfig:
        """AdamW as used by stock `lerobot-train`."""
        return AdamWConfig(lr=self.lr, betas=self.betas, weight_decay=self.weight_decay, grad_clip_norm=self.grad_clip)

    def get_scheduler_preset(self) -> CosineAnnealingWithWarmupSchedulerConfig:
        """Warmup, then a cosine to zero at the last training step."""
        # Not LeRobot's CosineDecayWithWarmup: in a run shorter than its decay it scales the warmup away.
        return CosineAnnealingWithWarmupSchedulerConfig(num_warmup_steps=self.warmup_steps)

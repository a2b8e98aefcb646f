"""Configuration of `pi05_fast`, and the checks before it is built."""

import math
from dataclasses import dataclass, field

from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature, PreTrainedConfig
from lerobot.optim import AdamWConfig
from lerobot.optim.schedulers import CosineAnnealingWithWarmupSchedulerConfig
from lerobot.utils.constants import ACTION, OBS_STATE

from holdfast.core.errors import HoldfastError, unknown
from holdfast.policies import task_lora
from holdfast.policies.bounds import check_places, check_size
from holdfast.policies.task_lora import TaskLora

PALIGEMMA = "google/paligemma-3b-pt-224"
RECOMPUTE = ("auto", "never", "always")
SIZES = {
    "chunk_size": (1, 1024),
    "n_action_steps": (1, 1024),
    "num_inference_steps": (1, 1000),
    "tokenizer_max_length": (1, 2048),
    "prompt_bucket": (1, 2048),
    "lora_rank": (0, 4096),
    "max_state_dim": (1, 1024),
    "max_action_dim": (1, 1024),
    "width": (1, 2**15),
    "mlp_dim": (1, 2**17),
    "depth": (1, 256),
    "heads": (1, 256),
    "head_dim": (2, 1024),
    "vocabulary": (2, 2**20),
    "expert_width": (2, 2**15),
    "expert_mlp_dim": (1, 2**17),
    "vision_width": (1, 2**15),
    "vision_mlp_dim": (1, 2**17),
    "vision_layers": (1, 256),
    "vision_heads": (1, 256),
    "patch_size": (1, 256),
}
_LARGEST_IMAGE = 1024  # pixels of a side


@PreTrainedConfig.register_subclass("pi05_fast")
@dataclass
class Pi05FastConfig(PreTrainedConfig):
    """Configuration of `pi05_fast`; the sizes are those of the published weights unless changed."""

    # Steps predicted at once, and how many of them are executed before the next prediction.
    chunk_size: int = 50
    n_action_steps: int = 50
    # Euler steps from noise to actions.
    num_inference_steps: int = 10

    # The 256-bin state in the prompt, as LeRobot writes it. Off, as in the paper, the policy does not see the state.
    state_in_prompt: bool = True
    # A local folder or a hub id. On the hub its licence has to be accepted once.
    tokenizer_name: str = PALIGEMMA
    tokenizer_max_length: int = 200
    # In training, prompts are padded to a multiple of this instead of their maximum length.
    prompt_bucket: int = 16

    # Joint targets relative to the state in which the chunk was predicted. Dimensions whose name contains one of
    # `relative_exclude_joints` stay absolute; the names come from the dataset.
    use_relative_actions: bool = False
    relative_exclude_joints: list[str] = field(default_factory=lambda: ["gripper"])
    action_feature_names: list[str] | None = None
    # The state dimension of every action dimension, -1 for none; None if both have the same dimensions.
    relative_to: list[int] | None = None

    # Above 0, the weights are frozen and only adapters of this rank learn, beside every layer's matrices.
    lora_rank: int = 0
    # Layers that recompute their activations: auto (as many as the GPU's memory makes necessary), never, always.
    recompute: str = "auto"
    # Compile layers at the first training step on a GPU.
    compile: bool = True

    max_state_dim: int = 32
    max_action_dim: int = 32
    image_resolution: tuple[int, int] = (224, 224)

    # Sizes: language model, action expert (as deep, with the same heads), vision tower.
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
    vision_heads: int = 16
    patch_size: int = 14

    # Flow matching: times are Beta(alpha, 1), scaled to leave out the very end; they are embedded as sines and cosines.
    time_sampling_beta_alpha: float = 1.5
    time_sampling_scale: float = 0.999
    time_sampling_offset: float = 0.001
    min_period: float = 4e-3
    max_period: float = 4.0

    # The tasks that have a LoRA of their own, in order. Set by --method=adapters: all other weights are frozen.
    task_loras: list[TaskLora] = field(default_factory=list)

    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {
            "VISUAL": NormalizationMode.IDENTITY,
            "STATE": NormalizationMode.QUANTILES,
            "ACTION": NormalizationMode.QUANTILES,
        }
    )

    optimizer_lr: float = 2.5e-5
    optimizer_betas: tuple[float, float] = (0.9, 0.95)
    optimizer_weight_decay: float = 0.01
    optimizer_grad_clip_norm: float = 1.0
    scheduler_warmup_steps: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        task_lora.check(self.task_loras)
        if self.n_obs_steps != 1:
            raise HoldfastError(f"pi05_fast reads one observation at a time, got n_obs_steps={self.n_obs_steps}.")
        for name in SIZES:
            check_size("pi05_fast", SIZES, name, getattr(self, name))
        if self.n_action_steps > self.chunk_size:
            raise HoldfastError(
                f"n_action_steps must be from 1 to chunk_size={self.chunk_size}, got {self.n_action_steps}."
            )
        height, width = self.image_resolution
        if height != width or height % self.patch_size or not 1 <= height <= _LARGEST_IMAGE:
            raise HoldfastError(
                f"image_resolution must be a square of multiples of {self.patch_size} up to {_LARGEST_IMAGE}, got "
                f"{self.image_resolution}."
            )
        if not 0 < self.min_period < self.max_period < math.inf:
            raise HoldfastError(
                f"min_period must be above 0 and below max_period, got {self.min_period} and {self.max_period}."
            )
        if self.recompute not in RECOMPUTE:
            raise unknown("--policy.recompute", self.recompute, RECOMPUTE)
        if self.expert_width % 2 or self.head_dim % 2:
            raise HoldfastError(f"expert_width={self.expert_width} and head_dim={self.head_dim} must be even.")

    @property
    def image_tokens(self) -> int:
        """Tokens one camera's image becomes."""
        return int((self.image_resolution[0] // self.patch_size) ** 2)

    def validate_features(self) -> None:
        """Check that the features of the dataset or robot are ones the policy can be built for."""
        if not self.image_features:
            raise HoldfastError(f"pi05_fast needs a camera, the inputs are {sorted(self.input_features or {})}.")
        # Stock LeRobot fills in what is missing, and so do folders it saved.
        self.input_features.setdefault(OBS_STATE, PolicyFeature(FeatureType.STATE, (self.max_state_dim,)))
        self.output_features.setdefault(ACTION, PolicyFeature(FeatureType.ACTION, (self.max_action_dim,)))
        for name, size, limit in (
            ("state", self.robot_state_feature.shape[0], self.max_state_dim),
            ("action", self.action_feature.shape[0], self.max_action_dim),
        ):
            if size > limit:
                raise HoldfastError(f"pi05_fast holds {limit} {name} dimensions (max_{name}_dim), got {size}.")
        dimensions = self.action_feature.shape[0]
        if self.relative_to is not None:
            check_places("pi05_fast", self.relative_to, self.robot_state_feature.shape[0], dimensions)
        named = self.action_feature_names is not None and len(self.action_feature_names) == dimensions
        if self.use_relative_actions and self.relative_exclude_joints and not named:
            raise HoldfastError(
                f"relative_exclude_joints={self.relative_exclude_joints} needs the names of all {dimensions} action "
                f"dimensions, got action_feature_names={self.action_feature_names}."
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
        return AdamWConfig(
            lr=self.optimizer_lr,
            betas=self.optimizer_betas,
            weight_decay=self.optimizer_weight_decay,
            grad_clip_norm=self.optimizer_grad_clip_norm,
        )

    def get_scheduler_preset(self) -> CosineAnnealingWithWarmupSchedulerConfig:
        """Warmup, then a cosine to zero at the last training step."""
        return CosineAnnealingWithWarmupSchedulerConfig(num_warmup_steps=self.scheduler_warmup_steps)

"""Any LeRobot policy behind one small interface: build it, compute its loss, save and load it."""

from __future__ import annotations

import holdfast.policies.lerobot_import  # before all that imports LeRobot

# isort: split
import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import draccus
import torch
from lerobot.configs import NormalizationMode, PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_policy
from safetensors import SafetensorError
from safetensors.torch import load_file

import holdfast.policies.nano.configuration_nano
import holdfast.policies.pi05.configuration_pi05  # noqa: F401  registers policies even if no plugin is installed
from holdfast import catalog
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.shapes import check_shapes
from holdfast.data.lerobot.source import Source, camera_name, is_image
from holdfast.data.lesson import Layout, Pairing, pair
from holdfast.data.loader import Batch
from holdfast.data.resize import Resize
from holdfast.norm.strategies import Space
from holdfast.policies import saved_folder, transforms
from holdfast.policies.batch_slice import BatchSlice
from holdfast.policies.config import PolicyChoice, resolve
from holdfast.policies.flow import Flow, mean_square
from holdfast.policies.pi05.weights import locate
from holdfast.policies.relative import relative_dimensions, settle_relative
from holdfast.policies.size_limit import SizeLimit, stored_shapes

WEIGHTS = "model.safetensors"
# Policies that read their cameras as one sequence, so that the order matters, and whose base knows the released order.
ORDERED = ("pi05", "pi05_fast")


@dataclass(frozen=True)
class Loss:
    """A batch's loss. `elements` (n, chunk, dimensions) and their mask exist when the policy offers them.

    `extra` is the part of `total` that a method of continual learning has added. `flow` are the velocities behind the
    elements, for policies that offer them.
    """

    total: torch.Tensor
    elements: torch.Tensor | None = None
    mask: torch.Tensor | None = None
    extra: torch.Tensor | None = None
    flow: Flow | None = None

    def detach(self) -> Loss:
        """The same values, detached from the graph."""
        elements = None if self.elements is None else self.elements.detach()
        extra = None if self.extra is None else self.extra.detach()
        return Loss(self.total.detach(), elements, self.mask, extra)


class Adapter:
    """A LeRobot policy, its config, and the layout of its samples."""

    def __init__(self, policy: Any, names: tuple[str, ...]) -> None:
        self.policy = policy
        self.config = policy.config
        self.names = names
        observed = self.config.observation_delta_indices
        relative = relative_dimensions(self.config, names)
        if relative.any() and observed is not None:
            raise HoldfastError(
                f"Policy {self.config.type!r} reads several observations; relative actions need one. Set "
                "--policy.n_obs_steps=1 or --policy.use_relative_actions=false."
            )
        places = getattr(self.config, "relative_to", None)
        self.layout = Layout(
            tuple(observed) if observed is not None else None,
            tuple(self.config.action_delta_indices),
            relative,
            tuple(places) if places else None,
        )

    @property
    def resize(self) -> Resize | None:
        """How the policy resizes its images, so that this can be done once in advance; None: it gets them as recorded.

        Only known policies are listed: a wrong guess would train on other pixels than the robot's.
        """
        if self.config.type == "nano":
            return Resize(self.config.image_size, self.config.image_size, antialias=True)
        if self.config.type in ("pi0", "pi05", "pi05_fast", "pi0_fast"):
            height, width = self.config.image_resolution
            return Resize(height, width, antialias=False)
        if self.config.type == "smolvla" and self.config.resize_imgs_with_padding is not None:
            width, height = self.config.resize_imgs_with_padding
            return Resize(height, width, antialias=False)
        return None

    @property
    def knows_elements(self) -> bool:
        """Whether the policy gives its loss unreduced, so that it can be masked and split by task and arm.

        Such a policy also draws its noise row by row, so a slice gets the same noise as in the whole batch.
        """
        return self.gives("elements")

    @property
    def knows_velocity(self) -> bool:
        """Whether the policy matches a flow and gives its velocities, so that a teacher's can be compared with them."""
        return self.gives("velocities")

    def gives(self, needed: str) -> bool:
        """Whether the policy gives what a method reads of it beside its loss: see `methods.method.Needs`."""
        hooks = {"elements": "loss_elements", "velocities": "velocity_errors", "loras": "add_task_lora"}
        return needed == "nothing" or hasattr(self.policy, hooks[needed])

    @property
    def cuda_graphable(self) -> bool:
        """Whether its loss can be captured as a CUDA graph; the policy declares it with an attribute of this name."""
        return bool(getattr(self.policy, "cuda_graphable", False))

    def loss(self, batch: Batch, active: torch.Tensor | None, batch_slice: BatchSlice | None = None) -> Loss:
        """Loss of a preprocessed batch; padded steps and, with `active` (n, dimensions), idle dimensions are left out.

        A slice of a larger batch draws the same noise as in that batch, if the policy gives its loss unreduced.
        """
        if not self.knows_elements:
            total, _ = self.policy(batch)
            return Loss(total)
        flow = self._flow(batch, batch_slice) if self.knows_velocity else None
        rows = len(batch["action_is_pad"])
        elements = mean_square(flow.errors, rows) if flow else self.policy.loss_elements(batch, batch_slice)
        mask = (~batch["action_is_pad"])[..., None].expand_as(elements)
        if active is not None:
            mask = mask & active[:, None]
        mask = mask.to(elements.dtype)
        return Loss((elements * mask).sum() / mask.sum().clamp_min(1), elements, mask, flow=flow)

    def _flow(self, batch: Batch, batch_slice: BatchSlice | None) -> Flow:
        drawn = self.policy.draw_noise(batch, batch_slice)
        errors = self.policy.velocity_errors(batch, drawn)
        return Flow(errors, drawn, batch, self.policy, torch.is_autocast_enabled(errors.device.type))

    def masks_padding(self, batch: Batch) -> bool:
        """Test whether the loss leaves out steps flagged as padding: flag half of them and compare."""
        if self.knows_elements:
            return True
        none = torch.zeros_like(batch["action_is_pad"])
        half = none.clone()
        half[:, half.shape[1] // 2 :] = True
        losses = []
        self.policy.eval()  # a probe must not move the running statistics of a batch norm
        with torch.no_grad():
            for flags in (none, half):
                torch.manual_seed(0)
                losses.append(self.policy({**batch, "action_is_pad": flags})[0])
        self.policy.train()
        return not torch.equal(losses[0], losses[1])

    def save(self, folder: Path, space: Space) -> None:
        """Write a folder that stock LeRobot loads: weights, config, and the pipelines with their statistics."""
        if hasattr(self.policy, "set_anchor"):
            self.policy.set_anchor(space.state.q01, space.state.q99, space.action.q01, space.action.q99)
        pre, post = transforms.build(self.config, space)
        self.policy.save_pretrained(folder)
        pre.save_pretrained(folder)
        post.save_pretrained(folder)


def build(
    choice: PolicyChoice,
    source: Source,
    device: str,
    seed: int,
    pairing: Pairing | None = None,
    say: Callable[[str], None] = lambda said: None,
) -> Adapter:
    """Build the policy a run starts from; with the same seed it is the same to the last bit.

    Args:
        choice: Which policy.
        source: The dataset whose dimensions and cameras it is built for.
        device: Where it computes.
        seed: Seed of its initial weights.
        pairing: Which state dimensions its relative actions count from; None: those of the same name.
        say: Called with a message if relative actions do not fit the dataset.
    """
    saved_folder.find_plugins()
    if choice.path:
        choice = replace(choice, path=resolve(choice.path))
    config = _config(choice, device, [camera.key for camera in source.cameras])
    config.push_to_hub = False
    # All policies use the same normalization, which is checked and stored.
    config.normalization_mapping = {
        **config.normalization_mapping,
        "STATE": NormalizationMode.QUANTILES,
        "ACTION": NormalizationMode.QUANTILES,
    }
    if hasattr(config, "do_mask_loss_for_padding") and "do_mask_loss_for_padding" not in choice.options:
        config.do_mask_loss_for_padding = True
    asked = "use_relative_actions" in choice.options
    settle_relative(config, source.action_names, pairing or pair(source), asked, say)
    if choice.path:
        config.pretrained_path = choice.path
    policy = _make(config, source, seed)
    if choice.path and not hasattr(policy, "read_weights"):  # otherwise they were loaded strictly already
        load_strictly(policy, locate(choice.path))
    return Adapter(policy, source.action_names)


def _make(config: Any, source: Source, seed: int) -> Any:
    """LeRobot's policy for a dataset, with initial weights from the seed."""
    metadata = source.metadata()
    if config.type in ORDERED:
        order_cameras(metadata.features)
    saved_folder.never_offer_code()
    limit = SizeLimit(locate(config.pretrained_path)) if config.pretrained_path else contextlib.nullcontext()
    torch.manual_seed(seed)
    try:
        with contextlib.redirect_stdout(io.StringIO()), limit:  # LeRobot prints while it loads
            policy = make_policy(config, ds_meta=metadata)
    except (ValueError, ImportError, OSError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        hint = ""
        if getattr(config, "pretrained_backbone_weights", None) and "urlopen" in str(error):
            hint = " Without network, start its vision backbone at random: --policy.pretrained_backbone_weights=null."
        reason = " ".join(str(error).split())
        if "size mismatch for" in reason:  # torch lists every weight; the first one tells enough
            first = reason.split("size mismatch for ")[1].rstrip(". ")
            reason = f"the saved weights have other shapes than the dataset and the options ask for ({first})"
            hint = f" To start from random weights, give --policy.type={config.type} without --policy.path."
        raise HoldfastError(f"Policy {config.type!r} cannot be built for {source.dataset}: {reason}.{hint}") from None
    return policy


def order_cameras(features: dict[str, Any]) -> None:
    """Put the catalog's cameras first, in the order of the released data; others keep their order behind them.

    The policy's config takes the order over, so later stages and robots keep it whatever their own order is.
    """
    rank = {camera.name: place for place, camera in enumerate(catalog.cameras())}
    cameras = [key for key in features if is_image(key)]
    for key in sorted(cameras, key=lambda key: rank.get(camera_name(key), len(rank))):
        features[key] = features.pop(key)


def load(folder: Path, names: tuple[str, ...], device: str) -> Adapter:
    """Load a policy folder that a run has saved."""
    saved_folder.find_plugins()
    config = saved_folder.load_config(folder, [f"--device={device}"])
    try:
        with SizeLimit(folder / WEIGHTS):
            policy = get_policy_class(config.type)(config=config)
    except HoldfastError:
        raise
    except Exception as error:  # whatever a policy makes of a config it was not saved with
        raise HoldfastError(f"The policy in {folder} cannot be built from its config.json: {error!r}.") from error
    load_strictly(policy, folder / WEIGHTS)
    return Adapter(policy.to(device).eval(), names)


def load_strictly(policy: Any, file: Path) -> None:
    """Load weights; a missing or unexpected one is an error that names it, never a silent random start."""
    if hasattr(policy, "read_weights"):  # equally strict, and knows the names in files of other code
        policy.read_weights(file)
        return
    found, own = stored_shapes(file), policy.state_dict()
    # Tied tensors are stored once: a missing key is fine when another key shares its memory.
    pointers = {own[key].data_ptr() for key in found if key in own}
    wanted = {k: tuple(v.shape) for k, v in own.items() if k in found or v.data_ptr() not in pointers}
    check_shapes(found, wanted, file, "weights")
    try:
        policy.load_state_dict(load_file(file), strict=False)
    except (OSError, SafetensorError) as error:
        raise HoldfastError(f"The weights {file} cannot be read: {error}.") from None


def _config(choice: PolicyChoice, device: str, cameras: list[str]) -> Any:
    # The device is always set: a config without one looks for a GPU and warns.
    options = {**choice.options, "device": device}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with saved_folder.explained(choice.path or choice.type, arguments):
        if choice.path and choice.type == "pi05_fast":
            from holdfast.policies.pi05.stock import start_config  # imports transformers, which takes seconds

            return start_config(choice.path, options, cameras)
        if choice.path:
            return saved_folder.load_config(choice.path, arguments)
        known = PreTrainedConfig.get_known_choices()
        if choice.type not in known:
            raise unknown("policy type", choice.type, sorted(known))
        return draccus.parse(known[choice.type], args=arguments)

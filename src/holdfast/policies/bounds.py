"""Bounds for the numbers in a policy's config: of our own policies by size, of all others by what any policy needs.

A config may come from anywhere, and a few bytes of it can ask for any number of steps or tokens. What it asks for at
every observation is not in the weights, with which the size of the network is compared. Much of it is spent outside
torch, where `size_limit` counts nothing, and only when the policy answers. So numbers are compared with bounds, far
beyond any useful network, before they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.header import check_pictures

type Bounds = Mapping[str, tuple[int, int]]  # smallest and largest value, by name

_STEPS = frozenset({
    "action_chunk_size", "action_horizon", "action_num_inference_steps", "cem_iterations", "chunk_size",
    "frame_chunk_size", "horizon", "n_action_repeats", "n_action_steps", "n_gaussian_samples", "n_obs_steps",
    "n_pi_samples", "num_denoise_steps", "num_denoising_steps", "num_flow_timesteps", "num_inference_steps",
    "num_inference_timesteps", "num_integration_steps", "num_steps", "num_train_timesteps",
})  # fmt: skip
_TOKENS = frozenset({
    "action_max_seq_len", "context_len", "discrete_generation_max_steps", "gpt_block_size", "len_soft_prompts",
    "max_action_tokens", "max_decoding_steps", "max_len_seq", "max_length", "max_sequence_length", "max_text_length",
    "rope_max_seq_len", "tokenizer_max_len", "tokenizer_max_length",
})  # fmt: skip
_WIDE = ("dim", "dims", "hidden", "model", "size", "width")  # last words of widths of networks
MOST_STEPS, MOST_TOKENS, WIDEST, LARGEST = 1024, 4096, 2**14, 2**20
_OF_TRAINING = ("optimizer_", "scheduler_", "online_", "offline_")  # a policy that acts does not use them
_CHANNELS = 4
BOUNDED = ("nano", "pi05_fast")  # policies whose configs have bounds of their own


def check_size(policy: str, bounds: Bounds, name: str, value: object) -> None:
    """Refuse a size of a policy that is out of its bounds."""
    lowest, highest = bounds[name]
    if type(value) is not int or not lowest <= value <= highest:
        raise HoldfastError(f"{policy}'s {name} must be {lowest} to {highest}, got {value!r:.80}.")


def check_places(policy: str, places: list[int], states: int, actions: int) -> None:
    """Refuse a `relative_to` that does not give every action dimension a state dimension, or -1 for none."""
    if len(places) != actions or not all(type(place) is int and -1 <= place < states for place in places):
        raise HoldfastError(
            f"{policy}'s relative_to must have a state from 0 to {states - 1}, or -1 for none, for each of {actions} "
            f"action dimensions, got {places!r:.80}."
        )


def check_numbers(settings: dict[str, Any], where: str) -> None:
    """Refuse whole numbers that no policy needs, at any depth; `where` names the file."""
    for name, value in _named(settings):
        if not isinstance(value, int) or name.startswith(_OF_TRAINING):
            continue
        lowest, highest = _bounds(name)
        if not lowest <= value <= highest:
            raise HoldfastError(f"{where} sets {name} to {value}; it must be from {lowest:,} to {highest:,}.")


def _bounds(name: str) -> tuple[int, int]:
    if name in _STEPS or name in _TOKENS:
        return 1, MOST_STEPS if name in _STEPS else MOST_TOKENS
    highest = WIDEST if name.rpartition("_")[2] in _WIDE else LARGEST
    return -highest, highest


def check_cameras(config: dict[str, Any], where: str) -> None:
    """Refuse cameras whose pictures have no size, or are huge."""
    features = config.get("input_features")
    sizes = {}
    for name, feature in features.items() if isinstance(features, dict) else ():
        match feature:
            case {"type": "VISUAL", "shape": [int() as channels, int() as height, int() as width]}:
                sizes[name] = height, width
                known = 1 <= channels <= _CHANNELS
            case _:
                known = not isinstance(feature, dict) or feature.get("type") != "VISUAL"
        if not known:
            raise HoldfastError(
                f"{where}: the shape of camera {name!r} must be channels (1 to {_CHANNELS}), height and width, got "
                f"{str(feature['shape'])[:80] if 'shape' in feature else 'none'}."
            )
    check_pictures(sizes, where)


def _named(settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value that is no list or table, with the name of the setting that it belongs to."""
    for name, value in settings.items():
        entries = [value]
        while entries:
            entry = entries.pop()
            if isinstance(entry, dict):
                yield from _named(entry)
            elif isinstance(entry, list):
                entries += entry
            else:
                yield name, entry

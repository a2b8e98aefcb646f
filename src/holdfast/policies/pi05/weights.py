"""pi0.5's weights as files: what LeRobot and openpi publish, and what stock LeRobot's `pi05` reads.

Modules are named as in the published files. Two matrices are special. PaliGemma's word embeddings are its output layer
too, and files hold one or both; here they are kept once and written as `lm_head`, from which LeRobot fills both. The
expert's `lm_head` is never used: reading skips it, and zeros are written, because stock LeRobot requires it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError

FILE = "model.safetensors"
PREFIX = "model."  # LeRobot's name for the network inside its policy
EMBEDDED = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
HEAD = "paligemma_with_expert.paligemma.lm_head.weight"
UNUSED_HEAD = "paligemma_with_expert.gemma_expert.lm_head.weight"


def locate(path: str | Path) -> Path:
    """The file of weights in a folder, at a hub id, or the file itself."""
    local = Path(path)
    if local.is_dir():
        local = local / FILE
    if local.suffix == ".safetensors" or local.exists():
        if not local.is_file():
            raise HoldfastError(f"There are no weights at {local}: give a folder that holds {FILE}, or a hub id.")
        return local
    try:
        return Path(hf_hub_download(str(path), FILE))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise HoldfastError(
            f"{path} is neither a local folder nor available on the hub: {reason} Download it where there is "
            f"network (`hf download {path} --local-dir FOLDER`) and give the folder."
        ) from None


@torch.no_grad()
def read(network: nn.Module, file: Path) -> None:
    """Load weights; missing, unexpected or misshapen ones are an error that lists them."""
    own = _without_adapters(network.state_dict())
    try:
        with safe_open(file, framework="pt") as stored:
            names = {key.removeprefix(PREFIX): key for key in stored.keys()}  # noqa: SIM118  not a dict
            if EMBEDDED not in names and HEAD in names:
                names[EMBEDDED] = names[HEAD]
            for extra in (HEAD, UNUSED_HEAD):
                names.pop(extra, None)
            shapes = {name: tuple(stored.get_slice(key).get_shape()) for name, key in names.items()}
            _compare(file, {name: tuple(value.shape) for name, value in own.items()}, shapes)
            for name, key in names.items():
                own[name].copy_(stored.get_tensor(key))
    except (OSError, SafetensorError) as error:
        raise HoldfastError(f"The weights {file} cannot be read: {error}.") from None


def write(state: dict[str, Tensor], file: Path) -> None:
    """Write weights, by published name, as a file that stock LeRobot's `pi05` loads without warnings."""
    state = {name: value.detach().contiguous().cpu() for name, value in state.items()}
    state[HEAD] = state.pop(EMBEDDED)
    expert = state["action_in_proj.weight"].shape[0]
    state[UNUSED_HEAD] = torch.zeros(state[HEAD].shape[0], expert, dtype=torch.bfloat16)
    save_file({PREFIX + name: value for name, value in state.items()}, file, metadata={"format": "pt"})


@torch.no_grad()
def plain_state(network: nn.Module, gathered: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The network's weights by published name, with adapters merged into them.

    Args:
        network: The network.
        gathered: Its whole state dict, if the network itself holds only shards.
    """
    every = network.state_dict() if gathered is None else gathered
    state = _without_adapters(every)
    for name, module in network.named_modules():
        if hasattr(module, "lora_A"):
            first, second = (every[f"{name}.lora_{part}.default.weight"].float() for part in "AB")
            state[f"{name}.weight"] = state[f"{name}.weight"].float() + module.scaling["default"] * (second @ first)
    return state


def _without_adapters(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Published names without the wrappers that adapters put around modules, and without the adapters' weights."""
    return {key.replace(".base_layer.", "."): value for key, value in state.items() if ".lora_" not in key}


def _compare(file: Path, own: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> None:
    problems = []
    for what, names in (
        ("lacks", sorted(own.keys() - found.keys())),
        ("has unexpected", sorted(found.keys() - own.keys())),
        ("has other shapes of", sorted(key for key in own.keys() & found.keys() if own[key] != found[key])),
    ):
        if names:
            problems.append(f"{what} {len(names)} weights: {', '.join(_listed(names, own, found))}")
    if problems:
        raise HoldfastError(f"{file} is not a pi0.5 of this size: it " + "; it ".join(problems) + ".")


def _listed(names: list[str], own: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> Iterator[str]:
    for name in names:
        yield f"{name} {found.get(name, own.get(name))}"

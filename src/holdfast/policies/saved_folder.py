"""The only way from a policy's saved files to LeRobot's loaders: files are checked here before LeRobot reads them.

LeRobot trusts what it reads. A pipeline's step may name any Python class and the arguments to call it with; a config
may name a repository whose code is run, or an adapter to load on top. A folder may come from anywhere, so only what is
known to run no code is passed on. The checks themselves need neither LeRobot nor torch.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.core import outside
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import near_path
from holdfast.policies.bounds import BOUNDED, check_cameras, check_numbers

CONFIG = "config.json"
POLICY, NORMALIZATION = "policy", "normalization.json"  # in a stage's checkpoint: the policy, and its statistics
PREPROCESSOR, POSTPROCESSOR = "policy_preprocessor.json", "policy_postprocessor.json"
ROUTER = "holdfast_task_router"  # the step that chooses between a policy's LoRAs
_STATE = ".safetensors"
_NAMES_CODE = "auto_map"  # the key under which files of transformers name modules beside them

# Steps that LeRobot's policies and ours save. Its other steps drive robots, environments or models of their own.
_STEPS = frozenset({
    "absolute_actions_processor", "action_tokenizer_processor", "device_processor", "normalizer_processor",
    "relative_actions_processor", "rename_observations_processor", "smolvla_new_line_processor", "to_batch_processor",
    "tokenizer_processor", "unnormalizer_processor",
    "eo1_conversation_template_processor", "eo1_qwen_processor",
    "evo1_action_processor", "evo1_pad_action_processor", "evo1_pad_state_processor",
    "fastwam_action_toggle_processor",
    "groot_action_unpack_unnormalize_v2", "groot_n1_7_action_decode_v1", "groot_n1_7_pack_inputs_v1",
    "groot_n1_7_vlm_encode_v1",
    "molmoact2_action_frame_transform", "molmoact2_clamp_action", "molmoact2_clamp_normalized",
    "molmoact2_masked_normalizer", "molmoact2_masked_unnormalizer", "molmoact2_pack_inputs",
    "molmoact2_state_frame_transform",
    "pi05_prepare_state_tokenizer_processor_step", "pi0_fast_prepare_state_tokenizer_processor_step",
    "pi0_new_line_processor",
    "vla_jepa_binarize_gripper", "vla_jepa_clip_actions", "vla_jepa_pre_snap_gripper",
    "wall_x_task_processor",
    "xvla_add_domain_id", "xvla_image_scale", "xvla_image_to_float", "xvla_imagenet_normalize",
    "xvla_rotation_6d_to_axis_angle",
    "holdfast_paired_relative_actions", ROUTER, "nano_tokenizer", "pi05_fast_prompt",
})  # fmt: skip
# Fields by which LeRobot runs a repository's code (trust_remote_code), of policy types and of steps. Only the values
# that LeRobot itself fills in are accepted.
_CODE = {
    "gaussian_actor": ("vision_encoder_name",),
    "groot": ("base_model_path",),
    "pi0_fast": ("action_tokenizer_name", "text_tokenizer_name"),
    "wall_x": ("action_tokenizer_path",),
    "action_tokenizer_processor": ("action_tokenizer_name", "paligemma_tokenizer_name"),
    "groot_n1_7_vlm_encode_v1": ("model_name",),
}
_LEROBOTS = (
    "google/paligemma-3b-pt-224",
    "lerobot/fast-action-tokenizer",
    "nvidia/Cosmos-Reason2-2B",
    "nvidia/GR00T-N1.7-3B",
)


def policy_folder(folder: Path) -> Path:
    """Where the policy of a stage's checkpoint is, or of a plain folder of a LeRobot policy; an error if none is."""
    found = folder / POLICY if (folder / NORMALIZATION).exists() else folder
    if not (found / CONFIG).exists():
        near = "" if folder.exists() else near_path(folder)
        raise HoldfastError(
            f"{folder} holds no policy.{near} Give a stage's checkpoint, like runs/NAME/stages/01-TASK/checkpoint, or "
            f"the folder of a LeRobot policy with its {CONFIG}."
        )
    return found


def check_folder(folder: Path) -> None:
    """Refuse a policy's folder that could run code when LeRobot loads it."""
    read_config(folder / CONFIG)
    for place in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        _check_no_code(place)
    for name in (PREPROCESSOR, POSTPROCESSOR):
        if os.path.lexists(folder / name):
            read_pipeline(folder / name)


def read_config(file: Path) -> dict[str, Any]:
    """The content of a policy's config.json, checked."""
    content = outside.read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise HoldfastError(f"{file} is not the config of a LeRobot policy: it has no 'type'.")
    if content.get("use_peft"):
        raise HoldfastError(
            f"{file} belongs to a PEFT adapter, which is not loaded: its files name other models and code. Merge the "
            "adapter into its policy first."
        )
    _check_code(content["type"], content, str(file))
    if content["type"] not in BOUNDED:
        check_numbers(content, str(file))
    check_cameras(content, str(file))
    return content


def read_pipeline(file: Path) -> dict[str, Any]:
    """The content of a saved pipeline, checked: each of its `steps` has a known name and its state beside the file."""
    content = outside.read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("steps"), list):
        raise HoldfastError(f"{file} is not a pipeline of LeRobot: it has no list of 'steps'.")
    for number, step in enumerate(content["steps"], 1):
        _check_step(step, f"{file}, step {number},")
    return content


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Any:
    """LeRobot's config of a saved policy.

    Args:
        path: A folder or a hub id.
        overrides: The user's settings, as flags: `--device=cpu`.
    """
    from lerobot.configs import PreTrainedConfig

    file = find_config(path)
    if file is None:
        raise HoldfastError(f"{path} holds no policy: there is no {CONFIG}.")
    content = read_config(file)
    kind = content["type"]
    known = PreTrainedConfig.get_known_choices()
    if kind not in known:
        raise HoldfastError(f"{file}: {unknown('policy type', kind, sorted(known))}")
    never_offer_code()
    with explained(path, overrides):
        config = PreTrainedConfig.from_pretrained(file.parent, cli_overrides=list(overrides))
    for name, value in content.items():
        if _is_number_as_text(value, getattr(config, name, None)):
            raise HoldfastError(f"{file} sets {name} to {str(value)[:80]!r}, which is text; it must be a number.")
    return config


def _is_number_as_text(stored: Any, read: Any) -> bool:
    """Whether LeRobot's parser has made a number of text, which no check of the file has seen."""
    if isinstance(stored, list) and isinstance(read, list | tuple):
        return any(map(_is_number_as_text, stored, read))
    return isinstance(stored, str) and isinstance(read, int | float)


def load_pipelines(config: Any, folder: Path) -> tuple[Any, Any]:
    """The pre- and post-processing that were saved with a policy, for the device of `config`."""
    from lerobot.policies.factory import make_pre_post_processors

    for name in (PREPROCESSOR, POSTPROCESSOR):
        _check_router(read_pipeline(folder / name)["steps"], config, folder / name)
    never_offer_code()
    here = {"device_processor": {"device": config.device}}  # not the device it was trained on
    try:
        return make_pre_post_processors(config, pretrained_path=str(folder), preprocessor_overrides=here)
    except Exception as error:
        raise HoldfastError(f"The pipelines in {folder} cannot be loaded: {_first_line(error)}") from error


def never_offer_code() -> None:
    """Make transformers refuse code beside a tokenizer or model, from now on.

    If LeRobot does not say whether to trust it, transformers asks at the terminal, and runs it after a `y`. No time to
    answer means no. Where LeRobot does trust code, `_CODE` restricts whose.
    """
    with contextlib.suppress(ImportError):
        from transformers import dynamic_module_utils

        dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0


def find_config(path: str | Path) -> Path | None:
    """The config of a policy in a folder, beside a file of weights or on the hub; None if it has none (openpi)."""
    local = Path(path)
    if os.path.exists(path):
        file = (local.parent if local.is_file() else local) / CONFIG
        return file if file.is_file() else None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        return Path(hf_hub_download(str(path), CONFIG))
    except EntryNotFoundError:
        return None
    except Exception as error:
        raise HoldfastError(
            f"{path} is neither a local folder nor available on the hub: {_first_line(error)}"
        ) from None


@contextlib.contextmanager
def explained(policy: object, flags: Sequence[str]) -> Iterator[None]:
    """Turn whatever LeRobot's parser raises or prints into one line."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            yield
        return
    except HoldfastError:
        raise
    except SystemExit:  # argparse inside draccus
        reason = complaint.getvalue().strip().split("\n")[-1]
    except Exception as error:
        reason = _first_line(error)
    raise HoldfastError(f"Policy {policy!r} cannot be configured with {' '.join(flags)}: {reason}")


def _check_step(step: Any, where: str) -> None:
    if not isinstance(step, dict) or not isinstance(step.get("config", {}), dict):
        raise HoldfastError(f"{where} must be an object with a 'registry_name' and a 'config'.")
    name, state = step.get("registry_name"), step.get("state_file")
    if "class" in step:
        raise HoldfastError(
            f"{where} names the class {str(step['class'])[:80]!r}, and loading it would run any code. Only steps that "
            "are registered under a name are loaded."
        )
    if not isinstance(name, str) or not (name in _STEPS or _is_from_plugin(name)):
        raise HoldfastError(
            f"{where} has the unknown name {str(name)[:80]!r}. Only steps of the policies of LeRobot, of Holdfast and "
            "of installed LeRobot plugins are loaded."
        )
    _check_code(name, step.get("config", {}), where)
    check_numbers(step.get("config", {}), where)
    tokenizer = step.get("config", {}).get("tokenizer_name")
    if isinstance(tokenizer, str) and os.path.isdir(tokenizer):
        _check_no_code(Path(tokenizer))
    if state is not None and (not isinstance(state, str) or Path(state).name != state or Path(state).suffix != _STATE):
        raise HoldfastError(
            f"{where} reads its state from {str(state)[:80]!r}, which must be the name of a {_STATE} file beside it."
        )


def _check_router(steps: Sequence[dict[str, Any]], config: Any, file: Path) -> None:
    """Refuse a pipeline that would ask a policy for LoRAs that it does not have."""
    own = [asdict(lora) for lora in getattr(config, "task_loras", ())]
    for step in steps:
        if step.get("registry_name") == ROUTER and step.get("config", {}).get("loras") != own:
            raise HoldfastError(f"{file} lists other LoRAs than the policy's {CONFIG}. They do not belong together.")


def _check_code(kind: str, settings: dict[str, Any], where: str) -> None:
    """Refuse settings that make LeRobot run code of a repository or folder other than those it uses itself."""
    for name in _CODE.get(kind, ()):
        value = settings.get(name)
        if value is not None and (value not in _LEROBOTS or os.path.exists(value)):
            raise HoldfastError(
                f"{where} sets {name} to {str(value)[:80]!r}, from where LeRobot would run code. Only "
                f"{', '.join(_LEROBOTS)} on the hub are trusted."
            )


def _check_no_code(folder: Path) -> None:
    """Refuse files of a tokenizer or model that name code: transformers refuses them too, but only when it loads."""
    for file in sorted(folder.glob(f"*{CONFIG}")):
        if _NAMES_CODE in outside.read_keys(file):
            raise HoldfastError(f"{file} names code to run ({_NAMES_CODE}), and code from a folder is never run.")


@cache
def find_plugins() -> None:
    """Let installed plugins register what they have, once: LeRobot looks through all installed packages."""
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()


def _is_from_plugin(name: str) -> bool:
    """Whether an installed plugin has registered a step: its code is there because somebody installed it."""
    from lerobot.processor import ProcessorStepRegistry

    find_plugins()
    if name not in ProcessorStepRegistry.list():
        return False
    return ProcessorStepRegistry.get(name).__module__.split(".")[0] not in ("lerobot", "holdfast")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__

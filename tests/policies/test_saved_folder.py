"""A policy's folder may come from anywhere: what could run code is refused before LeRobot's loaders see it."""

import ast
import json
import shutil
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest
from lerobot.configs import PreTrainedConfig
from lerobot.processor import ProcessorStepRegistry, VanillaObservationProcessorStep

from holdfast import catalog
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Question
from holdfast.embodiments import EMBODIMENTS
from holdfast.policies import adapter as adapters
from holdfast.policies.bounds import check_numbers
from holdfast.policies.config import SHIPPED
from holdfast.policies.pilot import Pilot
from holdfast.policies.saved_folder import POSTPROCESSOR, PREPROCESSOR, check_folder, load_pipelines, read_pipeline

NAMES = EMBODIMENTS["piper_x_pair"].names
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """A copy of the shipped policy without normalization.json, as any folder of a LeRobot policy."""
    return shutil.copytree(SHIPPED["nano-base"], tmp_path / "policy")


def change(file, **changes):
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def popen(marker):
    return {"class": "subprocess.Popen", "config": {"args": ["touch", str(marker)]}}


def act(folder):
    """Answer one question, as `holdfast rollout --policy` does."""
    pilot = Pilot(folder, NAMES, rows=1)
    images = {name: np.zeros((*pilot.size, 3), np.uint8) for name in pilot.cameras}
    return pilot.answer([Question(catalog.task("stack_bowls"), np.zeros(14, np.float32), images)])[0]


def test_the_shipped_policy_is_loaded_and_acts(folder):
    check_folder(folder)
    assert act(folder).shape[1] == 14


def test_a_pipeline_that_does_not_fit_is_told_in_one_line(folder):
    steps = json.loads((folder / PREPROCESSOR).read_text())["steps"]
    rename = {"registry_name": "rename_observations_processor", "config": {"rename_map": {"observation.state": "gone"}}}
    change(folder / PREPROCESSOR, steps=[rename, *steps])
    with pytest.raises(HoldfastError, match="cannot answer: KeyError"):
        act(folder)


@pytest.mark.parametrize("name", [PREPROCESSOR, POSTPROCESSOR])
def test_a_step_that_names_a_class_is_refused_and_runs_nothing(folder, tmp_path, name):
    steps = json.loads((folder / name).read_text())["steps"]
    change(folder / name, steps=[*steps, popen(tmp_path / "ran")])
    with pytest.raises(HoldfastError, match=rf"{name}, step {len(steps) + 1}, names the class 'subprocess\.Popen'"):
        act(folder)
    with pytest.raises(HoldfastError, match="names the class"):
        check_folder(folder)
    assert not (tmp_path / "ran").exists()


STEP = {"registry_name": "normalizer_processor", "config": {}}
BAD_STEPS = {
    "both": ({**STEP, "class": "subprocess.Popen"}, "names the class"),
    "class null": ({"class": None}, "names the class"),
    "unknown": ({"registry_name": "my_step"}, "unknown name 'my_step'"),
    "of LeRobot, but not of its policies": ({"registry_name": "reward_classifier_processor"}, "unknown name"),
    "no name": ({"config": {}}, "unknown name 'None'"),
    "a list as name": ({"registry_name": ["normalizer_processor"]}, "unknown name"),
    "no object": (["normalizer_processor"], "must be an object"),
    "config no object": ({**STEP, "config": [1]}, "must be an object"),
    "state above": ({**STEP, "state_file": "../model.safetensors"}, "reads its state from '../model.safetensors'"),
    "state anywhere": ({**STEP, "state_file": "/etc/x.safetensors"}, "reads its state from"),
    "state a pickle": ({**STEP, "state_file": "state.pt"}, "reads its state from 'state.pt'"),
    "state a number": ({**STEP, "state_file": 1}, "reads its state from"),
    "code of others": (
        {"registry_name": "action_tokenizer_processor", "config": {"action_tokenizer_name": "evil/fast"}},
        "from where LeRobot would run code",
    ),
    "number not finite": ({**STEP, "config": {"eps": float("nan")}}, "not a finite number"),
    "nested": ({**STEP, "config": json.loads("[" * 80 + "]" * 80)}, "nested too deeply"),
}


@pytest.mark.parametrize("case", BAD_STEPS)
def test_a_step_that_is_not_plainly_harmless_is_refused(folder, case):
    step, says = BAD_STEPS[case]
    change(folder / PREPROCESSOR, steps=[step])
    with pytest.raises(HoldfastError, match=says):
        read_pipeline(folder / PREPROCESSOR)


@pytest.mark.parametrize("text", ["[]", "{}", '{"steps": {}}', "", "[" * 100_000, '"\\ud800"', "1" * 5000])
def test_a_file_that_is_no_pipeline_is_named(folder, text):
    (folder / POSTPROCESSOR).write_text(text)
    with pytest.raises(HoldfastError, match=POSTPROCESSOR):
        act(folder)


def test_a_folder_named_like_code_that_lerobot_trusts_is_not_taken_for_it(folder, tmp_path, monkeypatch):
    step = {"registry_name": "action_tokenizer_processor"}
    step["config"] = {"action_tokenizer_name": "lerobot/fast-action-tokenizer"}
    change(folder / PREPROCESSOR, steps=[step])
    read_pipeline(folder / PREPROCESSOR)
    (tmp_path / "lerobot" / "fast-action-tokenizer").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HoldfastError, match="would run code"):
        read_pipeline(folder / PREPROCESSOR)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A tokenizer and model with code of their own, and somebody at the terminal who agrees to everything."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\nclass Evil: pass\n")
    code = {"AutoConfig": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}
    (folder / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": code}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Evil", "auto_map": code}))
    monkeypatch.setattr("transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE", 15)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda question: "y")
    return folder


def test_code_of_a_tokenizer_is_not_even_offered(folder, repository, tmp_path):
    step = {"registry_name": "tokenizer_processor", "config": {"tokenizer_name": str(repository)}}
    change(folder / PREPROCESSOR, steps=[step])
    for load in (act, check_folder):
        with pytest.raises(
            HoldfastError, match=r"tokenizer_config\.json names code|repository/config\.json names code"
        ):
            load(folder)
    assert not (tmp_path / "ran").exists()


def test_code_of_a_model_that_a_config_names_is_not_even_offered(folder, repository, tmp_path):
    stored = json.loads((folder / "config.json").read_text())
    config = {name: stored[name] for name in ("input_features", "output_features")}
    config |= {"type": "smolvla", "vlm_model_name": str(repository), "load_vlm_weights": False}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(HoldfastError, match="code"):
        adapters.load(folder, NAMES, "cpu")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"use_peft": True}, "belongs to a PEFT adapter"),
        ({"type": None}, "it has no 'type'"),
        ({"type": ["nano"]}, "it has no 'type'"),
        ({"type": "my_package.Policy"}, "Unknown policy type 'my_package.Policy'"),
        ({"type": "pi0_fast", "action_tokenizer_name": "evil/fast"}, "action_tokenizer_name to 'evil/fast'"),
        ({"type": "pi0_fast", "text_tokenizer_name": "./here"}, "text_tokenizer_name"),
        ({"type": "gaussian_actor", "vision_encoder_name": "evil/encoder"}, "vision_encoder_name"),
        ({"type": "wall_x", "action_tokenizer_path": "/tmp/evil"}, "action_tokenizer_path"),
        ({"type": "groot", "base_model_path": "evil/groot"}, "base_model_path"),
        ({"width": "wide"}, "cannot be configured"),
        ({"width": 0}, "width must be"),
        ({"nonsense": 1}, "cannot be configured"),
        ({"input_features": None}, "needs at least one camera"),
        ({"type": "act"}, "cannot be configured"),
        ({"input_features": {"x": {"type": "VISUAL", "shape": [3, 9999, 9999]}}}, "camera 'x' is 9999 x 9999 pixels"),
        ({"input_features": {"x": {"type": "VISUAL", "shape": [1, 3, 9999, 9999]}}}, "camera 'x' must be channels"),
        ({"input_features": {"x": {"type": "VISUAL", "shape": [9, 32, 32]}}}, "camera 'x' must be channels"),
        ({"input_features": {"x": {"type": "VISUAL", "shape": [3, -32, -32]}}}, "camera 'x' is -32 x -32 pixels"),
        ({"input_features": {"x": {"type": "VISUAL", "shape": [3, 0, 32]}}}, "camera 'x' is 32 x 0 pixels"),
        ({"input_features": {str(n): {"type": "VISUAL", "shape": [3, 1, 1]} for n in range(65)}}, "has 65 cameras"),
        ({"input_features": {"x": {"type": "VISUAL"}}}, "camera 'x' must be channels .*, got none"),
        ({"type": "act", "chunk_size": 10_000_000}, "sets chunk_size to 10000000; it must be from 1 to 1,024"),
        ({"type": "pi05", "num_inference_steps": 0}, "sets num_inference_steps to 0"),
        ({"type": "pi0", "tokenizer_max_length": 10**9}, "sets tokenizer_max_length to 1000000000"),
        ({"type": "diffusion", "down_dims": [512, 2**15]}, "sets down_dims to 32768"),
        ({"type": "fastwam", "video_scheduler": {"num_train_timesteps": -1}}, "sets num_train_timesteps to -1"),
    ],
)
def test_a_config_that_does_not_belong_to_a_policy_is_one_line(folder, changes, says):
    change(folder / "config.json", **changes)
    with pytest.raises(HoldfastError, match=says) as caught:
        adapters.load(folder, NAMES, "cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", sorted(PreTrainedConfig.get_known_choices()))
def test_the_numbers_of_a_config_as_lerobot_makes_it_are_accepted(kind):
    made = PreTrainedConfig.get_known_choices()[kind]
    numbers = {}
    for item in fields(made):
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        numbers[item.name] = list(default) if isinstance(default, tuple) else default
    check_numbers({**numbers, "scheduler_decay_steps": 30_000_000}, kind)
    with pytest.raises(HoldfastError, match=f"{kind} sets num_steps to 30000000"):
        check_numbers({**numbers, "num_steps": 30_000_000}, kind)


def test_a_step_that_asks_for_endless_tokens_is_refused(folder):
    steps = [{"registry_name": "tokenizer_processor", "config": {"max_length": 10**9}}]
    change(folder / PREPROCESSOR, steps=steps)
    with pytest.raises(HoldfastError, match="step 1, sets max_length to 1000000000; it must be from 1 to 4,096"):
        check_folder(folder)


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"\xff" * 100])
def test_weights_that_are_none_are_named(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(HoldfastError, match=r"model\.safetensors cannot be read"):
        adapters.load(folder, NAMES, "cpu")


def test_a_step_of_an_installed_plugin_is_known(folder):
    @ProcessorStepRegistry.register("step_of_a_plugin")
    class OfPlugin(VanillaObservationProcessorStep):
        pass

    try:
        change(folder / PREPROCESSOR, steps=[{"registry_name": "step_of_a_plugin", "config": {}}])
        (step,) = read_pipeline(folder / PREPROCESSOR)["steps"]
        assert step["registry_name"] == "step_of_a_plugin"
    finally:
        ProcessorStepRegistry.unregister("step_of_a_plugin")


def test_a_pipeline_that_lerobot_cannot_build_is_one_line(folder):
    config = adapters.load(folder, NAMES, "cpu").config
    change(folder / PREPROCESSOR, steps=[{"registry_name": "device_processor", "config": {"device": 1, "more": 2}}])
    with pytest.raises(HoldfastError, match="cannot be loaded: Failed to instantiate processor step") as caught:
        load_pipelines(config, folder)
    assert "\n" not in str(caught.value)


def test_values_of_a_stock_config_are_not_read_as_flags(tmp_path):
    """draccus takes a flag's value that begins with `include` for a file to read."""
    from holdfast.policies.pi05.stock import start_config

    secret = tmp_path / "secret.yaml"
    secret.write_text("a secret")
    config = {"type": "pi05", "tokenizer_name": f"include {secret}", "chunk_size": 20, "optimizer_lr": 1e-05}
    (tmp_path / "config.json").write_text(json.dumps(config))
    started = start_config(str(tmp_path), {"n_action_steps": "7"}, [])
    assert started.tokenizer_name == f"include {secret}"
    assert (started.chunk_size, started.n_action_steps, started.optimizer_lr) == (20, 7, 1e-05)


# Calls that may run what a file says, and the files that make them. docs/design.md says why each is safe.
LOADERS = {
    "from_pretrained": {"policies/saved_folder.py", "policies/pi05/processor_pi05.py"},
    "make_pre_post_processors": {"policies/saved_folder.py", "policies/transforms.py"},
    "make_policy": {"policies/adapter.py"},
    "_Unpickler": {"train/distributed/shard_metadata.py"},
    "FileSystemReader": {"train/distributed/shards.py"},
    "import_module": {
        "__init__.py",
        "cli.py",
        "commands/completion.py",
        "arenas/__init__.py",
        "twin/tasks/__init__.py",
    },
    "yaml.load": {"core/outside.py"},
    "exec": {"core/own_code.py"},
    "load_own": {"methods/__init__.py", "replay/selection.py"},
    "method_class": {"methods/__init__.py", "runs/own_files.py", "commands/flags.py"},
    "find_selection": {
        "replay/buffer.py",
        "replay/config.py",
        "train/distributed/parallel.py",
        "train/engine.py",
        "train/keep.py",
    },
    "settle_method": {"runs/folder.py"},
    **{name: set() for name in ("torch.load", "pickle.load", "pickle.loads", "__import__", "unsafe_load")},
    "Unpickler": set(),
}
COMMON = {"load", "loads"}  # words that count together with their module


def used(path):
    """Names that a file calls or inherits from."""
    for node in ast.walk(ast.parse(path.read_text())):
        named = [node.func] if isinstance(node, ast.Call) else node.bases if isinstance(node, ast.ClassDef) else []
        for name in named:
            if isinstance(name, ast.Attribute):
                yield f"{getattr(name.value, 'id', '')}.{name.attr}" if name.attr in COMMON else name.attr
            elif isinstance(name, ast.Name):
                yield name.id


def test_loaders_that_trust_their_files_are_called_only_where_files_are_checked():
    found = {}
    for root in [REPOSITORY / "src" / "holdfast", *(REPOSITORY / "plugins").glob("*/src")]:
        for path in root.rglob("*.py"):
            for word in used(path):
                found.setdefault(word, set()).add(path.relative_to(root).as_posix())
    assert {word: found.get(word, set()) for word in LOADERS} == LOADERS

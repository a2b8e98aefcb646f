"""A bundle holds all a policy needs, and any change to it is noticed."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from bundles import TASKS, make_trained

from holdfast import __version__, catalog
from holdfast.cli import main
from holdfast.core.checked_folder import file_hash
from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.runs.embodiment import settle_embodiment
from holdfast.serve.bundle import load, verify
from holdfast.serve.new_bundle import make


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle.path, tmp_path / "copy")


def files(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def test_it_holds_what_the_policy_needs(bundle):
    assert bundle.tasks == {name: catalog.task(name) for name in TASKS}
    assert bundle.embodiment == EMBODIMENTS["piper_x_pair"]
    assert bundle.names == EMBODIMENTS["piper_x_pair"].names
    assert bundle.cameras == dict.fromkeys(("head", "front", "left_wrist", "right_wrist"), (32, 32))
    assert bundle.about["transforms"]["preprocessor"][-1] == "device_processor"
    assert "normalizer_processor" in bundle.about["transforms"]["preprocessor"]
    assert bundle.about["holdfast"] == __version__
    assert bundle.about["normalization"] == bundle.normalization.hash
    assert load(bundle.path) == bundle


def test_a_stage_knows_what_was_learned_up_to_it(trained, tmp_path, bundle):
    first = make(trained, 1, tmp_path / "one")
    assert list(first.tasks) == [TASKS[0]]
    assert first.weights != bundle.weights
    assert make(trained, None, tmp_path / "last").hash == bundle.hash, "the same stage gives the same bytes"


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove", "link"])
def test_harm_to_any_file_is_named(bundle, tmp_path, harm):
    for name in files(bundle.path):
        copy = shutil.copytree(bundle.path, tmp_path / "copy")
        file = copy / name
        content = bytearray(file.read_bytes())
        if harm == "flip":
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        elif harm == "truncate":
            file.write_bytes(content[:-1])
        else:
            file.unlink()
            if harm == "link":
                file.symlink_to(bundle.path / name)
        with pytest.raises(HoldfastError, match="bundle:" if name.name == "manifest.json" else str(name)):
            load(copy)
        shutil.rmtree(copy)


def test_every_byte_of_the_manifest_counts(copy):
    file = copy / "manifest.json"
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert verify(copy), place
    for changed in (whole.replace(b" ", b"\t", 1), b"\xef\xbb\xbf" + whole, whole + b"\n"):
        file.write_bytes(changed)
        assert verify(copy)


def test_a_file_too_many_is_named(copy):
    (copy / "policy" / "extra.json").write_text("{}")
    with pytest.raises(HoldfastError, match=r"policy/extra.json does not belong to it"):
        load(copy)


def test_a_file_that_could_carry_code_has_no_place(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    (run / "stages" / f"02-{TASKS[1]}" / "checkpoint" / "policy" / "weights.pt").write_bytes(b"\x80")
    with pytest.raises(HoldfastError, match=r"weights\.pt has no place"):
        make(run, 2, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".writing*"))


def test_a_damaged_checkpoint_makes_no_bundle(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    file = run / "stages" / f"02-{TASKS[1]}" / "checkpoint" / "policy" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(HoldfastError, match="damaged"):
        make(run, 2, tmp_path / "out")


def test_mistakes_are_told(trained, tmp_path, bundle):
    with pytest.raises(HoldfastError, match="Valid: 1, 2"):
        make(trained, 7, tmp_path / "out")
    with pytest.raises(HoldfastError, match="exists already"):
        make(trained, 2, bundle.path)
    with pytest.raises(HoldfastError, match="no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(HoldfastError, match="no run"):
        make(tmp_path, 1, tmp_path / "out")


def test_a_robot_that_does_not_fit_is_refused(trained, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text('[[dimension]]\nname = "a"\narm = "left"\nkind = "joint"\nlower = 0\nupper = 1\nstep = 0.1\n')
    with pytest.raises(HoldfastError, match="has the dimensions a; the run was trained on left_joint_1"):
        make(trained, 2, tmp_path / "out", str(other))


def test_a_stream_that_is_gone_can_be_replaced_by_a_name(tmp_path):
    run = make_trained(tmp_path / "run", TASKS[:1])
    file = run / "stages" / f"01-{TASKS[0]}" / "checkpoint" / "config.json"
    config = json.dumps({"stream": str(tmp_path / "gone.toml"), "data_root": None})
    manifest = file.with_name("manifest.json")
    old = file_hash(file)
    file.write_text(config)
    manifest.write_text(manifest.read_text().replace(old, file_hash(file)))
    with pytest.raises(HoldfastError, match="--embodiment"):
        make(run, 1, tmp_path / "out")
    assert make(run, 1, tmp_path / "out", "piper_x_pair").embodiment == EMBODIMENTS["piper_x_pair"]


def test_the_robot_is_the_one_that_the_run_has_stored(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    stored = replace(EMBODIMENTS["piper_x_pair"], name="edited since")
    settle_embodiment(run / "embodiment.json", stored)
    assert make(run, 2, tmp_path / "out").embodiment == stored
    (run / "embodiment.json").write_text("{}")
    with pytest.raises(HoldfastError, match=r"embodiment\.json must have the keys"):
        make(run, 2, tmp_path / "other")


def test_the_policy_acts_as_the_checkpoint_does_and_as_lerobot_rollout_loads_it(trained, bundle, pilot):
    import torch
    from lerobot.configs import PreTrainedConfig
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.rollout.context import _load_pretrained_policy

    from holdfast.core.observation import Question
    from holdfast.policies.pilot import Pilot

    rng = np.random.default_rng(0)
    images = {name: rng.integers(0, 256, (*size, 3), np.uint8) for name, size in bundle.cameras.items()}
    look = Question(bundle.tasks[TASKS[1]], rng.uniform(-0.5, 0.5, 14).astype(np.float32), images, 5, 2)
    (found,) = pilot.answer([look])
    checkpoint = Pilot(trained / "stages" / f"02-{TASKS[1]}" / "checkpoint", bundle.names)
    assert np.array_equal(found, checkpoint.answer([look])[0])

    config = PreTrainedConfig.from_pretrained(bundle.path / "policy")
    config.pretrained_path = str(bundle.path / "policy")
    policy = _load_pretrained_policy(config).eval()
    own = {"device_processor": {"device": "cpu"}, "rename_observations_processor": {"rename_map": {}}}
    pre, post = make_pre_post_processors(config, config.pretrained_path, preprocessor_overrides=own)
    batch = {"observation.state": torch.from_numpy(look.state)[None], "task": [look.task.instruction]}
    for name, image in images.items():
        batch[f"observation.images.{name}"] = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
    noise = torch.from_numpy(np.random.default_rng((5, 2)).standard_normal(policy.noise_shape, dtype=np.float32))
    with torch.no_grad():
        alone = post(policy.predict_action_chunk(pre(batch), noise=noise[None])).numpy()[0]
    assert np.allclose(alone, found, atol=1e-5)


def test_the_command_makes_verifies_and_compares(trained, tmp_path, capsys):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert main(["bundle", str(trained), "--stage", "1", "--output", one]) == 0
    assert main(["bundle", str(trained), "--output", two]) == 0
    assert f"knows {TASKS[0]}, {TASKS[1]}" in capsys.readouterr().out
    assert main(["bundle", "verify", two]) == 0
    assert main(["bundle", "diff", one, one]) == 0
    assert "The bundles are the same" in capsys.readouterr().out
    assert main(["bundle", "diff", one, two]) == 1
    assert f"task {TASKS[1]}: new" in capsys.readouterr().out
    (tmp_path / "two" / "bundle.json").unlink()
    assert main(["bundle", "verify", two]) == 2
    assert "bundle.json is missing" in capsys.readouterr().err


def test_a_bundle_of_another_format_says_who_wrote_it(bundle, copy):
    file, manifest = copy / "bundle.json", copy / "manifest.json"
    old = file_hash(file)
    file.write_text(json.dumps({**bundle.about, "format": 99, "holdfast": "9.9"}))
    manifest.write_text(manifest.read_text().replace(old, file_hash(file)))
    with pytest.raises(HoldfastError, match=r"holdfast 9\.9 in format 99"):
        load(copy)


def alter(folder, name, change):
    """Change a JSON file of a bundle, and its manifest with it, as somebody would who wants the bundle to load."""
    file, manifest = folder / name, folder / "manifest.json"
    content = json.loads(file.read_text())
    changed = change(content)
    file.write_text(json.dumps(content if changed is None else changed))
    listed = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**listed, name: file_hash(file)}, indent=1))


@pytest.mark.parametrize("name", ["policy_preprocessor.json", "policy_postprocessor.json"])
def test_a_bundle_whose_files_match_but_could_run_code_is_refused(copy, tmp_path, name):
    step = {"class": "subprocess.Popen", "config": {"args": ["touch", str(tmp_path / "ran")]}}
    alter(copy, f"policy/{name}", lambda content: content["steps"].append(step))
    with pytest.raises(
        HoldfastError, match=rf"not an intact bundle: .*{name}, step \d, names the class 'subprocess.Popen'"
    ):
        load(copy)
    assert not (tmp_path / "ran").exists()


def test_no_bundle_is_made_of_a_policy_that_could_run_code(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    checkpoint = run / "stages" / f"02-{TASKS[1]}" / "checkpoint"
    alter(checkpoint, "policy/policy_preprocessor.json", lambda content: content["steps"].append({"class": "os.abort"}))
    with pytest.raises(HoldfastError, match=r"names the class 'os\.abort'"):
        make(run, 2, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_adapter_of_others_is_refused(copy):
    alter(copy, "policy/config.json", lambda content: {**content, "use_peft": True})
    with pytest.raises(HoldfastError, match="PEFT"):
        load(copy)


MANIFESTS = [
    "[]",
    "{}",
    "null",
    '"x"',
    "1",
    "",
    "NaN",
    "[" * 100_000,
    '{"a": ' * 5000,
    '{"bundle.json": 1}',
    '{"": ""}',
]
MANIFESTS += ['{"../../etc/passwd": "0"}', '{"/etc/passwd": "0"}', '"\\ud800"', " " * (33 * 2**20)]


@pytest.mark.parametrize("text", MANIFESTS, ids=lambda text: text[:20])
def test_a_manifest_that_is_none_is_told_in_one_line(copy, text):
    (copy / "manifest.json").write_text(text)
    with pytest.raises(HoldfastError, match="not an intact bundle") as caught:
        load(copy)
    assert "\n" not in str(caught.value)


def test_every_missing_key_of_its_description_is_named(bundle, tmp_path):
    for key in bundle.about:
        copy = shutil.copytree(bundle.path, tmp_path / key)
        alter(copy, "bundle.json", lambda content, key=key: {k: v for k, v in content.items() if k != key})
        with pytest.raises(HoldfastError, match=rf"{key}"):
            load(copy)


@pytest.mark.parametrize(
    ("key", "value"),
    [("fps", value) for value in ("x", None, 0, -1, float("nan"), float("inf"), [30], 10**12, 10**30)]
    + [("tasks", value) for value in ({}, [1], [{}], [{"name": "x"}], [{"name": "../x", "milestones": []}], None)]
    + [("names", value) for value in ("abc", [1], None, [], ["a", ""], [" "], ["a\x1b[2J"], ["a"], ["a"] * 14)]
    + [("state_names", value) for value in ([], [""], ["a", "b", "c"], ["a"] * 14)]
    + [
        ("cameras", value)
        for value in ([], {"head": 32}, {"head": [32]}, {"head": [0, 1]}, {"head": [1, 10**6]}, {"": [32, 32]})
    ]
    # More pixels than a picture may have, or than all may have together.
    + [("cameras", {"head": [2**13, 2**13]}), ("cameras", {name: [2**12, 2**12] for name in ("head", "front", "top")})]
    + [("embodiment", value) for value in ([], {}, "piper_x_pair")]
    + [("transforms", value) for value in ([], {"preprocessor": "x"}, {"preprocessor": [1]})]
    + [("format", value) for value in (None, "1", 2, True)],
)
def test_a_wrong_value_of_its_description_is_named(copy, key, value):
    alter(copy, "bundle.json", lambda content: {**content, key: value})
    with pytest.raises(HoldfastError, match=f"{key}|task|camera") as caught:
        load(copy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("task", ["press_button", ""])
def test_every_task_has_a_name_of_its_own(copy, task):
    alter(copy, "bundle.json", lambda content: content["tasks"].append({**content["tasks"][0], "name": task}))
    with pytest.raises(HoldfastError, match=r"lists a task twice; it has press_button, place_fruits|name '' must be"):
        load(copy)


def test_a_bundle_without_tasks_is_refused(copy):
    alter(copy, "bundle.json", lambda content: {**content, "tasks": []})
    with pytest.raises(HoldfastError, match="tasks must list at least one"):
        load(copy)


def test_what_a_bundle_says_does_not_command_the_terminal(bundle, copy, capsys):
    alter(copy, "bundle.json", lambda content: {**content, "run": "a\x1b[2J\nstage: 1 -> 7", "learned": "\x9b2J"})
    assert main(["bundle", "diff", str(bundle.path), str(copy)]) == 1
    said = capsys.readouterr().out
    assert r"a\x1b[2J\nstage: 1 -> 7" in said
    assert all(char.isprintable() for char in said.replace("\n", ""))


@pytest.mark.parametrize("place", ["policy/tokenizer_config.json", "policy/paligemma/config.json"])
def test_a_tokenizer_with_code_is_refused_as_loading_would(copy, place):
    (copy / place).parent.mkdir(exist_ok=True)
    (copy / place).write_text('{"model_max_length": 1000000000000000019884624838656, "auto\\u005fmap": {}}')
    alter(copy, place, lambda content: content)
    with pytest.raises(HoldfastError, match=rf"{place} names code to run \(auto_map\)"):
        load(copy)
    alter(copy, place, lambda content: {"model_max_length": 10**30})
    assert load(copy).path == copy


@pytest.mark.parametrize("content", [[], {}, {"measured": None}, {"measured": {}, "hash": ""}, 1])
def test_statistics_that_are_none_are_refused(copy, content):
    alter(copy, "normalization.json", lambda _: content)
    with pytest.raises(HoldfastError, match=r"Normalization|must hold an object"):
        load(copy)


def test_a_pipe_in_a_bundle_is_not_read(copy):
    import os

    (copy / "policy" / "config.json").unlink()
    os.mkfifo(copy / "policy" / "config.json")
    with pytest.raises(HoldfastError, match=r"policy/config\.json has no place in it"):
        load(copy)

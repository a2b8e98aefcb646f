"""A preset fills in what the user did not give, and recipes are made of the same definitions."""

from dataclasses import replace

import pytest

from holdfast.commands.flags import parse, with_preset
from holdfast.core.errors import HoldfastError
from holdfast.train.config import TrainConfig
from holdfast.train.config_flags import flags
from holdfast.train.presets import PRESETS, preset


def parsed(*words):
    return parse(TrainConfig, "train", ["--stream=single_arm", *words], "")


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("words", ["--preset={}", "--preset {}"])
def test_a_flag_and_the_python_settings_are_the_same(name, words):
    assert parsed(*words.format(name).split()) == TrainConfig(stream="single_arm", **preset(name))


@pytest.mark.parametrize("name", PRESETS)
def test_flags_leave_out_what_the_preset_fills_in(name):
    config = replace(parsed(f"--preset={name}"), seed=7)
    assert flags(config, name) == ("--stream=single_arm", f"--preset={name}", "--seed=7")
    assert parsed(*flags(config, name)[1:]) == config


@pytest.mark.parametrize("place", [0, 4])
def test_what_the_user_gives_counts_wherever_it_stands(place):
    words = ["--steps=7", "--policy.image_size=96", "--optim.lr", "0.5"]
    words.insert(place, "--preset=cpu")
    config = parsed(*words)
    assert (config.steps, config.optim.lr, config.optim.warmup) == (7, 0.5, 40)
    assert config.policy.options == {"image_size": "96", "noise_draws": "1", "denoise_steps": "3"}
    assert config.policy.path == "nano-base"


def test_with_another_policy_what_belongs_to_nano_base_is_left_out():
    config = parsed("--preset=cpu", "--policy.type", "act")
    assert (config.policy.type, config.policy.path, config.policy.options) == ("act", None, {})
    assert (config.norm.stats, config.batch_size) == ("", 16)
    assert parsed("--preset=cpu", "--policy.path=nano-base") == parsed("--preset=cpu")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset=gpus"], "Did you mean 'gpu'"),
        (["--preset"], "cpu, gpu, paper"),
        (["--preset=cpu", "--preset=gpu"], "twice"),
    ],
)
def test_a_preset_that_does_not_exist_is_refused(words, said):
    with pytest.raises(HoldfastError, match=said):
        parsed(*words)


def test_without_a_preset_flags_are_as_given():
    assert with_preset(["--steps=7"]) == ["--steps=7"]


def test_help_shows_what_each_fills_in(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    said = capsys.readouterr().out
    for name, known in PRESETS.items():
        assert f"  {name}: {known.text}" in said
    assert "--policy.path=nano-base --policy.image_size=64" in said

"""The flags of methods: strict, shown in --help, part of a run's settings, and given back by recipes."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from holdfast.commands.flags import parse
from holdfast.commands.train import EPILOG
from holdfast.core.errors import HoldfastError
from holdfast.methods import METHODS, build_method
from holdfast.methods.ewc import Ewc
from holdfast.policies.config import PolicyChoice
from holdfast.train.config import TrainConfig
from holdfast.train.config_flags import flags


def parsed(*words):
    return parse(TrainConfig, "train", ["--stream=s", *words], "")


def test_options_go_to_the_method_with_their_types():
    config = parsed("--method=ewc", "--method.strength=5", "--method.samples", "12")
    assert config.method_options == {"strength": 5.0, "decay": 0.9, "samples": 12}
    assert config.make_method() == Ewc(strength=5.0, samples=12)
    assert parsed("--method=ewc").make_method() == Ewc()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--method=ewc", "--method.strenght=5"],
            "--method.strenght.*Did you mean '--method.strength'.*--method.decay",
        ),
        (["--method=er", "--method.strength=5"], "option '--method.strength' of --method=er. Valid: none"),
        (["--method=ewc", "--method.samples=many"], "samples.*many.*int"),
        (["--method=ewc", "--method.decay=2"], "--method.decay must be between 0 and 1, got 2.0"),
        (["--method=ecw"], "Unknown --method 'ecw'.*Valid: er, sequential"),
    ],
)
def test_a_wrong_option_is_refused(words, message):
    with pytest.raises(HoldfastError, match=message):
        parsed(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["--config_path={}"],
        ["--config-path", "{}"],
        ["--stream=include {}"],
        ["--stream='include {}'"],
        ["--stream", "include {}"],
        ["--stream=!include {}"],
        ["--stream=!%69nclude {}"],
        ["--policy.config_path={}"],
        ["--policy.device=include {}"],
        ["--policy.device", '"\\x69nclude {}"'],
    ],
)
def test_no_flag_reads_a_file(tmp_path, words):
    """draccus reads files without any limit, and with tags that name Python's functions."""
    file = tmp_path / "settings.yaml"
    file.write_text("steps: 3\n")
    with pytest.raises(HoldfastError, match=r"config_path is not supported|could read other files"):
        parsed(*(word.format(file) for word in words))


def test_plain_values_are_not_taken_for_files():
    assert parsed("--tasks=[include_a, b!, 'c*']", "--policy.note=why not!").policy.options == {"note": "why not!"}


@pytest.mark.parametrize("options", [{"config_path": "/etc/hostname"}, {"device": "include /etc/hostname"}])
def test_options_of_a_policy_read_no_file_wherever_they_come_from(options):
    with pytest.raises(HoldfastError, match=r"config_path is not supported|could read other files"):
        PolicyChoice(options=options)


@pytest.mark.parametrize(
    ("flag", "valid"),
    [
        ("replay.mix", ["step", "row"]),
        ("replay.share", ["equal", "group", "frames", "need"]),
        ("replay.coin", ["plain", "stratified"]),
        ("replay.store", ["reference", "copy"]),
        ("norm.strategy", ["per-task", "frozen-first", "mixed", "calibrated"]),
        ("optim.precision", ["auto", "fp32", "bf16"]),
        ("idle", ["hold", "mask"]),
        ("parallel", ["ddp", "fsdp"]),
    ],
)
def test_a_wrong_word_is_refused_with_the_right_ones(flag, valid):
    with pytest.raises(HoldfastError, match=f"--{flag}.*wrong.*{'.*'.join(valid)}"):
        parsed(f"--{flag}=wrong")
    assert parsed(f"--{flag}={valid[-1]}") != parsed()


def test_help_lists_every_method_with_its_options(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    said = capsys.readouterr().out
    for name, method in METHODS.items():
        assert f"  {name}: {method.__doc__.strip().splitlines()[0]}" in said
    assert "--method.strength=10000.0\n        Weight of the penalty." in said
    assert "method_options" not in said


def test_flags_give_the_options_back():
    config = TrainConfig(stream="s", method="ewc", method_options={"strength": 3})
    assert parse(TrainConfig, "train", list(flags(config)), "") == config
    assert replace(config, seed=1).make_method() == Ewc(strength=3.0)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_builds_and_says_how_it_is_arranged(name):
    assert build_method(name, {}).arrangement in ("stream", "together", "alone")
    assert METHODS[name].__doc__


def test_help_says_of_every_method_what_it_needs():
    table = EPILOG.partition("Which method needs what")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^  ([a-z][a-z0-9_ ]+?)  +(.*)$", table, re.MULTILINE))
    needs = {need: set(rows[need].partition(";")[0].split(", ")) for need in ("no old episodes", "old episodes")}
    needs["all data at once"] = {rows["all data at once"]}
    assert sorted(name for names in needs.values() for name in names) == sorted(METHODS)
    assert "er" in needs["old episodes"]
    assert "lwf" in needs["no old episodes"]
    assert {"adapters", "lwf"} <= set(rows["nano or pi05_fast"].partition(";")[0].split(", "))


def test_methods_are_light_to_import():
    code = "import sys, holdfast.methods; print([m for m in ('torch', 'lerobot', 'safetensors') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

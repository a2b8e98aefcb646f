"""A config of a few bytes cannot make a network that fills the memory: it is compared with the weights first."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import save_file
from toys import write_numbers

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.source import open_source
from holdfast.embodiments import EMBODIMENTS
from holdfast.policies import adapter as adapters
from holdfast.policies import size_limit
from holdfast.policies.config import SHIPPED, PolicyChoice
from holdfast.policies.size_limit import FREE, TIMES, SizeLimit

NAMES = EMBODIMENTS["piper_x_pair"].names


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(SHIPPED["nano-base"], tmp_path / "policy")


def enlarge(folder, **sizes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **sizes}))


HUGE = [{"width": 4096}, {"width": 1024, "vocabulary": 2**20}, {"width": 1024, "encoder_layers": 64}]


@pytest.mark.parametrize("sizes", HUGE, ids=lambda sizes: list(sizes)[-1])
def test_a_huge_network_is_refused_before_it_is_made(folder, sizes):
    enlarge(folder, **sizes)
    with pytest.raises(HoldfastError, match=r"4 times as large as its weights .*model\.safetensors, which hold \d+"):
        adapters.load(folder, NAMES, "cpu")


def test_sizes_that_no_weight_has_are_bounded_too(folder):
    enlarge(folder, image_size=2**20, denoise_steps=10**9)
    with pytest.raises(HoldfastError, match="image_size must be 16 to 512, got 1048576"):
        adapters.load(folder, NAMES, "cpu")


@pytest.mark.parametrize("sizes", [{"denoise_steps": "10"}, {"betas": ["0.9", "0.95"]}])
def test_numbers_as_text_are_refused(folder, sizes):
    """LeRobot's parser would read them after the checks of the file."""
    enlarge(folder, **sizes)
    with pytest.raises(HoldfastError, match="which is text; it must be a number"):
        adapters.load(folder, NAMES, "cpu")


def test_a_huge_network_is_refused_when_training_starts_from_it(folder, tmp_path):
    enlarge(folder, width=4096)
    write_numbers(tmp_path / "data", NAMES, NAMES)
    with pytest.raises(HoldfastError, match="4 times as large as its weights"):
        adapters.build(PolicyChoice(path=str(folder)), open_source(str(tmp_path / "data")), "cpu", 0)


def test_what_is_too_large_is_counted_not_made(tmp_path, monkeypatch):
    save_file({"w": torch.zeros(1000)}, tmp_path / "w.safetensors")
    with SizeLimit(tmp_path / "w.safetensors"):
        torch.nn.Linear(FREE // 8, 7)
        with pytest.raises(HoldfastError, match="which hold 1000 numbers"):
            torch.randn(2**50, 2**10)
    with SizeLimit(tmp_path / "w.safetensors"), pytest.raises(HoldfastError), torch.device("cpu"):
        torch.nn.Linear(2**25, 2**25)
    monkeypatch.setattr(size_limit, "FREE", 2**20)
    with SizeLimit(tmp_path / "w.safetensors"), pytest.raises(HoldfastError):
        torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(FREE))


def test_a_larger_file_allows_a_larger_network(tmp_path):
    save_file({"w": torch.zeros(FREE // 8, dtype=torch.uint8)}, tmp_path / "w.safetensors")
    with SizeLimit(tmp_path / "w.safetensors"):
        torch.empty(FREE + TIMES * FREE // 8)
        with pytest.raises(HoldfastError):
            torch.empty(1)


def test_the_random_start_is_the_same_inside_and_outside(tmp_path):
    save_file({"w": torch.zeros(1)}, tmp_path / "w.safetensors")
    torch.manual_seed(3)
    plain = [torch.randn(3), torch.nn.Linear(4, 4).weight, torch.randint(9, (5,)), torch.arange(4)]
    torch.manual_seed(3)
    with SizeLimit(tmp_path / "w.safetensors"):
        limited = [torch.randn(3), torch.nn.Linear(4, 4).weight, torch.randint(9, (5,)), torch.arange(4)]
    assert all(torch.equal(one, other) for one, other in zip(plain, limited, strict=True))


def test_weights_of_other_shapes_are_refused_before_they_are_read(folder, monkeypatch):
    monkeypatch.setattr(adapters, "load_file", lambda file: pytest.fail("read"))
    enlarge(folder, width=64)
    with pytest.raises(HoldfastError, match="has wrong shapes of"):
        adapters.load(folder, NAMES, "cpu")


def test_a_pipe_in_the_place_of_the_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(HoldfastError, match="not a regular file"):
        adapters.load(folder, NAMES, "cpu")

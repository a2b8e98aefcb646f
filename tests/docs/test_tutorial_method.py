"""The page on methods: what it tells a reader to write trains, keeps, and does what it says."""

import json
from pathlib import Path

import torch
from blocks import python_blocks, run_blocks
from safetensors.torch import load_file
from toys import TINY

from holdfast.cli import main
from holdfast.methods import method_class

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "add_a_method.md"


def train(toy, name, *more):
    base = ["train", f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--tasks=[reach, lift]", "--device=cpu"]
    assert main([*base, *TINY, "--steps=6", "--batch_size=4", "--log.every=1", *more]) == 0
    stages = sorted((toy / name / "stages").iterdir())
    return [load_file(stage / "checkpoint" / "policy" / "model.safetensors") for stage in stages]


def distance(one, other):
    return sum(float((one[name] - other[name]).square().sum()) for name in one)


def test_the_method_of_the_page_trains(toy, tmp_path, monkeypatch):
    run_blocks(PAGE, tmp_path, monkeypatch)  # writes the file, and goes there
    assert len(python_blocks(PAGE)[0].splitlines()) <= 40
    mine = "--method=my_methods.py:StayNear"
    assert f"{mine} --method.strength=0.01" in PAGE.read_text()

    plain = train(toy, "plain", "--method=sequential")
    off = train(toy, "off", mine, "--method.strength=0")
    held = train(toy, "held", mine, "--method.strength=100")
    assert all(torch.equal(value, off[1][name]) for name, value in plain[1].items())
    assert distance(held[1], held[0]) < distance(plain[1], plain[0])

    folder = toy / "held" / "stages" / "02-lift"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[0]["extra_loss"] == 0  # before the first update the weights are where they were
    assert lines[-1]["extra_loss"] > 0
    kept = load_file(folder / "checkpoint" / "method.safetensors")
    assert all(torch.equal(value, held[1][name]) for name, value in kept.items())
    assert method_class("my_methods.py:StayNear")().strength == 0.1

"""The tutorial my_dataset_my_policy.md does what it says: every block, in order."""

import json
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
from blocks import blocks

from holdfast import embodiments
from holdfast.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "my_dataset_my_policy.md"


@pytest.mark.slow
def test_the_page_leads_from_a_dataset_to_a_policy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ModuleType("page")
    for block in blocks(PAGE):
        if block.title:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec"), page.__dict__)
        elif block.language == "bash":
            for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
                assert main(shlex.split(line)[1:]) == 0, line
    assert "act (4,) (5,)" in capsys.readouterr().out
    schema = json.loads(Path("runs/cups/stages/02-right_cup/checkpoint/schema.json").read_text())
    assert (schema["names"], schema["state_names"]) == (page.ACTION, page.STATE)
    assert embodiments.load("hand.toml").names == tuple(page.ACTION)
    text = Path("cups.toml").read_text()
    Path("cups.toml").write_text('embodiment = "hand.toml"\n' + text)
    assert main(["doctor", "cups.toml"]) == 0

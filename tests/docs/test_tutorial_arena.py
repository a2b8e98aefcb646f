"""The page "Add an arena" does what it says: its files pass the contract, its commands run."""

import shlex
from pathlib import Path

import pytest
from blocks import blocks, run_blocks

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "add_an_arena.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The folder in which a reader has written all files of the page."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        run_blocks(PAGE, folder, patch)
        yield folder


def test_the_arena_passes_the_contract(page):
    import test_point_arena

    contract = test_point_arena.TestPoint()
    tests = [name for name in dir(contract) if name.startswith("test_")]
    assert len(tests) > 10
    for name in tests:
        getattr(contract, name)()


@pytest.mark.slow
def test_its_commands_run(page, capsys):
    from holdfast.cli import main

    lines = [line for block in blocks(PAGE) if block.language == "bash" for line in block.text.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("holdfast ")]
    assert [command[0] for command in commands] == ["watch", "record", "train", "evaluate", "report"]
    for command in commands:
        assert main(command) == 0, capsys.readouterr().err
    assert "score 100 of 100" in capsys.readouterr().out
    assert (page / "runs" / "points" / "report" / "index.html").exists()

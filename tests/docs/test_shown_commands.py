"""Every command of README and the pages works on the files that they show, on tiny data."""

import re
from pathlib import Path

import pytest
from blocks import blocks
from shown_commands import REPOSITORY, shown_commands, write_files
from studies.studied import write_folder
from toys import draw_quickly

from holdfast.arenas import watch
from holdfast.core.records import Task
from holdfast.evaluate import rollout

README = REPOSITORY / "README.md"
# The code of tutorials is run by tests of their own, except where a page of README's world does.
TUTORIALS = [REPOSITORY / "docs" / "tutorials" / "add_a_method.md"]
FOLDERS = [REPOSITORY / "docs", REPOSITORY / "docs" / "results"]
PAGES = [*(page for folder in FOLDERS for page in sorted(folder.glob("*.md"))), *TUTORIALS]
SHOWING = [page for page in PAGES if shown_commands(page)]


def test_make_has_the_shown_targets():
    made = re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text(), re.M)
    text = "\n".join(block.text for page in (README, *PAGES) for block in blocks(page))
    shown = set(re.findall(r"^make (\w+)", text, re.M))
    assert {"quickstart"} <= shown <= set(made)


@pytest.fixture(scope="module")
def world(tmp_path_factory, trials_in_this_process):
    """The commands of README, carried out from top to bottom in the current folder, on tiny data."""
    from toy_world import write_dataset

    from holdfast.embodiments import load

    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        draw_quickly(patch)
        patch.setattr(watch, "_RATE", 2)  # pictures a second
        patch.setattr(rollout, "_FILM_RATE", 2)
        for page in (README, *SHOWING):
            write_files(page)
        shown = [command for command in shown_commands(README) if not command.only_parsed]
        # README's own datasets: one is recorded by a later command, the other is the reader's.
        next(command for command in shown if command.words[0] == "record").run()
        task = Task("wipe_table", "Wipe the table.", ("left",))
        piper, cameras = load("piper_x_pair"), ("head", "left_wrist", "right_wrist", "front")
        write_dataset(Path("me/wipe_table"), task, piper, episodes=2, length=20, size=32, cameras=cameras)
        for command in shown:
            command.run()
        write_folder("study.toml", folder / "runs" / "replay-frequency")
        yield {command.text for command in shown}


@pytest.mark.slow
@pytest.mark.timeout(1800)  # README's commands take one minute of CPU time, on a busy machine much longer
def test_readme(world):
    assert Path("runs/kitchen-sequential/report/index.html").exists()
    assert Path("robot/current/manifest.json").exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.name)
def test_page(world, page):
    for command in shown_commands(page):
        if not command.only_parsed and command.text not in world:
            command.run()


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.name)
def test_what_cannot_run_here_is_parsed(page):
    for command in shown_commands(page):
        if command.only_parsed:
            command.parse()

"""The commands that pages show, made small enough for a test, and the folder in which they run."""

import argparse
import logging
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from blocks import blocks
from toys import TINY

from holdfast.cli import main
from holdfast.commands import train

REPOSITORY = Path(__file__).parents[2]

# What is appended to a command, so that it takes a second or two; a flag given twice has its last value.
SMALL = {
    "train": ("--steps=2", "--batch_size=2", "--device=cpu"),
    "evaluate": ("--trials", "1", "--stages", "2", "--horizon", "8", "--processes", "1", "--device", "cpu"),
    "record": ("--episodes", "1", "--size", "32", "--processes", "1"),
    "rollout": ("--trials", "1", "--seconds", "0.5", "--device", "cpu", "--fast"),
    "twin": ("--seeds", "0:1", "--processes", "1"),
    "run": ("--dry-run",),
    "lerobot-eval": (
        *("--env.height=32", "--env.width=32", "--env.episode_length=8", "--policy.device=cpu"),
        *("--eval.n_episodes=1", "--eval.batch_size=1"),
    ),
}
# Commands that are parsed and no more, by page or by how they begin, and why.
PARSED = {
    r"docs/results/": "a record of what was run once, for hours",
    r"torchrun|srun": "needs several ranks; tests/train/test_parallel.py starts them",
    r"holdfast serve": "serves until it is stopped; tests/serve does that",
    r"holdfast score (?!.*--(agreement|export|import))": "serves until it is stopped; tests/console does that",
    r"holdfast rollout .*--server": "needs a server; tests/robots has one",
    r"holdfast import": "needs the files of other programs; tests/commands/test_import_command.py makes them",
    r"holdfast study run": "starts Ray; tests/studies/test_study_on_ray.py does that",
    r"docs/arenas.md|holdfast arena setup|holdfast .*--arena": "needs other simulators; tests/arenas starts workers",
    r"holdfast score runs/(cw10|libero_goal)-er": "needs runs in other simulators; tests/console has scores of them",
    r"holdfast train .*lerobot/pi05_base": "needs the hub; tests/train/test_pi05_train.py has a tiny one",
}
_COMMAND = re.compile(r"(?:^|^\S*/bin/|^(?:srun )?torchrun .*-m )holdfast (.+)|^(lerobot-eval .+)")


@dataclass(frozen=True)
class ShownCommand:
    """A command of a page: where it stands, and its words, those after `holdfast` or all of `lerobot-eval ...`."""

    place: str
    text: str
    words: tuple[str, ...]

    @property
    def only_parsed(self) -> bool:
        """Whether it cannot run here."""
        return any(re.match(pattern, said) for pattern in PARSED for said in (self.place, self.text))

    @property
    def small(self) -> list[str]:
        """Its words, and those that make it small."""
        if "--help" in self.words:
            return list(self.words)
        from_saved = any(word.startswith("--policy.path=") for word in self.words)  # which has a size
        tiny = TINY if self.words[0] == "train" and not from_saved else ()
        return [*self.words, *tiny, *SMALL.get(self.words[0], ())]

    def run(self) -> None:
        """Run it, small, in the current folder; it must succeed."""
        try:
            code = _lerobot_eval(self.small) if self.words[0] == "lerobot-eval" else main(self.small)
        except SystemExit as end:  # argparse
            code = end.code
        assert code == 0, f"{self.place}: `{self.text}` ended with {code}"

    def parse(self) -> None:
        """Give it to its real parser, and stop there."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(argparse.ArgumentParser, "parse_args", _then_stop(argparse.ArgumentParser.parse_args))
            patch.setattr(train, "parse", _then_stop(train.parse))
            try:
                main(list(self.words))
            except _Parsed:
                return
            except SystemExit:  # argparse has said why
                pass
        raise AssertionError(f"{self.place}: `{self.text}` was refused")


def _lerobot_eval(words: list[str]) -> int:
    from lerobot.scripts import lerobot_eval

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        patch.setattr(logging.root, "handlers", [])  # it adds its own
        lerobot_eval.main()
    return 0


class _Parsed(BaseException):
    """A command was parsed."""


def _then_stop(parse):
    def parsed(*given, **named):
        parse(*given, **named)
        raise _Parsed

    return parsed


def shown_commands(page: Path) -> list[ShownCommand]:
    """The commands in a page's blocks, in order. A line with a bare `...` is a sketch, not a command."""
    found = []
    for block in blocks(page):
        if block.language not in ("", "bash"):
            continue
        for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
            text = re.sub(r"\s+(#.*|&)$", "", line.strip())
            if (match := _COMMAND.search(text)) and "..." not in text:
                place = f"{page.relative_to(REPOSITORY)}, block at line {block.line}"
                found.append(ShownCommand(place, text, tuple(shlex.split(match[1] or match[2]))))
    return found


def write_files(page: Path) -> None:
    """Write the files that a page shows into the current folder."""
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text)

"""A flag's value of another type is named with what it should be, before draccus sees it."""

import pytest

from holdfast.commands.flags import parse
from holdfast.core.errors import HoldfastError
from holdfast.train.config import TrainConfig


def parsed(*words):
    return parse(TrainConfig, "train", ["--stream=single_arm", *words], "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--steps=[4, 8]"], r"--steps must be a whole number, got '\[4, 8\]'"),
        (["--steps=1e3"], "--steps must be a whole number, got '1e3'"),
        (["--steps="], "--steps must be a whole number, got nothing"),
        (["--steps", "--wait"], "--steps must be a whole number, got nothing"),
        (["--seed", "true"], "--seed must be a whole number, got 'true'"),
        (["--optim.ema=no"], "--optim.ema must be a number, got 'no'"),
        (["--optim.lr=fast"], "--optim.lr must be a number or null, got 'fast'"),
        (["--optim.accumulate=2.5"], "--optim.accumulate must be a whole number or null, got '2.5'"),
        (["--wait=nope"], "--wait must be true or false, got 'nope'"),
        (["--tasks=a,b"], r"--tasks must be a list like \[a, b\], got 'a,b'"),
        (["--tasks=[a"], r"--tasks must be a list like \[a, b\], got '\[a'"),
        (["--task-steps={a: x}"], r"--task_steps must be a table in quotes, like '\{name: 1\}', got '\{a: x\}'"),
        (["--replay.weights=[1]"], r"--replay.weights must be a table in quotes, like '\{name: 0.5\}', got '\[1\]'"),
        (["--policy=act"], r"--policy stands for several flags\. Give one of them: --policy.type, --policy.path\.$"),
    ],
)
def test_a_wrong_type_is_named(words, said):
    with pytest.raises(HoldfastError, match=said):
        parsed(*words)


def test_what_fits_is_taken():
    config = parsed(
        *("--optim.lr=1e-3", "--seed=1_0", "--wait=yes", "--json=false", "--tasks=[press_button]", "--output=5"),
        *("--replay.alarm=null", "--optim.accumulate", "2", "--task_steps={press_button: 8}", "--optim.clip=1"),
    )
    assert (config.optim.lr, config.seed, config.wait, config.tasks, config.output) == (
        1e-3,
        10,
        True,
        ["press_button"],
        "5",
    )
    assert (config.replay.alarm, config.optim.accumulate, config.task_steps) == (None, 2, {"press_button": 8})
    assert config.optim.clip == 1.0

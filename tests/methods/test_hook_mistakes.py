"""What hooks of a user's own method raise or wrongly return: one line with the hook, the place and what is right."""

from types import SimpleNamespace

import pytest
import torch

from holdfast.core.errors import HoldfastError
from holdfast.methods import build_method
from holdfast.methods.method import Method
from holdfast.methods.state import MethodState
from holdfast.replay.config import ReplayConfig

STAGE = SimpleNamespace(number=2, steps=10, frequency=0.5)
GIVEN = {
    "begin": (None, None, None, 0),
    "replayed_rows": (STAGE, 0, 8, ReplayConfig(), 0),
    "extra_loss": ({}, None, None, None),
    "combine": ([torch.zeros(2), torch.zeros(3)], [torch.zeros(2), torch.zeros(3)]),
    "finish": (None, None, None),
    "keep": (None, None, None),
    "kept_shapes": (None,),
}
RIGHT = [
    ("begin", None),
    ("begin", "Frozen."),
    ("replayed_rows", 0),
    ("replayed_rows", 8),
    ("extra_loss", None),
    ("extra_loss", torch.tensor(0.5)),
    ("combine", [torch.ones(2), torch.ones(3)]),
    ("finish", None),
    ("finish", {"share": 0.5}),
    ("kept_shapes", {}),
]
WRONG = [
    ("begin", True, "text, or None, got True"),
    ("replayed_rows", 4.0, "an int from 0 to the batch size, 8, got 4.0"),
    ("replayed_rows", 9, "an int from 0 to the batch size, 8, got 9"),
    ("replayed_rows", -1, "got -1"),
    ("replayed_rows", None, "got None"),
    ("extra_loss", 0.5, "a tensor of one number, or None, got 0.5"),
    ("extra_loss", torch.zeros(3), "a tensor of one number"),
    ("combine", [torch.ones(2)], "a list of tensors with the shapes of `new`"),
    ("combine", [torch.ones(3), torch.ones(2)], "a list of tensors with the shapes of `new`"),
    ("combine", None, "got None"),
    ("finish", 0.5, "a dict without the keys event and method, or None, got 0.5"),
    ("finish", {"event": "mine"}, "without the keys event and method"),
    ("kept_shapes", None, "a dict of names and shapes, got None"),
]


def made(hook, result, **more):
    """A method with one hook, which returns the result."""
    settings = {"replays": True} | ({"needs": "elements"} if hook == "combine" else {}) | more
    return type("Mine", (Method,), {hook: lambda self, *given: result, **settings})()


@pytest.mark.parametrize(("hook", "result"), RIGHT)
def test_what_a_hook_may_return_is_passed_on(hook, result):
    assert getattr(made(hook, result), hook)(*GIVEN[hook]) is result


@pytest.mark.parametrize(("hook", "result", "message"), WRONG)
def test_what_a_hook_must_not_return_is_named(hook, result, message):
    with pytest.raises(HoldfastError) as found:
        getattr(made(hook, result), hook)(*GIVEN[hook])
    assert str(found.value).startswith(f"Mine.{hook}() must return ")
    assert message in str(found.value)


@pytest.mark.parametrize(
    ("shapes", "result", "message"),
    [
        ({}, {"a": torch.zeros(2)}, "a MethodState, or None, got {'a'"),
        ({"a": (2,)}, None, r"a MethodState, because kept_shapes\(\) lists 1 tensors, got None"),
    ],
)
def test_what_is_kept_is_a_state_of_those_shapes(shapes, result, message):
    method = made("keep", result, kept_shapes=lambda self, policy: shapes)
    with pytest.raises(HoldfastError, match=rf"Mine\.keep\(\) must return {message}"):
        method.keep(*GIVEN["keep"])
    state = MethodState({"a": torch.zeros(2)})
    assert made("keep", state, kept_shapes=lambda self, policy: {"a": (2,)}).keep(*GIVEN["keep"]) is state
    assert made("keep", None, kept_shapes=lambda self, policy: {}).keep(*GIVEN["keep"]) is None


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (MethodState({"a": 0.5}), "it has a, a float; tensors must be torch's"),
        (MethodState({"a": torch.zeros(2)}, {"b": torch.zeros(2)}), "it has values that JSON cannot hold: .*Tensor"),
    ],
)
def test_a_state_that_cannot_be_written_is_refused(state, message):
    with pytest.raises(HoldfastError, match=message):
        state.check({"a": (2,)}, "it")


def test_an_exception_is_one_line_with_its_place_in_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from holdfast.methods.method import Method\n"
        "class Mine(Method):\n"
        "    def begin(self, policy, task, first_images, seed):\n"
        "        return helped()\n"
        "def helped():\n"
        "    raise ValueError('one\\ntwo')\n"
    )
    method = build_method("mine.py:Mine", {})
    with pytest.raises(HoldfastError, match=r"^Mine\.begin\(\) failed in line 6 of mine\.py: ValueError: one two$"):
        method.begin(*GIVEN["begin"])


def test_an_error_of_ours_is_left_as_it_is():
    def extra_loss(self, batch, loss, policy, kept):
        raise HoldfastError("The disk is full.")

    with pytest.raises(HoldfastError, match=r"^The disk is full\.$"):
        type("Mine", (Method,), {"extra_loss": extra_loss})().extra_loss({}, None, None, kept=None)

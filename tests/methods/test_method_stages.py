"""The stages that a method gives are checked before any work: they may be a stranger's."""

from dataclasses import replace

import pytest
from toys import stream_of

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Stage
from holdfast.methods import METHODS
from holdfast.methods.method import Method
from holdfast.train.config import TrainConfig
from holdfast.train.plan import stages_of


@pytest.mark.parametrize(
    ("arrangement", "given", "message"),
    [
        ("stream", [(1, "a", (0,)), (2, "a", (0,)), (3, "b", (1,))], r"stage 2 'b', which learns visit 2 .* but it"
         r" gives stage 2 'a', which learns visit 1 of the stream\."),
        ("stream", [(1, "a", (0, 1))], "gives stage 1 'a', which learns visit 1, 2"),
        ("stream", [(1, "a", (0,)), (2, "b", (1,))], "must give stage 3 'a', .* gives no further stage"),
        ("stream", [(1, "a", (0,)), (2, "b", (7,)), (3, "a", (2,))], "gives stage 2 'b', which learns visit 8"),
        ("stream", [(1, "a", (0,)), (2, "second", (1,)), (3, "a", (2,))], "gives stage 2 'second'"),
        ("alone", [(1, "a", (0,)), (2, "b", (1,)), (3, "a", (2,))], "must give no further stage, but .* stage 3 'a'"),
        ("together", [(1, "warmup", (0, 1)), (2, "all", (0, 1))], "must give no further stage"),
        ("together", [(1, "all", (0, 1, 2))], "which learns visit 1, 2 of the stream, but .* visit 1, 2, 3"),
    ],
)  # fmt: skip
def test_stages_that_do_not_fit_the_arrangement_are_refused(monkeypatch, arrangement, given, message):
    kind = type("Mine", (Method,), {
        "arrangement": arrangement,
        "stages": lambda self, stream, steps, frequency: tuple(Stage(*stage, steps=1) for stage in given),
    })  # fmt: skip
    monkeypatch.setitem(METHODS, "mine", kind)
    with pytest.raises(HoldfastError, match=message) as found:
        stages_of(TrainConfig(stream="s", method="mine"), stream_of("a", "b", "a"))
    assert f"--method=mine has the arrangement '{arrangement}'" in str(found.value)


def one(**changes):
    """The only stage of a stream of one task, with some of its fields changed."""
    return replace(Stage(1, "a", (0,), 5, start="base"), **changes)


def fails(*_):
    raise KeyError("boo")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (lambda *_: (one(steps=-5),), "steps must be at least 1"),
        (lambda *_: (one(steps=10.5),), "steps and learns must be whole numbers"),
        (lambda *_: (one(number="1"),), "number, steps and learns must be whole"),
        (lambda *_: (one(learns=("0",)),), "learns must be whole"),
        (lambda *_: (one(learns=0),), "must give a tuple of stages, but it failed: TypeError"),
        (lambda *_: (one(frequency=1.7),), "frequency must be at least 0 and below 1"),
        (lambda *_: (one(frequency=float("nan")),), "frequency must be"),
        (lambda *_: (one(start="scratch"),), "start must be 'base' or 'previous'"),
        (lambda *_: (one(name="../../evil"),), r"name '../../evil' must be letters"),
        (lambda *_: None, "must give a tuple of stages, but it failed: TypeError"),
        (lambda *_: [7], r"must give objects of holdfast.core.records.Stage, got 7"),
        (fails, "failed: KeyError: 'boo'"),
    ],
)
def test_stages_that_cannot_be_trained_are_refused(monkeypatch, stages, message):
    kind = type("Mine", (Method,), {"arrangement": "together", "stages": stages})
    monkeypatch.setitem(METHODS, "mine", kind)
    with pytest.raises(HoldfastError, match=message) as found:
        stages_of(TrainConfig(stream="s", method="mine"), stream_of("a"))
    assert "stages() of --method=mine" in str(found.value)


def test_a_generator_of_stages_with_lists_of_visits_will_do(monkeypatch):
    def stages(self, stream, steps, frequency):
        yield from (Stage(i + 1, name, [i], 7) for i, name in enumerate(stream.names))

    monkeypatch.setitem(METHODS, "mine", type("Mine", (Method,), {"stages": stages}))
    found = stages_of(TrainConfig(stream="s", method="mine"), stream_of("a", "b"))
    assert [(stage.name, stage.learns) for stage in found] == [("a", (0,)), ("b", (1,))]


def test_a_single_stage_may_have_any_name_and_length(monkeypatch):
    kind = type("Mine", (Method,), {"arrangement": "together", "stages": lambda *a: (Stage(1, "all", (0, 1), 7),)})
    monkeypatch.setitem(METHODS, "mine", kind)
    (stage,) = stages_of(TrainConfig(stream="s", method="mine"), stream_of("a", "b", "a"))
    assert (stage.name, stage.steps) == ("all", 7)

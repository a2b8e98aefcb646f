"""Mistakes in a method's class are found when it is defined, and a method that replays does so by default."""

from dataclasses import dataclass

import pytest
from toys import stream_of

from holdfast.core.errors import HoldfastError
from holdfast.methods import METHODS, build_method
from holdfast.methods.method import Method


def test_a_method_that_replays_gets_stages_that_replay():
    class Mine(Method):
        replays = True

    stages = Mine().stages(stream_of("a", "b", "c"), [10, 10, 20], 0.5)
    assert [stage.steps for stage in stages] == [10, 20, 40]
    assert [stage.frequency for stage in stages] == [0.0, 0.5, 0.5]
    assert [stage.start for stage in stages] == ["base", "previous", "previous"]


def test_class_variables_with_a_type_would_become_options():
    with pytest.raises(TypeError, match="replays would become an option"):

        class Mine(Method):
            replays: bool = True


def test_what_is_kept_needs_its_shapes():
    with pytest.raises(TypeError, match=r"needs kept_shapes"):

        class Mine(Method):
            def keep(self, policy, losses, kept):
                return None


def test_only_a_stream_has_earlier_tasks_to_replay():
    with pytest.raises(TypeError, match=r"Mine\.replays needs arrangement 'stream'"):

        class Mine(Method):
            arrangement = "alone"
            replays = True


def test_a_method_that_combines_gradients_needs_elements_and_adds_nothing_to_the_loss():
    with pytest.raises(TypeError, match=r"needs `needs = 'elements'`"):

        class Mine(Method):
            def combine(self, new, replayed):
                return new

    with pytest.raises(TypeError, match="which gradient would get the term"):

        class Both(Method):
            needs = "elements"

            def combine(self, new, replayed):
                return new

            def extra_loss(self, batch, loss, policy, kept):
                return None


def test_a_method_cannot_need_what_no_policy_has():
    with pytest.raises(TypeError, match=r"needs must be one of .*'velocities'.*, got 'velocity'"):

        class Mine(Method):
            needs = "velocity"


def test_a_method_cannot_be_arranged_in_a_way_that_no_reader_knows():
    with pytest.raises(TypeError, match=r"arrangement must be one of .*'together'.*, got 'sideways'"):

        class Mine(Method):
            arrangement = "sideways"


def test_a_method_cannot_mix_in_a_way_that_is_not_there():
    with pytest.raises(TypeError, match=r"Mine\.mix must be one of .*'row'.*, got 'rows'"):

        class Mine(Method):
            replays = True
            mix = "rows"


def test_a_misspelled_hook_is_found_and_functions_of_its_own_are_not():
    with pytest.raises(TypeError, match=r"Mine\.extra_los is no hook .* Did you mean extra_loss\?"):

        class Mine(Method):
            def extra_los(self, batch, loss, policy, kept):
                return None

    class Helped(Method):
        def distance(self, weights):
            return 0.0

        def _keeps(self):
            return True


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"keps": lambda self: None}, r"Mine\.keps is no hook .* Did you mean keep\?"),
        ({"replay": True}, r"Mine\.replay is no setting of a method .* Did you mean replays\?"),
        ({"need": "elements"}, r"Mine\.need is no setting .* Did you mean needs\?"),
        ({"begin": 3, "__annotations__": {"begin": int}}, r"Mine\.begin must be a function, because begin is a hook"),
        ({"__annotations__": {"keep": float}}, r"Mine\.keep must be a function"),
        ({"replays": "yes"}, r"Mine\.replays must be True or False, got 'yes'"),
        ({"replayed_rows": lambda self, *given: 1}, r"Mine has replayed_rows\(\) and therefore needs `replays = True`"),
        (
            {"needs": "elements", "combine": lambda self, new, replayed: new},
            r"Mine has combine\(\) and therefore needs `replays = True`",
        ),
    ],
)
def test_what_would_have_no_effect_is_found(content, message):
    with pytest.raises(TypeError, match=message):
        type("Mine", (Method,), content)


def test_an_option_may_be_named_nearly_as_a_setting():
    @dataclass(frozen=True)
    class Mine(Method):
        need: float = 1.0
        steps = 7

    assert Mine(need=2.0).need == 2.0


def test_a_hook_that_cannot_take_its_arguments_is_found():
    with pytest.raises(TypeError, match=r"Mine\.extra_loss must take \(self, batch, loss, policy, kept\)"):

        class Mine(Method):
            def extra_loss(self, batch, loss, policy):
                return None

    class Fewer(Method):
        def extra_loss(self, batch, loss, *others):
            return None


def test_an_option_without_a_default_is_named(monkeypatch):
    @dataclass(frozen=True)
    class Mine(Method):
        strength: float

    monkeypatch.setitem(METHODS, "mine", Mine)
    for options in ({}, {"strength": "2"}):
        with pytest.raises(HoldfastError, match=r"--method=mine: option strength needs a default"):
            build_method("mine", options)


def test_what_the_check_of_options_raises_is_one_line(monkeypatch):
    @dataclass(frozen=True)
    class Mine(Method):
        strength: float = 1.0

        def __post_init__(self):
            raise ValueError("too\nstrong")

    monkeypatch.setitem(METHODS, "mine", Mine)
    for options in ({}, {"strength": "2"}):
        with pytest.raises(HoldfastError, match=r"^--method=mine: too strong$"):
            build_method("mine", options)


def test_options_of_a_class_that_is_no_dataclass_are_explained(monkeypatch):
    class Mine(Method):
        strength: float = 1.0

    monkeypatch.setitem(METHODS, "mine", Mine)
    with pytest.raises(HoldfastError, match=r"Make the class a @dataclass"):
        build_method("mine", {"strength": "2"})
    monkeypatch.setitem(METHODS, "mine", dataclass(frozen=True)(Mine))
    assert build_method("mine", {"strength": "2"}).strength == 2.0

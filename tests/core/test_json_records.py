"""Records come back from JSON as they were, and whatever is not such a record is refused by name."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, read_json, to_json


@dataclass(frozen=True)
class Wheel:
    radius: float
    kind: Literal["front", "back"] = "front"

    def __post_init__(self):
        if self.radius <= 0:
            raise HoldfastError(f"A wheel's radius must be above 0, got {self.radius}.")


@dataclass(frozen=True)
class Cart:
    name: str
    wheels: tuple[Wheel, ...]
    loads: dict[str, tuple[int, ...]] | None = None


CART = Cart("one", (Wheel(0.1), Wheel(1 / 3, "back")), {"a": (1, 2)})


def test_a_record_comes_back_equal_and_with_tuples():
    content = to_json(CART)
    assert content == {
        "name": "one",
        "wheels": [{"radius": 0.1, "kind": "front"}, {"radius": 1 / 3, "kind": "back"}],
        "loads": {"a": [1, 2]},
    }
    assert from_json(Cart, json.loads(json.dumps(content)), "cart.json") == CART


def test_plain_values_are_plain_all_the_way_down():
    assert to_json((1, {2: (3,)})) == [1, {"2": [3]}]
    assert to_json(None) is None


def test_fields_with_a_default_may_be_left_out():
    assert from_json(Cart, {"name": "one", "wheels": [{"radius": 1}]}, "cart.json") == Cart("one", (Wheel(1.0),))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "input should be an object"),
        (None, "input should be an object"),
        ({"name": "one"}, "wheels is missing"),
        ({"name": 1, "wheels": []}, "name: input should be a valid string, got '1'"),
        ({"name": "one", "wheels": [{"radius": "1"}]}, r"wheels\[0\].radius: input should be a valid number, got '1'"),
        ({"name": "one", "wheels": [{"radius": True}]}, r"wheels\[0\].radius"),
        ({"name": "one", "wheels": [{"radius": 1, "colour": 2}]}, r"wheels\[0\].colour is not known"),
        ({"name": "one", "wheels": [{"radius": 1, "kind": "left"}]}, "input should be 'front' or 'back', got 'left'"),
        ({"name": "one", "wheels": [], "loads": {"a": [1.5]}}, r"loads.a\[0\]"),
        ({"name": "one", "wheels": [{"radius": -1}]}, "radius must be above 0, got -1"),
    ],
)
def test_what_is_no_such_record_is_refused_with_file_field_and_value(content, says):
    with pytest.raises(HoldfastError, match=rf"^cart\.json cannot be used: .*{says}"):
        from_json(Cart, content, "cart.json")


@pytest.mark.parametrize("text", ["", "{", "\x00", "[1,"])
def test_a_file_that_is_no_json_is_named(tmp_path, text):
    file = tmp_path / "cart.json"
    file.write_text(text)
    with pytest.raises(HoldfastError, match=r"cart\.json cannot be read"):
        read_json(Cart, file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(HoldfastError, match=r"cart\.json cannot be read: No such file"):
        read_json(Cart, tmp_path / "cart.json")

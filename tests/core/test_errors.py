"""An error is one line that a terminal can show, whatever a hostile file has brought into it."""

import pytest

from holdfast.core.errors import HoldfastError, unknown


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\x1b[2Jb", "a\x00b", "a\u202eb", "a\ud800b", "a\u2028b"])
def test_what_a_terminal_would_act_on_is_escaped(text):
    said = str(HoldfastError(f"Key {text} is not known."))
    assert said.isprintable()
    assert said.startswith("Key a\\")
    assert str(unknown("key", text, [text])).isprintable()


def test_other_text_stays_as_it_is():
    assert str(HoldfastError("Tâche « plier » : 1 ≤ x. 折る")) == "Tâche « plier » : 1 ≤ x. 折る"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("task", "Unknown task 'fly'. Valid: walk."),
        ("task of stream 'zoo'", "Unknown task 'fly' of stream 'zoo'. Valid: walk."),
        ("column in line 1 of a.csv", "Unknown column 'fly' in line 1 of a.csv. Valid: walk."),
    ],
)
def test_a_wrong_name_stands_behind_its_noun(kind, says):
    assert str(unknown(kind, "fly", ["walk"])) == says

"""docs/study.md and its figures are what the evidence in docs/evidence gives."""

import re
from pathlib import Path

import pytest

from holdfast.studies.docs_page import FIGURES, write_page

DOCS = Path(__file__).parents[2] / "docs"
_NUMBER = r"-?\d+(?:\.\d+)?"
# Names that matplotlib makes of what is drawn, and a heat map's pixels: its numbers stand in it as text.
_MADE = r' id="[^"]*"|url\(#[^)]*\)|(?:xlink:)?href="[^"]*"|data:image[^"]*'


@pytest.fixture(scope="module")
def written():
    return write_page((DOCS / "study.md").read_text(), DOCS)


def test_the_page_says_what_the_evidence_says(written):
    assert (DOCS / "study.md").read_text() == written.text, "run `make study-docs`"


def test_the_figures_and_their_data_are_those_of_the_evidence(written):
    there = {f"{FIGURES}/{path.name}" for path in (DOCS / FIGURES).glob("*")}
    assert there == written.files.keys(), "run `make study-docs`"
    for name, made in written.files.items():
        stored = (DOCS / name).read_text()
        assert alike(stored, made) if name.endswith(".svg") else stored == made, f"{name}: run `make study-docs`"


def test_the_evidence_that_is_there_is_on_the_page():
    text = (DOCS / "study.md").read_text()
    for file in (DOCS / "evidence").glob("*"):
        assert f"(evidence/{file.name})" in text


def alike(one, other):
    """Whether two drawings have the same elements and texts at the same places, to the precision of a processor."""
    one, other = (re.sub(_MADE, "", svg) for svg in (one, other))
    if re.split(_NUMBER, one) != re.split(_NUMBER, other):
        return False
    pairs = zip(re.findall(_NUMBER, one), re.findall(_NUMBER, other), strict=True)
    return all(abs(float(a) - float(b)) < 0.01 for a, b in pairs)


def test_drawings_differ_if_a_point_or_a_text_does():
    drawing = '<path id="m1" d="M 10.123456 20"/><text>er 96.3</text>'
    assert alike(drawing, drawing.replace("123456", "123457").replace("m1", "m2"))
    assert not alike(drawing, drawing.replace("10.1", "10.2"))
    assert not alike(drawing, drawing.replace("96.3", "96.4"))
    assert not alike(drawing, drawing.replace("er", "joint"))

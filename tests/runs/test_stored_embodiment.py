"""The robot is part of the run: another one is refused by dimension and value, and a damaged file is noticed."""

import json
from dataclasses import replace

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.runs.embodiment import find_embodiment, read_embodiment, settle_embodiment

PAIR = EMBODIMENTS["piper_x_pair"]


def changed(place, **fields):
    dimensions = list(PAIR.dimensions)
    dimensions[place] = replace(dimensions[place], **fields)
    return replace(PAIR, dimensions=tuple(dimensions))


@pytest.fixture
def file(tmp_path):
    settle_embodiment(tmp_path / "embodiment.json", PAIR)
    return tmp_path / "embodiment.json"


def test_it_is_stored_once_with_its_hash_and_read_back_to_the_bit(file):
    before = file.read_bytes()
    settle_embodiment(file, PAIR)
    assert file.read_bytes() == before
    assert read_embodiment(file) == PAIR
    assert len(json.loads(before)["sha256"]) == 64


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (changed(1, upper=3.0), r"upper of 'left_joint_2.pos' was 3\.14\d+, now 3\.0"),
        (changed(0, step=0.05), r"step of 'left_joint_1.pos' was 0\.07, now 0\.05"),
        (changed(6, fastest=0.5), r"fastest of 'left_gripper.pos' was 0\.02, now 0\.5"),
        (changed(7, arm="left"), "arm of 'right_joint_1.pos' was 'right', now 'left'"),
        (replace(PAIR, dimensions=PAIR.dimensions[:7]), "its dimensions were left_joint_1.pos.*, now left_joint_1.pos"),
        (replace(PAIR, dimensions=PAIR.dimensions[::-1]), "now right_gripper.pos, right_joint_6.pos"),
        (None, "it was piper_x_pair, now none"),
    ],
)
def test_another_robot_is_refused_and_nothing_is_overwritten(file, asked, says):
    before = file.read_bytes()
    with pytest.raises(HoldfastError, match=says) as caught:
        settle_embodiment(file, asked)
    assert "another --output" in str(caught.value)
    assert file.read_bytes() == before


def test_a_run_without_a_robot_does_not_get_one_later(tmp_path):
    file = tmp_path / "embodiment.json"
    settle_embodiment(file, None)
    settle_embodiment(file, None)
    assert read_embodiment(file) is None
    with pytest.raises(HoldfastError, match="it was none, now piper_x_pair"):
        settle_embodiment(file, PAIR)


def test_the_name_of_the_robots_file_may_change(file):
    settle_embodiment(file, replace(PAIR, name="renamed"))
    assert read_embodiment(file).name == "piper_x_pair"


def test_a_run_of_before_asks_elsewhere_until_it_has_one(tmp_path, file):
    assert find_embodiment(tmp_path / "none.json", lambda: changed(0, step=0.05)) == changed(0, step=0.05)
    assert find_embodiment(file, pytest.fail) == PAIR


def forge(file, edit):
    """Change the content and give it a hash that fits, as somebody who knows the format could."""
    import hashlib

    content = json.loads(file.read_text())
    edit(content["embodiment"])
    body = json.dumps(content["embodiment"], sort_keys=True).encode()
    file.write_text(json.dumps({**content, "sha256": hashlib.sha256(body).hexdigest()}))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"embodiment": null}', '{"embodiment": 1, "sha256": 2}']
)
def test_hostile_text_is_a_clear_error(file, text):
    file.write_text(text)
    with pytest.raises(HoldfastError, match=r"embodiment\.json"):
        settle_embodiment(file, PAIR)


def test_an_edited_number_does_not_match_the_hash(file):
    file.write_text(file.read_text().replace("0.07", "0.09", 1))
    with pytest.raises(HoldfastError, match=r"embodiment\.json does not match its SHA-256.*Restore it"):
        read_embodiment(file)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda c: c["dimensions"][2].update(lower="0"), r"dimensions\[2\].lower: input should be a valid number"),
        (lambda c: c["dimensions"][2].update(lower=1e9), "needs finite lower < upper"),
        (lambda c: c["dimensions"][2].update(lower=float("nan")), "needs finite lower < upper"),
        (
            lambda c: c["dimensions"][0].update(kind="wheel"),
            r"dimensions\[0\].kind: input should be 'joint', 'gripper', 'target'",
        ),
        (lambda c: c["dimensions"][0].pop("name"), r"dimensions\[0\].name is missing"),
        (lambda c: c.update(extra=1), "extra is not known"),
        (lambda c: c.update(dimensions=[]), "needs dimensions of different names"),
        (lambda c: c.update(dimensions={}), "dimensions"),
    ],
)
def test_forged_content_names_the_field(file, edit, says):
    forge(file, edit)
    with pytest.raises(HoldfastError, match=rf"embodiment\.json cannot be used: .*{says}"):
        read_embodiment(file)

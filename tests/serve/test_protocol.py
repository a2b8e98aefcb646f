"""Questions: understood in each of their forms, and whatever is wrong is said."""

import numpy as np
import pytest
from bundles import SIZE, question

from holdfast.core.errors import HoldfastError
from holdfast.core.wire import pack, unpack
from holdfast.embodiments import EMBODIMENTS
from holdfast.serve.protocol import MessageCodec


@pytest.fixture(scope="module")
def codec(bundle):
    return MessageCodec(bundle, 3)


def read(codec, **changes):
    return codec.read(pack(question(**changes)), 0)


def test_a_question_in_both_forms(codec):
    asked = question(1)
    other = {f"observation.images.{name}": image for name, image in asked.pop("images").items()}
    other |= {"observation.state": asked.pop("state"), "task": asked.pop("prompt"), **asked}
    one, two = codec.read(pack(question(1)), 0), codec.read(pack(other), 0)
    assert one.task == two.task
    assert np.array_equal(one.state, two.state)
    assert (one.seed, one.number) == (two.seed, two.number) == (1, 3)
    for name, image in question(1)["images"].items():
        assert np.array_equal(one.images[name], image)
        assert np.array_equal(two.images[name], image)


def test_images_may_have_their_channels_first(codec):
    asked = question()
    turned = {name: np.ascontiguousarray(image.transpose(2, 0, 1)) for name, image in asked["images"].items()}
    for name, image in read(codec, images=turned).images.items():
        assert np.array_equal(image, asked["images"][name])


@pytest.mark.parametrize("prompt", ["press_button", "{}", " {} ", "press_BUTTON"])
def test_a_task_goes_by_its_name_or_its_words(codec, bundle, prompt):
    prompt = prompt.format(bundle.tasks["press_button"].instruction.rstrip("."))
    assert read(codec, prompt=prompt).task.name == "press_button"


def test_without_seed_and_number_the_connection_counts(codec):
    look = codec.read(pack(_without("seed", "number")), 7)
    assert (look.seed, look.number) == (0, 7)


def _without(*keys):
    return {key: value for key, value in question().items() if key not in keys}


IMAGE = np.zeros((SIZE, SIZE, 3), np.uint8)
FOUR = dict.fromkeys(("head", "front", "left_wrist", "right_wrist"), IMAGE)
WRONG = {
    "prompt": ({"prompt": "make tea"}, "Unknown prompt 'make tea'.*press_button"),
    "prompt number": ({"prompt": 3}, "A prompt is text, got '3'"),
    "both prompts": ({"task": "press_button"}, "'prompt' or 'task', not both"),
    "typo": ({"sead": 3}, "Unknown key 'sead' of a question. Did you mean 'seed'"),
    "short state": ({"state": np.zeros(13)}, "must be 14 numbers, got float64 of shape 13"),
    "state with axis": ({"state": np.zeros((1, 14))}, "shape 1 x 14"),
    "state of booleans": ({"state": np.zeros(14, bool)}, "got bool"),
    "state as list": ({"state": [0.0] * 14}, "got a list"),
    "nan": ({"state": np.array([0.0, np.nan, *[0.0] * 12])}, "not a finite number in left_joint_2.pos"),
    "beyond float32": ({"state": np.full(14, 1e300)}, "not a finite number in left_joint_1.pos"),
    "no camera": ({"images": {k: v for k, v in FOUR.items() if k != "front"}}, "Camera 'front' is missing"),
    "another camera": ({"images": {**FOUR, "side": IMAGE}}, "Unknown camera 'side'"),
    "images as list": ({"images": [IMAGE] * 4}, "'images' is a map"),
    "float image": ({"images": {**FOUR, "head": IMAGE.astype(np.float32)}}, "'head' must be uint8.*got float32"),
    "other size": ({"images": {**FOUR, "head": IMAGE[:16]}}, "shape 32 x 32 x 3, got uint8 of shape 16 x 32 x 3"),
    "grey image": ({"images": {**FOUR, "head": IMAGE[..., 0]}}, "got uint8 of shape 32 x 32"),
    "image as text": ({"images": {**FOUR, "head": "x"}}, "got 'x'"),
    "camera twice": ({"observation.images.head": IMAGE}, "'head' is there twice"),
    "negative seed": ({"seed": -1}, "'seed' must be a whole number"),
    "seed of a float": ({"seed": 1.5}, "'seed' must be"),
    "number true": ({"number": True}, "'number' must be"),
    "number too large": ({"number": 2**63}, "'number' must be"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(codec, name):
    changes, said = WRONG[name]
    with pytest.raises(HoldfastError, match=said):
        read(codec, **changes)


@pytest.mark.parametrize("key", ["state", "images", "prompt"])
def test_what_is_missing_is_said(codec, key):
    with pytest.raises(HoldfastError, match=r"missing|neither"):
        codec.read(pack(_without(key)), 0)


def test_a_question_is_a_binary_map(codec):
    with pytest.raises(HoldfastError, match="got text"):
        codec.read("hello", 0)
    with pytest.raises(HoldfastError, match="is a map, got a list"):
        codec.read(pack([1]), 0)


def test_an_idle_arm_is_held_where_it_was_measured(codec):
    for which, arms in enumerate((["left"], ["left", "right"])):
        look = codec.read(pack(question(which)), 0)
        actions = np.random.default_rng(9).normal(size=(3, 14)).astype(np.float32)
        answer = unpack(codec.answer(look, actions, 0.001, 0.002))
        active = EMBODIMENTS["piper_x_pair"].active(arms)
        assert np.array_equal(answer["active"], active)
        assert np.array_equal(answer["actions"][:, active], actions[:, active])
        assert (answer["actions"][:, ~active] == look.state[~active]).all()
        assert answer["actions"].dtype == np.float32
        assert answer["task"] == look.task.name
        assert answer["server_timing"] == {"wait_ms": 1.0, "infer_ms": 2.0}


def test_actions_that_are_no_numbers_are_not_sent(codec):
    with pytest.raises(HoldfastError, match="not finite"):
        codec.answer(read(codec), np.full((3, 14), np.nan), 0, 0)


def test_the_greeting_says_what_to_ask(codec, bundle):
    said = unpack(codec.greeting())
    assert said["tasks"]["place_fruits"]["arms"] == ["left", "right"]
    assert said["cameras"] == {name: [SIZE, SIZE] for name in FOUR}
    assert said["names"] == list(bundle.names)
    assert (said["horizon"], said["fps"], said["bundle"]) == (3, 30, bundle.hash)
    assert said["limit"] > len(pack(question()))
